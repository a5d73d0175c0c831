// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::fabric {

/// What a port can notice about its link, and counts (IBA Vol 1, 16.1.3.5). The last three have a
/// trap each (14.2.5.1).
enum class LinkError : std::uint8_t {
  kSymbol,               // SymbolErrorCounter
  kRecovery,             // LinkErrorRecoveryCounter
  kLocalIntegrity,       // LocalLinkIntegrityErrors, trap 129
  kBufferOverrun,        // ExcessiveBufferOverrunErrors, trap 130
  kFlowControlWatchdog,  // trap 131, no counter
};

}  // namespace verbatim::fabric

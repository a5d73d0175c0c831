// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/expected.h"
#include "host/fabric_transfer.h"

namespace verbatim::host {

/// Messages of a program to the process of a fabric and back, where the program waits for that
/// process. kNoDevice: it is gone. kTimedOut: it is stopped or overloaded. kNoMemory: the system
/// refuses. Any thread; where it can be cancelled, it can be cancelled here.
inline constexpr int kFabricPatienceMs = 5'000;
inline constexpr int kForEver = -1;

/// Sends a message as soon as the other side has room for it, with a descriptor if it is not
/// negative.
[[nodiscard]] Status send_waiting(int socket, std::span<const std::byte> octets,
                                  int descriptor) noexcept;
/// Takes the next message. Waits that long, or kForEver.
[[nodiscard]] Expected<ArrivedMessage> receive_waiting(int socket, std::span<std::byte> room,
                                                       int patience_ms);

}  // namespace verbatim::host

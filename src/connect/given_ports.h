// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/port_blocks.h"

namespace verbatim::connect {

/// The port numbers of this process that its programs did not choose: those of ids that were bound
/// to port zero.
[[nodiscard]] host::PortBlocks& given_ports();

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/umad.h>

namespace verbatim::umad {

/// Prints the header of a datagram that is about to be sent, if the program has asked for that with
/// umad_debug(2).
void dump_if_wanted(ib_user_mad* mad);

}  // namespace verbatim::umad

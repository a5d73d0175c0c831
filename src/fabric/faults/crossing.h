// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"

namespace verbatim::fabric {

/// What a link does to a packet that it carries.
struct Crossing {
  Duration delay{0};        // beside that of all links
  bool is_damaged = false;  // the port at the other end finds a wrong VCRC
};

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"
#include "fabric/drop_reason.h"
#include "fabric/topology/topology.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// A management datagram that the fabric discarded: when, where and why.
struct DropRecord {
  Instant at{};
  PortEnd port{};  // that discarded it
  DropReason reason{};
  wire::Lid source{};
  wire::Lid destination{};
  wire::MgmtClass mgmt_class{};
  std::uint16_t attribute_id = 0;
};

}  // namespace verbatim::fabric

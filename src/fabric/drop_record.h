// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "fabric/drop_reason.h"
#include "fabric/packet_header.h"
#include "fabric/topology/topology.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// A packet that the fabric discarded: when, where and why.
struct DropRecord {
  Instant at{};
  PortEnd port{};  // that discarded it
  DropReason reason{};
  PacketKind kind{};
  wire::Lid source{};
  wire::Lid destination{};
  wire::QpNumber dest_qp{};
  wire::MgmtClass mgmt_class{};    // of a management datagram
  std::uint16_t attribute_id = 0;  // likewise
};

}  // namespace verbatim::fabric

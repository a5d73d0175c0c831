// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fabric/mads/agent_table.h"
#include "fabric/mads/mad_keys.h"
#include "fabric/mads/mad_port.h"
#include "fabric/mads/mad_rules.h"
#include "fabric/management_packet.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// A datagram and the agent that gets it, during MadPort::handle_packet().
struct MadPort::Arrival {
  const MadAgent& agent;
  const ManagementPacket& packet;
  wire::MadView mad;
  std::uint16_t pkey_index;

  /// Of the request that this datagram may answer.
  [[nodiscard]] SendKey request() const noexcept {
    return {
        .agent = agent.number, .transaction = mad.transaction(), .mgmt_class = mad.mgmt_class()};
  }
  /// Of the message that this datagram may acknowledge or end. It has bit 7 of the method the other
  /// way round.
  [[nodiscard]] SendKey message() const noexcept {
    SendKey key = request();
    key.is_response = !is_response(mad);
    if (key.is_response) key.destination = packet.source;
    return key;
  }
  [[nodiscard]] ReceptionKey reception() const noexcept {
    return {.agent = agent.number,
            .transaction = mad.transaction(),
            .mgmt_class = mad.mgmt_class(),
            .method = mad.method(),
            .source = packet.source,
            .source_qp = packet.source_qp};
  }
};

}  // namespace verbatim::fabric

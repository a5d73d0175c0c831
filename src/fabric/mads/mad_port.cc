// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/mad_port.h"

#include <algorithm>

namespace verbatim::fabric {

Expected<AgentId> MadPort::register_agent(ClientId client, const Registration& registration) {
  const auto agent = agents_.add(client, registration);
  if (!agent) return agent.error();
  return (*agent)->id;
}

Status MadPort::unregister_agent(ClientId client, AgentId id) {
  const MadAgent* const agent = agents_.find(client, id);
  if (agent == nullptr) return Errc::kNoSuchObject;
  const AgentNumber number = agent->number;
  sends_.erase_if([&](const SendKey& key, const Send&) { return key.agent == number; });
  receptions_.erase_if(
      [&](const ReceptionKey& key, const Reception&) { return key.agent == number; });
  agents_.remove(*agent);
  return Ok{};
}

void MadPort::close_client(ClientId client) {
  for (std::uint32_t id = 0; id < kAgentsMax; ++id) {
    (void)unregister_agent(client, AgentId{id});  // an id that is free
  }
}

void MadPort::handle_timeout(Instant now) {
  for (std::size_t i = 0; i < kTimeoutsAtOnce; ++i) {
    const auto send = sends_.poll_due(now);
    const auto reception = receptions_.poll_due(now);
    if (send) handle_silence(*send);
    if (reception) receptions_.erase(*reception);
    if (!send && !reception) return;
  }
}

std::optional<ManagementPacket> MadPort::poll_transmit(Instant now) {
  while (!ready_.empty()) {
    const Ready ready = std::move(ready_.front());
    ready_.pop_front();
    if (const auto* packet = std::get_if<ManagementPacket>(&ready)) {
      ++counters_.sent;
      return *packet;
    }
    if (auto packet = transmit(now, std::get<SendKey>(ready))) {
      ++counters_.sent;
      return packet;
    }
  }
  return std::nullopt;
}

std::optional<Delivery> MadPort::poll_delivery() {
  if (deliveries_.empty()) return std::nullopt;
  Delivery delivery = std::move(deliveries_.front());
  deliveries_.pop_front();
  return delivery;
}

std::optional<Instant> MadPort::next_timeout() const noexcept {
  const auto send = sends_.next_deadline();
  const auto reception = receptions_.next_deadline();
  if (!send || !reception) return send ? send : reception;
  return std::min(*send, *reception);
}

}  // namespace verbatim::fabric

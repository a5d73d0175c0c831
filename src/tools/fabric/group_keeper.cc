// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/group_keeper.h"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/management/sa_message.h"

namespace verbatim::tools {
namespace {

constexpr std::chrono::milliseconds kTimeout{500};
constexpr std::uint32_t kRetries = 4;

}  // namespace

GroupKeeper::Place* GroupKeeper::place_of(std::uint32_t client) noexcept {
  const auto found = by_client_.find(client);
  return found != by_client_.end() ? found->second : nullptr;
}

void GroupKeeper::keep(std::uint32_t client, fabric::PortEnd port) {
  if (place_of(client) != nullptr) return;
  auto found = std::ranges::find_if(
      places_, [&](const std::unique_ptr<Place>& place) { return place->port == port; });
  if (found == places_.end()) {
    places_.push_back(std::make_unique<Place>());
    found = places_.end() - 1;
    (*found)->port = port;
  }
  ++(*found)->clients;
  by_client_[client] = found->get();
}

bool GroupKeeper::handle_request(std::uint32_t client, std::span<std::byte> message) {
  Place* const place = place_of(client);
  if (place == nullptr || message.size() != wire::Mad::kSize) return false;
  return place->memberships.handle_request(fabric::ClientId{client},
                                           message.first<wire::Mad::kSize>());
}

void GroupKeeper::handle_answer(std::uint32_t client, std::span<const std::byte> message) {
  if (Place* const place = place_of(client)) {
    place->memberships.handle_answer(fabric::ClientId{client}, message);
  }
}

void GroupKeeper::close(Instant now, std::uint32_t client) {
  Place* const place = place_of(client);
  if (place == nullptr) return;
  for (const auto& record : place->memberships.close(fabric::ClientId{client})) {
    leave(now, place->port, record);
  }
  by_client_.erase(client);
  if (--place->clients > 0) return;
  std::erase_if(places_, [&](const std::unique_ptr<Place>& each) { return each.get() == place; });
}

std::optional<fabric::AgentId> GroupKeeper::agent_at(fabric::PortEnd port) {
  const std::uint64_t key = std::uint64_t{port.node} << 8 | port.port;
  if (const auto known = agents_.find(key); known != agents_.end()) return known->second;
  const auto agent = fabric_.register_agent(port, kOwn,
                                            {.mgmt_class = wire::MgmtClass::kSubnetAdministration,
                                             .class_version = wire::SaHeader::kClassVersion});
  if (!agent) return std::nullopt;
  agents_.emplace(key, *agent);
  return *agent;
}

/// The answer is for no program, so it is dropped when it arrives.
void GroupKeeper::leave(Instant now, fabric::PortEnd port, const wire::MulticastRecord& record) {
  const fabric::PortStatus status = fabric_.port_status(port);
  const auto agent = agent_at(port);
  if (!agent || status.sm_lid == wire::Lid{}) return;
  std::array<std::byte, wire::Mad::kSize> octets;
  wire::SaMessage{.method = wire::MadMethod::kDelete,
                  .transaction = wire::TransactionId{++transactions_},
                  .component_mask = wire::MulticastRecord::kGroup |
                                    wire::MulticastRecord::kPortGid |
                                    wire::MulticastRecord::kJoinState}
      .emit(record, octets);
  fabric::UserMad mad;
  mad.agent = *agent;
  mad.timeout = kTimeout;
  mad.retries = kRetries;
  mad.address = {.lid = status.sm_lid,
                 .qpn = wire::QpNumber::kGsi,
                 .qkey = wire::QKey::kGsi,
                 .level = status.sm_level};
  mad.octets.assign(octets.begin(), octets.end());
  (void)fabric_.post_send(now, port, kOwn, std::move(mad));  // refused only for want of room
}

}  // namespace verbatim::tools

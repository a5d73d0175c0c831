// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/agent_table.h"

#include <algorithm>

#include "base/byte_order.h"
#include "fabric/mads/mad_rules.h"
#include "wire/management/rmpp.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kAgentNumberMask = 0x00ff'ffff;
constexpr std::uint8_t kClassMax = 0x4f;  // but for directed routes
constexpr std::uint8_t kVersionMax = 0x82;

[[nodiscard]] std::uint32_t number_of(const std::array<std::uint8_t, 3>& oui) noexcept {
  return (std::uint32_t{oui[0]} << 16) | (std::uint32_t{oui[1]} << 8) | oui[2];
}
[[nodiscard]] std::uint32_t oui_of(const wire::MadView& mad) noexcept {
  if (!wire::has_oui(mad.mgmt_class())) return 0;
  return load_be<std::uint32_t, 36>(mad.octets()) & 0x00ff'ffff;
}
[[nodiscard]] std::size_t method_index(wire::MadMethod method) noexcept {
  return static_cast<std::size_t>(method) & 0x7f;
}

[[nodiscard]] bool is_of_subnet(wire::MgmtClass mgmt_class) noexcept {
  return mgmt_class == wire::MgmtClass::kSubnetLidRouted ||
         mgmt_class == wire::MgmtClass::kSubnetDirectedRoute;
}

/// The rules of Linux for what a program asks for.
[[nodiscard]] bool fits(const Registration& registration) noexcept {
  const wire::MgmtClass mgmt_class = registration.mgmt_class;
  const auto number = static_cast<std::uint8_t>(mgmt_class);
  const bool is_smi = registration.qpn == wire::QpNumber::kSmi;
  if (!is_smi && registration.qpn != wire::QpNumber::kGsi) return false;
  if (number == 0) return true;
  if (number > kClassMax && mgmt_class != wire::MgmtClass::kSubnetDirectedRoute) return false;
  if (registration.class_version > kVersionMax) return false;
  if (is_of_subnet(mgmt_class) != is_smi) return false;
  if (wire::has_oui(mgmt_class) && number_of(registration.oui) == 0) return false;
  return registration.rmpp == RmppMode::kNone || wire::has_rmpp(mgmt_class);
}

}  // namespace

AgentTable::ClassKey AgentTable::key_of(wire::QpNumber qpn, wire::MgmtClass mgmt_class,
                                        std::uint8_t version, std::uint32_t oui) noexcept {
  return ClassKey{(static_cast<std::uint64_t>(qpn) << 40) |
                  (static_cast<std::uint64_t>(mgmt_class) << 32) | (std::uint64_t{version} << 24) |
                  oui};
}

AgentTable::ClassKey AgentTable::key_of(const Registration& registration) noexcept {
  const bool has_oui = wire::has_oui(registration.mgmt_class);
  return key_of(registration.qpn, registration.mgmt_class, registration.class_version,
                has_oui ? number_of(registration.oui) : 0);
}

AgentNumber AgentTable::next_number() noexcept {
  do {
    last_number_ = (last_number_ + 1) & kAgentNumberMask;
  } while (last_number_ == 0 || agents_.contains(AgentNumber{last_number_}));
  return AgentNumber{last_number_};
}

const MadAgent* AgentTable::find(AgentNumber number) const {
  const auto found = agents_.find(number);
  return found == agents_.end() ? nullptr : &found->second;
}

Expected<const MadAgent*> AgentTable::add(ClientId client, const Registration& registration) {
  if (!fits(registration)) return Errc::kInvalidArgument;
  const bool claims = registration.mgmt_class != wire::MgmtClass{} && registration.methods.any();
  const ClassKey key = key_of(registration);
  if (claims && claims_.contains(key) && (claims_[key].taken & registration.methods).any()) {
    return Errc::kAddressInUse;
  }
  Slots& slots = clients_[client];
  const auto free = std::ranges::find(slots, AgentNumber{});
  if (free == slots.end()) return Errc::kNoMemory;
  *free = next_number();
  if (claims) {
    Claims& claimed = claims_[key];
    claimed.taken |= registration.methods;
    for (std::size_t method = 0; method < registration.methods.size(); ++method) {
      if (registration.methods[method]) claimed.owners[method] = *free;
    }
  }
  const auto id = AgentId{static_cast<std::uint32_t>(free - slots.begin())};
  return &agents_.try_emplace(*free, MadAgent{*free, client, id, registration}).first->second;
}

void AgentTable::remove(const MadAgent& agent) {
  const ClassKey key = key_of(agent.registration);
  if (const auto found = claims_.find(key); found != claims_.end()) {
    Claims& claimed = found->second;
    for (std::size_t method = 0; method < claimed.taken.size(); ++method) {
      if (claimed.taken[method] && claimed.owners[method] == agent.number) {
        claimed.taken[method] = false;
      }
    }
    if (claimed.taken.none()) claims_.erase(found);
  }
  const auto slots = clients_.find(agent.client);
  slots->second[static_cast<std::size_t>(agent.id)] = AgentNumber{};
  if (std::ranges::count(slots->second, AgentNumber{}) == kAgentsMax) clients_.erase(slots);
  const AgentNumber number = agent.number;  // `agent` is in the table
  agents_.erase(number);
}

const MadAgent* AgentTable::find(ClientId client, AgentId id) const {
  const auto slots = clients_.find(client);
  if (slots == clients_.end() || static_cast<std::uint32_t>(id) >= kAgentsMax) return nullptr;
  return find(slots->second[static_cast<std::size_t>(id)]);
}

const MadAgent* AgentTable::find(wire::QpNumber dest_qp, const wire::MadView& mad) const {
  if (is_response(mad)) {
    const MadAgent* const agent = find(agent_of(mad.transaction()));
    return agent != nullptr && agent->registration.qpn == dest_qp ? agent : nullptr;
  }
  const auto found =
      claims_.find(key_of(dest_qp, mad.mgmt_class(), mad.class_version(), oui_of(mad)));
  if (found == claims_.end()) return nullptr;
  const std::size_t method = method_index(mad.method());
  return found->second.taken[method] ? find(found->second.owners[method]) : nullptr;
}

bool AgentTable::is_claimed(wire::MgmtClass mgmt_class) const {
  return std::ranges::any_of(agents_, [&](const auto& entry) {
    const Registration& registration = entry.second.registration;
    return registration.mgmt_class == mgmt_class && registration.methods.any();
  });
}

}  // namespace verbatim::fabric

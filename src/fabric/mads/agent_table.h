// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "base/expected.h"
#include "fabric/mads/agent_number.h"
#include "fabric/mads/registration.h"
#include "fabric/mads/user_mad.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// A registration that was accepted.
struct MadAgent {
  AgentNumber number{};
  ClientId client{};
  AgentId id{};
  Registration registration{};
};

/// The agents of one port, and which of them gets which datagram that arrives. A method of a class
/// and version, and for vendor classes of an OUI, belongs to one agent at a time.
class AgentTable {
 public:
  static constexpr std::uint32_t kAgentsMax = 32;  // of one client, as in Linux

  /// kInvalidArgument: the parts of the registration do not fit together. kAddressInUse: another
  /// agent has one of the methods. kNoMemory: the client has kAgentsMax agents.
  Expected<const MadAgent*> add(ClientId client, const Registration& registration);
  void remove(const MadAgent& agent);

  [[nodiscard]] const MadAgent* find(ClientId client, AgentId id) const;
  [[nodiscard]] const MadAgent* find(AgentNumber number) const;
  /// The agent that gets this datagram; null when none wants it. An answer belongs to the agent
  /// whose request it names, whether that request is outstanding or not.
  [[nodiscard]] const MadAgent* find(wire::QpNumber dest_qp, const wire::MadView& mad) const;
  [[nodiscard]] bool is_claimed(wire::MgmtClass mgmt_class) const;

 private:
  // Queue pair, class, version and OUI in one number; the OUI is 0 for a class without one.
  enum class ClassKey : std::uint64_t {};
  struct Claims {
    MethodMask taken{};
    std::array<AgentNumber, 128> owners{};  // by method, where `taken` is set
  };
  using Slots = std::array<AgentNumber, kAgentsMax>;  // by AgentId; 0: free

  [[nodiscard]] static ClassKey key_of(wire::QpNumber qpn, wire::MgmtClass mgmt_class,
                                       std::uint8_t version, std::uint32_t oui) noexcept;
  [[nodiscard]] static ClassKey key_of(const Registration& registration) noexcept;
  [[nodiscard]] AgentNumber next_number() noexcept;

  std::unordered_map<AgentNumber, MadAgent> agents_;
  std::unordered_map<ClientId, Slots> clients_;  // those that have an agent
  std::unordered_map<ClassKey, Claims> claims_;  // of classes in which a method is taken
  std::uint32_t last_number_ = 0;
};

}  // namespace verbatim::fabric

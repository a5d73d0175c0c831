// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/mads/memberships.h"
#include "host/fabric_message.h"

namespace verbatim::tools {

/// The multicast groups of the programs that have asked the fabric to keep them (FabricCall): the
/// memberships of each port, and an agent of the fabric's process that leaves a group when its last
/// member has ended without leaving.
/// Thread: that of the fabric.
class GroupKeeper {
 public:
  explicit GroupKeeper(fabric::Fabric& fabric) noexcept : fabric_(fabric) {}

  void keep(std::uint32_t client, fabric::PortEnd port);
  /// What a program sends. True: `message` has become the answer, which the program gets.
  [[nodiscard]] bool handle_request(std::uint32_t client, std::span<std::byte> message);
  /// What a program gets.
  void handle_answer(std::uint32_t client, std::span<const std::byte> message);
  /// A program has ended.
  void close(Instant now, std::uint32_t client);

 private:
  /// No program has this number (FabricServer counts from 1).
  static constexpr fabric::ClientId kOwn{0};

  /// One port, as long as some program is at it.
  struct Place {
    fabric::PortEnd port{};
    std::size_t clients = 0;
    fabric::Memberships memberships{};
  };
  [[nodiscard]] Place* place_of(std::uint32_t client) noexcept;
  void leave(Instant now, fabric::PortEnd port, const wire::MulticastRecord& record);
  [[nodiscard]] std::optional<fabric::AgentId> agent_at(fabric::PortEnd port);

  fabric::Fabric& fabric_;
  std::vector<std::unique_ptr<Place>> places_;
  std::unordered_map<std::uint32_t, Place*> by_client_;
  std::unordered_map<std::uint64_t, fabric::AgentId> agents_;  // by port
  std::uint32_t transactions_ = 0;
};

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "wire/cm/cm_ids.h"
#include "wire/cm/service_id.h"

/// Which of several Agents behind one address a management datagram is for.
namespace verbatim::wire {

/// The slot of the process that assigned this ID: its first octet.
[[nodiscard]] constexpr std::uint8_t slot_of(CommId id) noexcept {
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(id) >> 24);
}

/// For every Agent: a refusal from a peer whose request was never answered, so the peer does not
/// know the ID of the Agent that owes the answer. At most one Agent knows the communication.
struct EveryAgent {
  friend constexpr bool operator==(EveryAgent, EveryAgent) noexcept = default;
};
/// For no Agent: not a CM message.
struct NoAgent {
  friend constexpr bool operator==(NoAgent, NoAgent) noexcept = default;
};

/// The Agent that assigned an ID, the Agent that listens for a service, every Agent, or none.
using Addressee = std::variant<CommId, ServiceId, EveryAgent, NoAgent>;

/// `octets` is the payload of a packet to queue pair 1.
[[nodiscard]] Addressee addressee_of(std::span<const std::byte> octets) noexcept;

}  // namespace verbatim::wire

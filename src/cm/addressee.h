// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "wire/cm_ids.h"
#include "wire/service_id.h"

/// Which of several Agents behind one address is a management datagram for?
namespace verbatim::cm {

/// The slot of the process that gave this ID: its first octet.
[[nodiscard]] constexpr std::uint8_t slot_of(wire::CommId id) noexcept {
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(id) >> 24);
}

/// A request that waited too long for an answer to know the ID of the one who owes it: every Agent
/// may look at it, at most one will know it.
struct Everybody {
  friend constexpr bool operator==(Everybody, Everybody) noexcept = default;
};
/// Not a CM message.
struct Nobody {
  friend constexpr bool operator==(Nobody, Nobody) noexcept = default;
};

/// An ID that one of them gave, the service that one of them listens for, everybody, or nobody.
using Addressee = std::variant<wire::CommId, wire::ServiceId, Everybody, Nobody>;

/// `octets` is the payload of a packet to queue pair 1.
[[nodiscard]] Addressee addressee_of(std::span<const std::byte> octets) noexcept;

}  // namespace verbatim::cm

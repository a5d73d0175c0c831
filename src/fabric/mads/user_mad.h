// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"

namespace verbatim::fabric {

/// A program that has opened a port for management datagrams. The owner of the MadPort chooses it.
enum class ClientId : std::uint32_t {};

/// A registration of one client; the client's first free number from 0 on.
enum class AgentId : std::uint32_t {};

/// The other end of a management datagram: the destination of one to be sent, the source of one
/// that arrived.
struct MadAddress {
  wire::Lid lid{};
  wire::QpNumber qpn{};
  wire::QKey qkey{};  // to be presented; 0 in a datagram that arrived
  wire::ServiceLevel level{};
  std::uint8_t path_bits = 0;  // added to the own base LID
  bool has_grh = false;        // the following count only with it
  std::uint8_t gid_index = 0;  // of the own GID
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  wire::Gid gid{};
  friend bool operator==(const MadAddress&, const MadAddress&) noexcept = default;
};

/// What a program passes to its port, or gets from it: one management datagram, or one RMPP message
/// of any length.
struct UserMad {
  /// The status of a request that was not answered: ETIMEDOUT of Linux, on every system.
  static constexpr std::uint32_t kTimedOut = 110;
  /// A request that was not answered comes back with the header of its datagram only.
  static constexpr std::size_t kUnansweredOctets = 24;

  AgentId agent{};
  std::uint32_t status = 0;              // of one that was delivered: 0 or kTimedOut
  std::chrono::milliseconds timeout{0};  // for the answer; 0: no answer is expected
  std::uint32_t retries = 0;             // further attempts after the first
  std::uint16_t pkey_index = 0;
  MadAddress address{};
  // From the header of the datagram on. An RMPP message has the headers of its first segment, then
  // the data of all segments.
  std::vector<std::byte> octets{};
};

/// A datagram or message for a program.
struct Delivery {
  ClientId client{};
  UserMad mad{};
};

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/arrival.h"
#include "transport/queues/landing.h"
#include "transport/rc/responder_state.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// The receiving side of a datagram queue pair (IBA Vol 1, 9.8.3): a packet with the right Q_Key is
/// delivered if a receive is posted that it fits into; all others are dropped and counted.
///
/// A view over a ResponderState. Thread: the one that runs the queue pair.
class UdResponder {
 public:
  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t octets = 0;  // of their payload
    std::uint64_t wrong_qkey = 0;
    std::uint64_t no_receive = 0;
    std::uint64_t too_long = 0;
  };

  UdResponder() noexcept = default;
  UdResponder(ResponderState* state, Landing landing) noexcept : state_(state), landing_(landing) {}

  /// `network_header` is the IPv6 header or GRH, or 20 zero octets and the IPv4 header, or all
  /// zeroes for a native datagram without a GRH, which has a local route.
  void handle_request(const wire::PacketView& packet,
                      std::span<const std::byte, kGrhOctets> network_header,
                      const wire::LocalRoute& local = {}) noexcept;

  [[nodiscard]] const ResponderState& state() const noexcept { return *state_; }
  [[nodiscard]] Landing& landing() noexcept { return landing_; }
  /// Continues with a state and a landing that have the same contents.
  void move_to(ResponderState* state, Landing landing) noexcept {
    state_ = state;
    landing_ = landing;
  }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  ResponderState* state_ = nullptr;
  Landing landing_;
  Counters counters_;
};

}  // namespace verbatim::transport

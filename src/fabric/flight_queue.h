// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "fabric/management_packet.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// A packet on its way to a port.
struct Flight {
  Instant due{};
  PortEnd to{};
  std::uint8_t hops = 0;         // links that it has passed
  bool has_passed_link = false;  // else the node itself sends it to its own management
  ManagementPacket packet{};
};

/// Packets in the order in which they arrive. Every link takes the same time, so that is the order
/// in which they were sent. Keeps the memory that it has needed.
class FlightQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] const Flight& front() const noexcept { return ring_[first_]; }

  void push(const Flight& flight) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_) & (ring_.size() - 1)] = flight;
    ++count_;
  }
  [[nodiscard]] Flight pop() noexcept {
    Flight& flight = ring_[first_];
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
    return flight;
  }

 private:
  void grow() {
    std::vector<Flight> larger(ring_.empty() ? 64 : 2 * ring_.size());
    for (std::size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) & (ring_.size() - 1)];
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Flight> ring_;  // its size is a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace verbatim::fabric

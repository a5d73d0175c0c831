// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "fabric/fabric.h"

namespace verbatim::fabric::test {

/// Programs on the ports of hosts that send packets to each other, and what becomes of each packet:
/// it must be done exactly once, after it has arrived, at the port that has its LID or at several
/// ports of a group.
class DataTraffic {
 public:
  DataTraffic(Fabric& fabric, std::vector<PortEnd> ports, std::uint64_t seed);

  /// Some packets between random ports: most of them right ones.
  void post_some(Instant now);
  /// One from each port to each port and to the group, all of which have to arrive.
  void post_all(Instant now, wire::Lid group);
  /// Takes the outcomes. To be called after each call of the fabric.
  void drain();

  [[nodiscard]] bool are_done() const noexcept { return outstanding_.empty(); }
  [[nodiscard]] std::size_t arrived_count() const noexcept { return arrived_; }
  /// The first thing that must not happen; empty: nothing has.
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }

 private:
  struct Posted {
    wire::Lid destination{};
    std::size_t due = 0;  // ports at which it must arrive
    std::size_t arrivals = 0;
  };

  void post(Instant now, PortEnd from, const DataPacket& packet, std::size_t due);
  void arrive(Posted& posted, PortEnd port);
  [[nodiscard]] DataPacket packet(PortEnd from, wire::Lid to);
  [[nodiscard]] wire::Lid lid_of(PortEnd port) const { return fabric_.port_status(port).lid; }
  [[nodiscard]] PortEnd some_port() { return ports_[prng_.below(ports_.size())]; }
  [[nodiscard]] wire::Lid some_lid();
  [[nodiscard]] std::size_t drops() const;
  void complain(const std::string& complaint);

  Fabric& fabric_;
  std::vector<PortEnd> ports_;
  Prng prng_;
  std::map<std::uint32_t, Posted> outstanding_{};  // by handle
  std::uint32_t next_handle_ = 1;
  std::size_t arrived_ = 0;
  std::string complaint_{};
};

}  // namespace verbatim::fabric::test

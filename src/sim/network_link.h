// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "link/link.h"
#include "sim/lossy_network.h"

namespace verbatim::sim {

/// The link of one address on a simulated network. Packets leave one by one, with identification 0
/// over IPv4, also if they were written as a train. They arrive one by one as well.
class NetworkLink final : public link::Link {
 public:
  /// The network outlives the link.
  NetworkLink(LossyNetwork& network, const wire::Gid& address) noexcept
      : network_(network), address_(address) {
    write_to(&burst_);
  }

  void send(Instant now, link::Burst& burst) noexcept override;
  using Link::receive;
  /// All packets that have arrived at this address until `now`.
  [[nodiscard]] std::span<const link::Incoming> receive(Instant now, Look look) noexcept override;
  /// When the next packet arrives.
  [[nodiscard]] Instant next_due() const noexcept override;
  /// None: the owner calls receive() at next_due().
  [[nodiscard]] std::span<const int> descriptors() const noexcept override { return {}; }
  [[nodiscard]] const link::LinkCounters& counters() const noexcept override { return counters_; }
  /// Does nothing: packets always come with their headers here.
  void tell_headers() noexcept override {}
  void close() noexcept override { write_to(nullptr); }

 private:
  LossyNetwork& network_;
  wire::Gid address_;
  link::Burst burst_;
  link::LinkCounters counters_;
  std::vector<Frame> arrived_;  // the packets of the last receive()
  std::vector<link::Incoming> incoming_;
};

}  // namespace verbatim::sim

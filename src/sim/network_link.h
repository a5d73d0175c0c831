// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "link/link.h"
#include "sim/lossy_network.h"

namespace verbatim::sim {

/// The link of one process on a simulated network. Packets may be written as trains, as for UDP
/// with GSO. On the network each packet is a frame of its own, with identification 0 over IPv4.
/// Frames of one flow and one length that are taken together arrive as a train, as with GRO.
///
/// The ICRC over IPv4 does not detect every damage (see wire::verify_icrc). The checksums of a real
/// network do, nearly always: a damaged frame that the ICRC would accept is dropped here.
class NetworkLink final : public link::Link {
 public:
  /// The network outlives the link.
  NetworkLink(LossyNetwork& network, const LossyNetwork::Place& place) noexcept
      : network_(network), place_(place) {
    write_to(&burst_);
  }

  void send(Instant now, link::Burst& burst) noexcept override;
  using Link::receive;
  /// All packets that have arrived for this process until `now`.
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
  void take_arrived(Instant now);
  [[nodiscard]] std::size_t train_length(std::span<const NetworkFrame> frames) const noexcept;
  [[nodiscard]] std::span<const std::byte> join(std::span<const NetworkFrame> frames);

  LossyNetwork& network_;
  LossyNetwork::Place place_;
  link::Burst burst_;
  link::LinkCounters counters_;
  std::vector<NetworkFrame> arrived_;           // the frames of the last receive()
  std::vector<std::vector<std::byte>> trains_;  // those of them that make trains, joined
  std::vector<link::Incoming> incoming_;
};

}  // namespace verbatim::sim

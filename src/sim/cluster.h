// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "sim/endpoint.h"
#include "sim/lossy_network.h"
#include "sim/observer.h"

namespace verbatim::sim {

/// Endpoints, the network between them and one virtual clock. Nothing happens unless step() is
/// called, and everything that happens follows from the seeds.
class Cluster final : private Observer {
 public:
  Cluster(const Faults& faults, std::uint64_t seed, Observer* observer = nullptr)
      : network_(faults, seed), observer_(observer) {
    network_.set_observer(this);
  }

  /// Returns the endpoint's index. Its address is 10.0.0.(index + 1) unless the configuration has
  /// one.
  std::size_t add_endpoint(Endpoint::Config config);
  [[nodiscard]] Endpoint& endpoint(std::size_t index) noexcept { return *endpoints_[index]; }
  [[nodiscard]] std::size_t endpoint_count() const noexcept { return endpoints_.size(); }
  [[nodiscard]] LossyNetwork& network() noexcept { return network_; }
  [[nodiscard]] Instant now() const noexcept { return now_; }

  /// Sends the packets that endpoints have to send now.
  void transmit();
  /// Advances the time to the next arrival or timeout, or to `no_later_than`, and handles the
  /// events of that time. False when no event is left.
  bool step(Instant no_later_than = Instant::never());
  /// Sends a frame that no endpoint has made, as from a peer that breaks the protocol.
  void inject(NetworkFrame frame) { (void)network_.send(now_, std::move(frame)); }

  /// A number that is equal for two runs with the same frames.
  [[nodiscard]] std::uint64_t trace() const noexcept { return trace_; }
  [[nodiscard]] std::uint64_t frame_count() const noexcept { return frames_; }

 private:
  /// Of the network.
  void handle_frame(Instant now, const NetworkFrame& frame, Fate fate) override;

  LossyNetwork network_;
  Mailboxes mailboxes_;  // for endpoints that share an address
  Observer* observer_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Instant now_{};
  std::uint64_t trace_ = 0;
  std::uint64_t frames_ = 0;
};

/// The GID of an IPv4 address.
[[nodiscard]] wire::Gid ipv4_gid(std::uint8_t a, std::uint8_t b, std::uint8_t c,
                                 std::uint8_t d) noexcept;

/// The parameters of a connection that both ends agree on.
struct Connection {
  wire::PathMtu mtu = wire::PathMtu::k1024;
  memory::Access access =
      memory::Access::kRemoteWrite | memory::Access::kRemoteRead | memory::Access::kRemoteAtomic;
  wire::Psn psn_of_first{};  // the first PSN that the first end sends
  wire::Psn psn_of_second{};
  std::uint8_t timeout = 14;  // 67 ms
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t max_read_atomic = 4;
};

/// Takes two queue pairs of one type from RESET to RTS and connects them. Both may be the same
/// queue pair, if the first PSNs of both ends are equal.
void connect(Endpoint& first, std::size_t first_qp, Endpoint& second, std::size_t second_qp,
             const Connection& connection);

/// Takes a datagram queue pair from RESET to RTS.
void ready_datagrams(Endpoint& endpoint, std::size_t qp, wire::QKey qkey);

}  // namespace verbatim::sim

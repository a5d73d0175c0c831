// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/time.h"
#include "host/fabric_data_port.h"
#include "link/link.h"

namespace verbatim::link {

/// Native InfiniBand packets through the data port of a fabric. What the transport writes, from BTH
/// to ICRC, leaves behind a local route header and, where the packet has GIDs, a global one.
///
/// A fabric loses no packet because a receiver is slow, so the buffers of the data port can all be
/// in use. The link is held then, until some are free again.
///
/// One thread at a time.
class IbLink final : public Link {
 public:
  /// The port outlives the link.
  explicit IbLink(host::FabricDataPort& port) noexcept : port_(port) {}

  /// When the data port is open.
  void open() noexcept;

  void send(Instant now, Burst& burst) noexcept override;
  using Link::receive;
  [[nodiscard]] std::span<const Incoming> receive(Instant now, Look look) noexcept override;
  /// A closed link lowers the bell as well: the descriptor may still be watched.
  [[nodiscard]] bool prepare_to_wait() noexcept override {
    return port_.lower_bell() || !is_open();
  }
  [[nodiscard]] Instant next_due() const noexcept override;
  [[nodiscard]] std::span<const int> descriptors() const noexcept override;
  [[nodiscard]] const LinkCounters& counters() const noexcept override { return counters_; }
  void tell_headers() noexcept override {}  // packets always do
  void close() noexcept override;

 private:
  [[nodiscard]] bool send_packet(const Outgoing& to, std::span<const std::byte> transport) noexcept;
  void look_for_room(Instant now) noexcept;

  host::FabricDataPort& port_;
  Burst outgoing_;  // the owner writes packets into it
  std::array<Incoming, host::FabricDataPort::kBurst> incoming_{};
  std::array<int, 1> descriptor_{-1};
  Instant looked_{};  // for room, the last time
  LinkCounters counters_;
};

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "link/direction_rules.h"
#include "link/fault_rules.h"
#include "link/packet_burst.h"

namespace verbatim::link {

/// How many packets each fault has hit so far.
struct FaultCounters {
  std::uint64_t dropped = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t delayed = 0;
};

/// Deliberate faults, between the transport and the sockets (docs/FAULTS.md).
///
/// Outgoing packets: show each to handle_outgoing() before it is sent, then send what
/// poll_outgoing() gives. Incoming packets: pass each burst through handle_incoming(), an empty one
/// as well. next_due() says when packets that are held back become due, in either direction. The
/// number of packets that are held back is limited; above the limit packets pass at once.
///
/// One thread at a time. It allocates, because speed does not matter while faults are injected.
class FaultInjector {
 public:
  static constexpr std::size_t kHeldMax = 4096;  // packets, per direction
  /// How long a packet that is to be overtaken waits for others of its flow.
  static constexpr Duration kOvertakePatience = std::chrono::milliseconds(5);

  /// The numbers of this process's queue pairs.
  struct OwnNumbers {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  /// With `own`, incoming packets for queue pairs of other processes pass: they are forwarded to
  /// their process, whose rules apply to them.
  explicit FaultInjector(const FaultRules& rules, std::optional<OwnNumbers> own = {});

  /// Whether the packet is to be sent now. The packet may have been changed.
  [[nodiscard]] bool handle_outgoing(Instant now, const Outgoing& to, const Frame& packet);

  /// A packet that was held back or copied: its ICRC was computed for `identification`.
  struct Released {
    Outgoing to{};
    std::uint16_t identification = 0;
    std::vector<std::byte> octets;
  };
  [[nodiscard]] std::optional<Released> poll_outgoing(Instant now);

  /// The packets of the burst that arrive now, and packets that had been held back. The result is
  /// valid as long as the burst is, and until the next call.
  [[nodiscard]] std::span<const Incoming> handle_incoming(Instant now,
                                                          std::span<const Incoming> burst);

  /// The same for one packet that another process has forwarded: whether it arrives now. It may
  /// have been changed. Packets that were held back or copied come with the next burst.
  [[nodiscard]] bool handle_forwarded(Instant now, const Incoming& about,
                                      std::span<std::byte> octets);

  [[nodiscard]] Instant next_due() const noexcept;
  [[nodiscard]] const FaultCounters& counters() const noexcept { return counters_; }

 private:
  /// A packet that waits, in either direction.
  struct Held {
    Incoming about{};  // its octets are in the next member
    std::uint16_t identification = 0;
    std::vector<std::byte> octets;
    Instant due{};
    std::uint32_t overtaken_by = 0;  // it goes before it is due when this many have passed
  };
  using Waiting = std::vector<Held>;  // in the order of arrival

  struct Packet {
    Incoming about{};
    std::uint16_t identification = 0;
    std::span<std::byte> octets{};
  };
  [[nodiscard]] bool handle(Instant now, DirectionRules& rules, Waiting& waiting,
                            const Packet& packet);
  [[nodiscard]] bool is_for_another_process(std::span<const std::byte> packet) const noexcept;
  void take_in(Instant now, const Incoming& about, std::span<const std::byte> octets);
  void release_in(Instant now);
  [[nodiscard]] static std::optional<Held> take_due(Instant now, Waiting& waiting);

  std::optional<OwnNumbers> own_;
  DirectionRules rules_in_;
  DirectionRules rules_out_;
  Waiting waiting_in_;
  Waiting waiting_out_;
  std::vector<Incoming> delivered_;             // the result of handle_incoming()
  std::deque<std::vector<std::byte>> storage_;  // octets of packets that are not in the burst
  FaultCounters counters_;
};

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "link/packet_burst.h"

namespace verbatim::link {

/// Packets that leave together, as plain data. They are written into one buffer, one behind the
/// other. Packets of one flow and one length that follow each other make a train; the last packet
/// of a train may be shorter. All packets of a train go to one slot of the peer's host, because the
/// peer's sockets are chosen by the slot.
///
/// Over IPv4 the packets of a train are numbered from 0, and the ICRC covers the number: see Frame.
/// A packet that begins a train instead of continuing one is changed accordingly.
///
/// The owner writes next_frame(), commits it, and gives the burst to Link::send() when it is full
/// or complete. The link notes in each train which packets have left. Then the owner clears the
/// burst.
///
/// One thread at a time. It allocates nothing and does no I/O.
class Burst {
 public:
  static constexpr std::size_t kTrains = 32;        // in one burst
  static constexpr std::size_t kTrainPackets = 64;  // in one train, older kernels' limit
  static constexpr std::size_t kTrainOctets = 65000;
  // A train and a packet of any length. A larger buffer would not stay in the nearest cache until
  // the kernel copies it.
  static constexpr std::size_t kOctets = std::size_t{70} << 10;

  struct Train {
    Outgoing to{};
    std::size_t at = 0;              // in the buffer
    std::size_t octets = 0;          // of all packets
    std::size_t packet_octets = 0;   // of each packet but the last, which may be shorter
    std::size_t packets = 0;         // at most kTrainPackets
    std::uint32_t packets_left = 0;  // that still fit
    std::byte slot{};                // of the destination queue pair number
    bool is_ipv4 = false;
    bool is_open = false;  // more packets may join: none was shorter, and there is room

    // For the link that sends it.
    std::uint64_t sent_bits = 0;  // bit n: packet n has left
    bool went_apart = false;      // each packet was sent alone, with identification 0

    void note_all_sent() noexcept { sent_bits = ~std::uint64_t{0} >> (kTrainPackets - packets); }
    [[nodiscard]] bool was_sent(std::size_t number) const noexcept {
      return (sent_bits >> number & 1) != 0;
    }
    /// The IPv4 identification that the ICRC of a packet is computed with.
    [[nodiscard]] std::uint16_t identification(std::size_t number) const noexcept {
      return is_ipv4 && !went_apart ? static_cast<std::uint16_t>(number) : std::uint16_t{0};
    }
  };

  /// Without trains every packet is a train of its own.
  void use_trains(bool use) noexcept { use_trains_ = use; }
  [[nodiscard]] bool uses_trains() const noexcept { return use_trains_; }

  /// Room for the next packet, at least kFrameOctets long. The burst must not be full.
  [[nodiscard]] Frame next_frame() noexcept;
  /// Adds the packet that was written into next_frame(). It continues the open train if it fits
  /// there, else it begins one.
  void commit(const Outgoing& to, const Written& written) noexcept;

  [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }
  /// Whether the rest of the buffer has no room for the next packet, or for the whole train that it
  /// would begin.
  [[nodiscard]] bool is_full() const noexcept {
    const bool begins_anew = count_ > 0 && !trains_[count_ - 1].is_open;
    return count_ == kTrains || used_ + (begins_anew ? kTrainOctets : kFrameOctets) > kOctets;
  }
  [[nodiscard]] Load load() const noexcept;
  void clear() noexcept {
    count_ = 0;
    used_ = 0;
  }

  [[nodiscard]] std::span<Train> trains() noexcept { return std::span(trains_).first(count_); }
  [[nodiscard]] std::span<std::byte> octets_of(const Train& train) noexcept {
    return std::span(buffer_).subspan(train.at, train.octets);
  }
  [[nodiscard]] std::span<std::byte> packet(const Train& train, std::size_t number) noexcept {
    const std::size_t at = number * train.packet_octets;
    return octets_of(train).subspan(at, std::min(train.packet_octets, train.octets - at));
  }

 private:
  [[nodiscard]] bool continues_train(const Outgoing& to, const Written& written) const noexcept;
  void join_train(const Written& written) noexcept;
  void start_train(const Outgoing& to, const Written& written) noexcept;

  std::array<Train, kTrains> trains_;
  std::size_t count_ = 0;  // of the trains
  std::size_t used_ = 0;   // octets of the buffer
  bool use_trains_ = true;
  alignas(64) std::array<std::byte, kOctets> buffer_;
};

static_assert(Burst::kTrainPackets == 64, "Train::sent_bits has a bit for each packet");

}  // namespace verbatim::link

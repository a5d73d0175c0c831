// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "link/packet_burst.h"
#include "wire/headers/ids.h"

namespace verbatim::loop {

/// The packets for one queue pair that wait in the room. Dispatch counts them here.
struct WaitingPackets {
  int count = 0;
  std::uint64_t stayed_in_look = 0;  // the last look in which one of them went on waiting
};

/// Packets of unreliable services that arrived before their receives were posted, in the order in
/// which they came. If the room is full, the next packet is lost, as it would be without the room.
/// Guarded by the adapter's lock.
class WaitingRoom {
 public:
  static constexpr std::size_t kPlaces = 512;

  /// One packet, with the addresses that its ICRC covers.
  struct WaitingPacket {
    wire::QpNumber receiver{};  // a multicast packet does not name it
    link::Incoming incoming{};  // octets in the room
    std::size_t place = 0;
  };

  [[nodiscard]] bool is_empty() const noexcept { return waiting_.empty(); }
  /// Keeps a copy of a packet for this queue pair; false when no place is left, or no memory.
  [[nodiscard]] bool admit(wire::QpNumber receiver, const link::Incoming& packet) noexcept;
  /// Removes the packets for which `leaves(receiver, packet)` is true. It is called in the order of
  /// arrival.
  template <typename Leaves>
  void let_go(Leaves&& leaves) noexcept {
    std::erase_if(waiting_, [&](const WaitingPacket& waiting) {
      if (!leaves(waiting.receiver, waiting.incoming)) return false;
      free_.push_back(waiting.place);
      return true;
    });
  }

 private:
  [[nodiscard]] bool open() noexcept;

  std::unique_ptr<std::byte[]> octets_;  // none before the first packet waits
  std::vector<WaitingPacket> waiting_;
  std::vector<std::size_t> free_;  // places
};

}  // namespace verbatim::loop

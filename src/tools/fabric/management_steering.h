// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/cm/addressee.h"

namespace verbatim::tools {

/// Which process of a port a packet to queue pair 1 is for, by the message of communication
/// management in it; wire::NoAgent if there is none. `packet` is a native one, from LRH to ICRC, in
/// memory that its sender can change meanwhile.
[[nodiscard]] wire::Addressee addressee_of_packet(std::span<const std::byte> packet) noexcept;

/// The services that the processes of one port listen for, by the lower half of the service ID.
class ServiceSeats {
 public:
  static constexpr std::size_t kSeatsMax = 4096;

  /// A process listens, or does so no more.
  void set(std::uint32_t service, std::uint32_t slot, bool listens);
  void remove(std::uint32_t slot);
  /// The slot of a process that listens; `otherwise` when there is none.
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t service,
                                      std::uint32_t otherwise) const noexcept;

 private:
  struct Seat {
    std::uint32_t service = 0;
    std::uint32_t slot = 0;
    friend bool operator==(const Seat&, const Seat&) noexcept = default;
  };
  std::vector<Seat> seats_;  // sorted by service
};

}  // namespace verbatim::tools

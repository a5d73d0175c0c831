// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/crc/icrc.h"
#include "wire/headers/bth.h"
#include "wire/headers/packet.h"

namespace verbatim::wire {

/// Writes packets of one flow and one length, one after the other: a BTH and no other header before
/// a payload that needs no padding. Over IPv4 their identifications are consecutive. What
/// PacketBuilder does for each packet is done once here.
class PacketRun {
 public:
  [[nodiscard]] static constexpr std::size_t octets_for(std::size_t payload_octets) noexcept {
    return Bth::kSize + payload_octets + kIcrcSize;
  }

  PacketRun(std::span<std::byte> frame, std::size_t payload_octets, const IcrcSeed& seed,
            std::uint16_t first_identification) noexcept
      : frame_(frame),
        payload_octets_(payload_octets),
        icrc_(seed, octets_for(payload_octets)),
        identification_(first_identification) {
    VB_ASSERT(payload_octets % 4 == 0);
  }

  /// Sets the common part of the following BTHs: Bth::front(). Before the first packet.
  void begin(std::uint64_t front) noexcept {
    front_ = big_endian(front);
    icrc_.share(front_);
  }
  /// `back` is Bth::back(), and `payload` has the octets of one packet.
  void append(std::uint32_t back, const std::byte* payload) noexcept {
    VB_ASSERT(frame_.size() - at_ >= octets_for(payload_octets_));
    std::byte* const to = frame_.data() + at_;
    back = big_endian(back);
    std::memcpy(to, &front_, sizeof front_);
    std::memcpy(to + Bth::kFrontSize, &back, sizeof back);
    const std::uint32_t state =
        icrc_.copy(back, identification_++, to + Bth::kSize, {payload, payload_octets_});
    store_icrc(std::span<std::byte, kIcrcSize>(to + Bth::kSize + payload_octets_, kIcrcSize),
               state);
    at_ += octets_for(payload_octets_);
  }

  /// Octets written so far.
  [[nodiscard]] std::size_t octets() const noexcept { return at_; }

 private:
  std::span<std::byte> frame_;
  std::size_t payload_octets_;  // of each packet
  std::size_t at_ = 0;          // octets written
  std::uint64_t front_ = 0;     // in memory order
  IcrcRun icrc_;
  std::uint16_t identification_;  // of the next packet
};

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/crc/crc32.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"

namespace verbatim::wire {

/// Writes one packet, BTH to ICRC, into a frame: headers first, then payload in as many pieces as
/// the caller has, each copied and added to the ICRC in one pass, then padding and ICRC. The
/// payload length is fixed at the start, since the ICRC begins with it.
class PacketBuilder {
 public:
  struct Envelope {
    const IcrcSeed* seed = nullptr;
    std::uint16_t ipv4_identification = 0;
  };

  /// Octets of a packet with these headers and this payload.
  static std::size_t octets_for(const PacketHeaders& headers, std::size_t payload_octets) noexcept {
    return headers.octet_count() + ((payload_octets + 3) & ~std::size_t{3}) + kIcrcSize;
  }

  /// `frame` must have octets_for() octets. headers.bth.pad_count is set here.
  PacketBuilder(std::span<std::byte> frame, PacketHeaders& headers, std::size_t payload_octets,
                const Envelope& envelope) noexcept
      : frame_(frame), at_(headers.octet_count()), left_(payload_octets) {
    const std::size_t total = octets_for(headers, payload_octets);
    VB_ASSERT(frame.size() >= total);
    headers.bth.pad_count = static_cast<std::uint8_t>((0U - payload_octets) & 3U);
    pad_ = headers.bth.pad_count;
    headers.emit(frame);
    crc_ = icrc_over_headers(envelope.seed->start(total, envelope.ipv4_identification),
                             frame.first(at_));
  }

  void append(std::span<const std::byte> payload) noexcept {
    VB_ASSERT(payload.size() <= left_);
    crc_ = crc32_copy(crc_, frame_.data() + at_, payload);
    at_ += payload.size();
    left_ -= payload.size();
  }

  /// The packet's length in octets.
  [[nodiscard]] std::size_t finish() noexcept {
    VB_ASSERT(left_ == 0);
    if (pad_ != 0) {
      static constexpr std::byte kZeroes[3]{};
      crc_ = crc32_copy(crc_, frame_.data() + at_, std::span(kZeroes, pad_));
      at_ += pad_;
    }
    store_icrc(std::span<std::byte, kIcrcSize>(frame_.data() + at_, kIcrcSize), crc_);
    return at_ + kIcrcSize;
  }

 private:
  std::span<std::byte> frame_;
  std::size_t at_;    // octets written
  std::size_t left_;  // payload octets still to come
  std::size_t pad_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace verbatim::wire

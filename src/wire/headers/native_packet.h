// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/expected.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/packet.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

inline constexpr std::size_t kVcrcSize = 2;

/// A native InfiniBand packet that arrived, from the first octet of its LRH to the last of its VCRC
/// (IBA Vol 1, 7.7 and 8.3). parse() has checked that the lengths of LRH and GRH agree with the
/// octets and that there is room for a BTH and an ICRC. It verifies neither CRC. The view borrows
/// the octets.
class NativePacketView {
 public:
  static Expected<NativePacketView, WireError> parse(std::span<const std::byte> octets) noexcept {
    const auto lrh = LrhView::parse(octets);
    if (!lrh) return lrh.error();
    const bool global = lrh->next_header() == LinkNextHeader::kGrh;
    if (!global && lrh->next_header() != LinkNextHeader::kBth) return WireError::kNotTransport;
    const std::size_t covered = std::size_t{4} * lrh->packet_words();
    if (octets.size() < covered + kVcrcSize) return WireError::kTruncated;
    if (octets.size() > covered + kVcrcSize || covered < Lrh::kSize) return WireError::kBadLength;
    const auto behind_lrh = octets.first(covered).subspan(Lrh::kSize);
    if (!global) return with_transport(*lrh, std::nullopt, octets, behind_lrh);

    const auto grh = GrhView::parse(behind_lrh);
    if (!grh) return grh.error();
    if (grh->next_header() != Grh::kIbaTransport) return WireError::kNotTransport;
    const auto behind_grh = behind_lrh.subspan(Grh::kSize);
    if (grh->payload_octets() != behind_grh.size()) return WireError::kBadLength;
    return with_transport(*lrh, *grh, octets, behind_grh);
  }

  [[nodiscard]] const LrhView& lrh() const noexcept { return lrh_; }
  [[nodiscard]] const std::optional<GrhView>& grh() const noexcept { return grh_; }
  /// BTH to ICRC, for PacketView::parse().
  [[nodiscard]] std::span<const std::byte> transport() const noexcept { return transport_; }
  /// LRH to the last octet before the ICRC.
  [[nodiscard]] std::span<const std::byte> covered_by_icrc() const noexcept {
    return octets_.first(octets_.size() - kVcrcSize - kIcrcSize);
  }
  /// LRH to ICRC.
  [[nodiscard]] std::span<const std::byte> covered_by_vcrc() const noexcept {
    return octets_.first(octets_.size() - kVcrcSize);
  }
  [[nodiscard]] std::span<const std::byte, kVcrcSize> vcrc() const noexcept {
    return octets_.last<kVcrcSize>();
  }

 private:
  static Expected<NativePacketView, WireError> with_transport(
      LrhView lrh, std::optional<GrhView> grh, std::span<const std::byte> octets,
      std::span<const std::byte> transport) noexcept {
    if (transport.size() < Bth::kSize + kIcrcSize) return WireError::kTruncated;
    return NativePacketView(lrh, grh, octets, transport);
  }
  NativePacketView(LrhView lrh, std::optional<GrhView> grh, std::span<const std::byte> octets,
                   std::span<const std::byte> transport) noexcept
      : lrh_(lrh), grh_(grh), octets_(octets), transport_(transport) {}
  LrhView lrh_;
  std::optional<GrhView> grh_;
  std::span<const std::byte> octets_;     // LRH to VCRC
  std::span<const std::byte> transport_;  // BTH to ICRC, at least 16 octets
};

}  // namespace verbatim::wire

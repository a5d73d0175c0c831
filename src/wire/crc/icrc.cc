// SPDX-License-Identifier: Apache-2.0
#include "wire/crc/icrc.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/crc/crc32.h"
#include "wire/crc/crc32_tables.h"
#include "wire/headers/bth.h"
#include "wire/headers/grh.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/ipv6.h"
#include "wire/headers/lrh.h"
#include "wire/headers/packet.h"
#include "wire/headers/udp.h"

namespace verbatim::wire {
namespace {

// RoCE has no LRH; the ICRC covers as many ones instead (annex A17.3.3).
constexpr std::size_t kIpv4BthAt = Lrh::kSize + Ipv4::kSize + Udp::kSize;
constexpr std::size_t kIpv6BthAt = Lrh::kSize + Ipv6::kSize + Udp::kSize;
constexpr std::size_t kRoceV1BthAt = Lrh::kSize + Grh::kSize;
constexpr std::size_t kBthEcnAt = 4;  // FECN, BECN and reserved bits: switches change them

/// Routers change these fields, so they count as ones.
void mask(std::span<std::byte> octets, std::size_t at, unsigned bits = 0xff) noexcept {
  octets[at] |= static_cast<std::byte>(bits);
}

void mask_ipv4(std::span<std::byte> header) noexcept {
  mask(header, 1);  // DSCP and ECN
  mask(header, 8);  // time to live
  mask(header, 10);
  mask(header, 11);  // checksum
}

/// IPv6 and GRH have one layout.
void mask_ipv6(std::span<std::byte> header) noexcept {
  mask(header, 0, 0x0f);
  for (std::size_t at = 1; at < 4; ++at) mask(header, at);  // traffic class, flow label
  mask(header, 7);                                          // hop limit
}

void mask_udp(std::span<std::byte> header) noexcept {
  mask(header, 6);
  mask(header, 7);  // checksum
}

/// The part of a 16-bit header field in the register at the BTH. A CRC is linear, so the parts of
/// the fields are added to the register for headers with zero fields.
class Field {
 public:
  /// `to_bth`: octets from the first of the field to the BTH.
  explicit consteval Field(std::size_t to_bth) noexcept {
    for (std::size_t bit = 1; bit < 256; bit *= 2) {
      const auto octet = static_cast<std::uint32_t>(bit);
      const std::uint32_t high = after_zeroes(octet, to_bth);
      const std::uint32_t low = after_zeroes(octet, to_bth - 1);
      for (std::size_t below = 0; below < bit; ++below) {
        high_[bit + below] = high ^ high_[below];
        low_[bit + below] = low ^ low_[below];
      }
    }
  }
  /// For two fields that always have the same value.
  friend consteval Field operator+(const Field& a, const Field& b) noexcept {
    Field both = a;
    for (std::size_t value = 0; value < 256; ++value) {
      both.high_[value] ^= b.high_[value];
      both.low_[value] ^= b.low_[value];
    }
    return both;
  }
  [[nodiscard]] consteval auto high() const noexcept { return high_; }
  [[nodiscard]] consteval auto low() const noexcept { return low_; }
  [[nodiscard]] std::uint32_t part_of(std::size_t value) const noexcept {
    return high_[(value >> 8) & 0xff] ^ low_[value & 0xff];
  }

 private:
  static consteval std::uint32_t after_zeroes(std::uint32_t state, std::size_t octets) noexcept {
    for (std::size_t bit = 0; bit < 8 * octets; ++bit) state = crc32_field::times_x(state);
    return state;
  }
  std::array<std::uint32_t, 256> high_{};
  std::array<std::uint32_t, 256> low_{};
};

constexpr std::size_t kIdentificationToBth = kIpv4BthAt - Lrh::kSize - 4;
constexpr Field kUdpLength(Udp::kSize - 4);
constexpr Field kIpv4Length(kIpv4BthAt - Lrh::kSize - 2);
constexpr Field kIpv4Identification(kIdentificationToBth);
constexpr Field kIpv6Lengths = Field(kIpv6BthAt - Lrh::kSize - 4) + kUdpLength;
constexpr Field kGrhLength(kRoceV1BthAt - Lrh::kSize - 4);
constexpr Field kLrhLength(Lrh::kSize - 4);

/// The change of the register before the BTH that has the same effect as a change of these bits in
/// the octet of the BTH that is masked: the bits, run backwards to there.
constexpr auto kBthEcnBeforehand = [] {
  std::array<std::uint32_t, 256> beforehand{};
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    std::uint32_t state = bits;
    for (std::size_t bit = 0; bit < 8 * kBthEcnAt; ++bit) state = crc32_field::divided_by_x(state);
    beforehand[bits] = state;
  }
  return beforehand;
}();

template <std::size_t kSize>
std::array<std::byte, kSize> ones() noexcept {
  std::array<std::byte, kSize> octets;
  octets.fill(std::byte{0xff});
  return octets;
}

}  // namespace

IcrcSeed IcrcSeed::roce_v2(const Gid& source, const Gid& destination,
                           std::uint16_t source_port) noexcept {
  const bool ipv4 = source.is_ipv4_mapped() && destination.is_ipv4_mapped();
  auto headers = ones<kIpv6BthAt>();
  const auto ip = std::span(headers).subspan<Lrh::kSize>();
  const auto udp = ip.subspan(ipv4 ? Ipv4::kSize : Ipv6::kSize).first<Udp::kSize>();
  if (ipv4) {
    Ipv4{.source = ipv4_of(source), .destination = ipv4_of(destination)}.emit(
        ip.first<Ipv4::kSize>());
    mask_ipv4(ip);
  } else {
    Ipv6{.source = source, .destination = destination}.emit(ip.first<Ipv6::kSize>());
    mask_ipv6(ip);
  }
  Udp{.source_port = source_port}.emit(udp);
  mask_udp(udp);
  const auto covered = std::span<const std::byte>(headers).first(ipv4 ? kIpv4BthAt : kIpv6BthAt);
  return {ipv4 ? Kind::kRoceV2Ipv4 : Kind::kRoceV2Ipv6, crc32_update(kCrc32Preset, covered)};
}

IcrcSeed IcrcSeed::roce_v1(const Gid& source, const Gid& destination) noexcept {
  auto headers = ones<kRoceV1BthAt>();
  const auto grh = std::span(headers).subspan<Lrh::kSize>();
  Grh{.source = source, .destination = destination}.emit(grh);
  mask_ipv6(grh);
  return {Kind::kRoceV1, crc32_update(kCrc32Preset, headers)};
}

IcrcSeed IcrcSeed::native(const LocalRoute& route) noexcept {
  std::array<std::byte, Lrh::kSize> header{};
  Lrh{.level = route.level, .destination = route.destination, .source = route.source}.emit(header);
  mask(header, 0, 0xf0);  // virtual lane
  return {Kind::kNative, crc32_update(kCrc32Preset, header)};
}

IcrcSeed IcrcSeed::of(const LocalRoute& route, const Gid& source, const Gid& destination,
                      std::uint16_t source_port) noexcept {
  if (!route.exists()) return roce_v2(source, destination, source_port);
  return destination == Gid{} ? native(route) : roce_v1(source, destination);
}

std::uint32_t IcrcSeed::start(std::size_t transport_octets,
                              std::uint16_t ipv4_identification) const noexcept {
  VB_ASSERT(transport_octets <= kIcrcMaxTransportOctets);
  const std::size_t udp_octets = Udp::kSize + transport_octets;
  switch (kind_) {
    case Kind::kRoceV2Ipv4:
      return without_lengths_ ^ kIpv4Length.part_of(Ipv4::kSize + udp_octets) ^
             kIpv4Identification.part_of(ipv4_identification) ^ kUdpLength.part_of(udp_octets);
    case Kind::kRoceV2Ipv6:
      return without_lengths_ ^ kIpv6Lengths.part_of(udp_octets);
    case Kind::kRoceV1:
      return without_lengths_ ^ kGrhLength.part_of(transport_octets);
    case Kind::kNative:
      return without_lengths_ ^ kLrhLength.part_of((Lrh::kSize + transport_octets) / 4);
  }
  return 0;
}

namespace {

/// A change of the register before the BTH that makes its masked octet count as ones.
std::uint32_t with_mask(std::uint32_t state, std::span<const std::byte> bth) noexcept {
  return state ^ kBthEcnBeforehand[std::to_integer<std::size_t>(bth[kBthEcnAt] ^ std::byte{0xff})];
}

}  // namespace

std::uint32_t icrc_over_headers(std::uint32_t state, std::span<const std::byte> headers) noexcept {
  VB_ASSERT(headers.size() >= Bth::kSize);
  return crc32_update(with_mask(state, headers), headers);
}

constinit const std::array<std::uint32_t, 256> IcrcRun::kIdentificationHigh =
    Field(kIdentificationToBth + Bth::kFrontSize).high();
constinit const std::array<std::uint32_t, 256> IcrcRun::kIdentificationLow =
    Field(kIdentificationToBth + Bth::kFrontSize).low();

IcrcRun::IcrcRun(const IcrcSeed& seed, std::size_t transport_octets) noexcept
    : copy_(crc32_kernel().copy_behind),
      start_(seed.start(transport_octets)),
      identified_(seed.is_ipv4() ? 0xff : 0) {}

void IcrcRun::share(std::uint64_t front) noexcept {
  const auto octets = std::as_bytes(std::span<const std::uint64_t, 1>(&front, 1));
  front_ = crc32_update(with_mask(start_, octets), octets);
}

void change_identification(std::span<std::byte> transport, std::uint16_t from,
                           std::uint16_t to) noexcept {
  VB_ASSERT(transport.size() >= Bth::kSize + kIcrcSize);
  VB_ASSERT(transport.size() <= kIcrcMaxTransportOctets);
  const auto icrc = transport.last<kIcrcSize>();
  const std::uint32_t difference =
      crc32_after_zeroes(kIpv4Identification.part_of(from) ^ kIpv4Identification.part_of(to),
                         transport.size() - kIcrcSize);
  const auto stored = load_be<std::uint32_t, 0>(std::span<const std::byte, kIcrcSize>(icrc));
  store_be<std::uint32_t, 0>(icrc, stored ^ __builtin_bswap32(difference));
}

[[gnu::flatten]] std::optional<std::uint16_t> verify_icrc(
    const IcrcSeed& seed, std::span<const std::byte> transport,
    std::uint16_t expected_identification) noexcept {
  if (transport.size() < Bth::kSize + kIcrcSize) return std::nullopt;
  if (transport.size() > kIcrcMaxTransportOctets) return std::nullopt;
  const auto covered = transport.first(transport.size() - kIcrcSize);
  const auto stored = load_be<std::uint32_t, 0>(transport.last<kIcrcSize>());
  const std::uint32_t computed =
      icrc_over_headers(seed.start(transport.size(), expected_identification), covered);
  const std::uint32_t difference = computed ^ ~__builtin_bswap32(stored);
  if (difference == 0) return seed.is_ipv4() ? expected_identification : std::uint16_t{0};
  if (!seed.is_ipv4()) return std::nullopt;

  // The value that four octets, identification and flags, need to produce the difference. The first
  // of them is the low octet.
  const std::uint32_t missing =
      crc32_before_zeroes(difference, kIdentificationToBth + covered.size());
  constexpr std::uint32_t kMayFragment = 0x0040;  // removes the flag that start() has set
  const std::uint32_t flags = missing >> 16;
  if (flags != 0 && flags != kMayFragment) return std::nullopt;
  return static_cast<std::uint16_t>(
      expected_identification ^ __builtin_bswap16(static_cast<std::uint16_t>(missing & 0xffff)));
}

std::uint32_t icrc_of_native(std::span<const std::byte> packet_without_icrc) noexcept {
  std::array<std::byte, Lrh::kSize + Grh::kSize + Bth::kSize> headers{};
  const auto count = std::min(headers.size(), packet_without_icrc.size());
  std::copy_n(packet_without_icrc.begin(), count, headers.begin());

  std::size_t bth_at = Lrh::kSize;
  if ((headers[1] & std::byte{3}) == static_cast<std::byte>(LinkNextHeader::kGrh)) {
    std::fill_n(headers.begin(), Lrh::kSize, std::byte{0xff});
    mask_ipv6(std::span(headers).subspan(Lrh::kSize));
    bth_at += Grh::kSize;
  } else {
    mask(headers, 0, 0xf0);  // virtual lane
  }
  mask(headers, bth_at + kBthEcnAt);
  const std::uint32_t state =
      crc32_update(kCrc32Preset, std::span<const std::byte>(headers).first(count));
  return crc32_update(state, packet_without_icrc.subspan(count));
}

}  // namespace verbatim::wire

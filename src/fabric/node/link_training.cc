// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/link_training.h"

#include <array>
#include <bit>
#include <cstdint>

namespace verbatim::fabric {
namespace {

/// The three fields of speeds as bits of one number, slowest first: SDR, DDR, QDR; FDR, EDR, HDR,
/// NDR; XDR.
constexpr unsigned kExtendedShift = 4;
constexpr unsigned kSpeed2Shift = 8;
constexpr std::uint8_t kQdr = 4;

constexpr unsigned speed_bit(LinkSpeed speed) noexcept {
  constexpr std::array<unsigned, 9> kBits{0, 1, 2, 2, 4, 5, 6, 7, 8};  // FDR10 looks like QDR
  return kBits[static_cast<std::size_t>(speed)];
}

constexpr LinkSpeed speed_of_bit(unsigned bit) noexcept {
  for (const auto speed : {LinkSpeed::kXdr, LinkSpeed::kNdr, LinkSpeed::kHdr, LinkSpeed::kEdr,
                           LinkSpeed::kFdr, LinkSpeed::kQdr, LinkSpeed::kDdr}) {
    if (speed_bit(speed) == bit) return speed;
  }
  return LinkSpeed::kSdr;
}

constexpr unsigned enabled_speeds(const wire::PortInfo& info) noexcept {
  return info.speed_enabled |
         (static_cast<unsigned>(info.extended_speed_enabled) << kExtendedShift) |
         (static_cast<unsigned>(info.speed_2_enabled) << kSpeed2Shift);
}

constexpr std::uint8_t widths_up_to(LinkWidth width) noexcept {
  switch (width) {
    case LinkWidth::k1x:
      return 1;
    case LinkWidth::k2x:
      return 1 | 16;
    case LinkWidth::k4x:
      return 1 | 2;
    case LinkWidth::k8x:
      return 1 | 2 | 4;
    case LinkWidth::k12x:
      return 1 | 2 | 8;
  }
  return 1;
}

/// The widest of some widths; 0 for none.
constexpr std::uint8_t widest(unsigned widths) noexcept {
  for (const unsigned width : {8U, 4U, 2U, 16U, 1U}) {
    if ((widths & width) != 0) return static_cast<std::uint8_t>(width);
  }
  return 0;
}

void set_active(wire::PortInfo& info, std::uint8_t width, unsigned speed) noexcept {
  info.width_active = width;
  info.speed_active = speed < kExtendedShift ? static_cast<std::uint8_t>(1U << speed) : kQdr;
  info.extended_speed_active = static_cast<std::uint8_t>(
      speed >= kExtendedShift && speed < kSpeed2Shift ? 1U << (speed - kExtendedShift) : 0U);
  info.speed_2_active = speed >= kSpeed2Shift ? 1 : 0;
}

}  // namespace

void set_supported_rate(wire::PortInfo& info, LinkRate rate) noexcept {
  const unsigned fastest = speed_bit(rate.speed);
  const unsigned speeds = (2U << fastest) - 1;
  info.width_supported = info.width_enabled = widths_up_to(rate.width);
  info.speed_supported = info.speed_enabled = static_cast<std::uint8_t>(speeds & 7U);
  info.extended_speed_supported = info.extended_speed_enabled =
      static_cast<std::uint8_t>((speeds >> kExtendedShift) & 0x0fU);
  info.speed_2_supported = info.speed_2_enabled = static_cast<std::uint8_t>(speeds >> kSpeed2Shift);
  info.capability_mask_2 = static_cast<std::uint16_t>(
      (rate.width == LinkWidth::k2x ? wire::PortCapability2::kWidth2x : 0U) |
      (fastest >= speed_bit(LinkSpeed::kHdr) ? wire::PortCapability2::kHdr : 0U) |
      (fastest >= speed_bit(LinkSpeed::kNdr) ? wire::PortCapability2::kNdr : 0U));
  set_active(info, static_cast<std::uint8_t>(rate.width), fastest);
}

bool train(wire::PortInfo& a, wire::PortInfo& b) noexcept {
  const unsigned speeds = enabled_speeds(a) & enabled_speeds(b);
  const std::uint8_t width = widest(unsigned{a.width_enabled} & b.width_enabled);
  if (speeds == 0 || width == 0) return false;
  const auto speed = static_cast<unsigned>(std::bit_width(speeds)) - 1;
  set_active(a, width, speed);
  set_active(b, width, speed);
  return true;
}

LinkRate active_rate(const wire::PortInfo& info) noexcept {
  const unsigned speeds = info.speed_2_active != 0 ? 1U << kSpeed2Shift
                          : info.extended_speed_active != 0
                              ? static_cast<unsigned>(info.extended_speed_active) << kExtendedShift
                              : info.speed_active;
  const auto bit = static_cast<unsigned>(std::bit_width(speeds | 1U)) - 1;
  return {.width = LinkWidth{info.width_active}, .speed = speed_of_bit(bit)};
}

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "wire/headers/ids.h"
#include "wire/headers/mad.h"
#include "wire/headers/psn.h"

/// The tables of the CM messages (IBA Vol 1, 12.6) as code. A message writes its table down once,
///
///     at(CmBits<43, 0, 5>{}, message.remote_cm_response_timeout);
///     at(CmOctets<140, 92>{}, message.private_data);
///
/// and CmReader or CmWriter, as `at`, applies it in one direction or the other, so the two cannot
/// differ. Offsets are octets after the MAD header and bits from the most significant, as in the
/// specification; the compiler proves the bounds.
namespace verbatim::wire {

/// A number. `kLowBit` is for a number in several pieces: the lowest bit of the number in this
/// piece.
template <std::size_t kOctet, std::size_t kBit, std::size_t kWidth, std::size_t kLowBit = 0>
struct CmBits {
  static_assert(kBit < 8 && kWidth > 0 && kBit + kWidth <= 64);
  static_assert(kOctet * 8 + kBit + kWidth <= Mad::kDataSize * 8);
  static constexpr std::size_t kFirstBit = kOctet * 8 + kBit;
  static constexpr std::size_t kBitCount = kWidth;
  /// The bits of the number that are in this piece of it.
  static constexpr std::uint64_t kNumberMask = (~std::uint64_t{0} >> (64 - kWidth)) << kLowBit;

  static std::uint64_t load(std::span<const std::byte, Mad::kDataSize> from) noexcept {
    std::uint64_t word = 0;
    for (const std::byte octet : from.template subspan<kOctet, kOctetCount>()) {
      word = (word << 8) | std::to_integer<std::uint64_t>(octet);
    }
    return ((word >> kShift) << kLowBit) & kNumberMask;
  }

  /// The octets must be zero before. Bits of `number` beyond the field are dropped.
  static void store(std::span<std::byte, Mad::kDataSize> to, std::uint64_t number) noexcept {
    std::uint64_t word = ((number & kNumberMask) >> kLowBit) << kShift;
    for (std::size_t i = kOctetCount; i-- > 0; word >>= 8) {
      to[kOctet + i] |= static_cast<std::byte>(word & 0xff);
    }
  }

 private:
  static constexpr std::size_t kOctetCount = (kBit + kWidth + 7) / 8;
  static constexpr std::size_t kShift = kOctetCount * 8 - kBit - kWidth;
};

/// Octets that are not a number.
template <std::size_t kOctet, std::size_t kCount>
struct CmOctets {
  static_assert(kOctet + kCount <= Mad::kDataSize);
  static constexpr std::size_t kFirstBit = kOctet * 8;
  static constexpr std::size_t kBitCount = kCount * 8;
};

/// Fills a message from octets.
class CmReader {
 public:
  explicit CmReader(std::span<const std::byte, Mad::kDataSize> from) noexcept : from_(from) {}

  template <typename Field, typename Number>
  requires(std::is_enum_v<Number> || std::is_unsigned_v<Number>) void operator()(
      Field, Number& number) const noexcept {
    constexpr std::size_t kRoom = std::is_same_v<Number, bool> ? 1 : sizeof(Number) * 8;
    static_assert(std::bit_width(Field::kNumberMask) <= kRoom);
    const std::uint64_t other_pieces = static_cast<std::uint64_t>(number) & ~Field::kNumberMask;
    number = static_cast<Number>(other_pieces | Field::load(from_));
  }
  template <typename Field>
  void operator()(Field, Psn& psn) const noexcept {
    psn = Psn(static_cast<std::uint32_t>(Field::load(from_)));
  }
  template <std::size_t kOctet, std::size_t kCount>
  void operator()(CmOctets<kOctet, kCount>, std::array<std::byte, kCount>& octets) const noexcept {
    std::ranges::copy(from_.subspan<kOctet, kCount>(), octets.begin());
  }
  template <std::size_t kOctet>
  void operator()(CmOctets<kOctet, 16>, Gid& gid) const noexcept {
    std::ranges::transform(from_.subspan<kOctet, 16>(), gid.octets.begin(),
                           [](std::byte octet) { return std::to_integer<std::uint8_t>(octet); });
  }

 private:
  std::span<const std::byte, Mad::kDataSize> from_;
};

/// Writes a message over octets that were zero.
class CmWriter {
 public:
  explicit CmWriter(std::span<std::byte, Mad::kDataSize> to) noexcept : to_(to) {}

  template <typename Field, typename Number>
  requires(std::is_enum_v<Number> || std::is_unsigned_v<Number>) void operator()(
      Field, const Number& number) const noexcept {
    Field::store(to_, static_cast<std::uint64_t>(number));
  }
  template <typename Field>
  void operator()(Field, const Psn& psn) const noexcept {
    Field::store(to_, psn.raw());
  }
  template <std::size_t kOctet, std::size_t kCount>
  void operator()(CmOctets<kOctet, kCount>,
                  const std::array<std::byte, kCount>& octets) const noexcept {
    std::ranges::copy(octets, to_.subspan<kOctet, kCount>().begin());
  }
  template <std::size_t kOctet>
  void operator()(CmOctets<kOctet, 16>, const Gid& gid) const noexcept {
    std::ranges::transform(gid.octets, to_.subspan<kOctet, 16>().begin(),
                           [](std::uint8_t octet) { return static_cast<std::byte>(octet); });
  }

 private:
  std::span<std::byte, Mad::kDataSize> to_;
};

}  // namespace verbatim::wire

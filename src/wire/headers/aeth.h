// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/time.h"

namespace verbatim::wire {

/// The answer of a responder to a request (IBA Vol 1, 9.7.5.2): bit 7 is zero, bits 6..5 the kind,
/// bits 4..0 credits, an RNR timer or a NAK code.
class Syndrome {
 public:
  enum class Kind : std::uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };
  enum class Nak : std::uint8_t {
    kSequence = 0,
    kInvalidRequest = 1,
    kRemoteAccess = 2,
    kRemoteOperation = 3,
    kInvalidRd = 4,
  };
  /// No credit information: the requester does not count credits (9.7.7.2).
  static constexpr std::uint8_t kUnlimitedCredits = 0x1f;

  constexpr Syndrome() noexcept = default;
  constexpr explicit Syndrome(std::uint8_t raw) noexcept : raw_(raw) {}
  static constexpr Syndrome ack() noexcept { return Syndrome(kUnlimitedCredits); }
  static constexpr Syndrome rnr(std::uint8_t timer_code) noexcept {
    return Syndrome(static_cast<std::uint8_t>(0x20U | (timer_code & 0x1fU)));
  }
  static constexpr Syndrome nak(Nak code) noexcept {
    return Syndrome(static_cast<std::uint8_t>(0x60U | static_cast<unsigned>(code)));
  }

  [[nodiscard]] constexpr std::uint8_t raw() const noexcept { return raw_; }
  /// Values with bit 7 set are reserved as well.
  [[nodiscard]] constexpr Kind kind() const noexcept {
    return (raw_ & 0x80) != 0 ? Kind::kReserved : Kind((raw_ >> 5) & 3);
  }
  [[nodiscard]] constexpr std::uint8_t code() const noexcept { return raw_ & 0x1f; }
  [[nodiscard]] constexpr bool is_defined_nak() const noexcept {
    return kind() == Kind::kNak && code() <= static_cast<std::uint8_t>(Nak::kInvalidRd);
  }
  friend constexpr bool operator==(Syndrome, Syndrome) noexcept = default;

 private:
  std::uint8_t raw_ = 0;
};

/// The number of messages that a credit code means (table 45); code 31 has no number.
inline constexpr std::array<std::uint16_t, 31> kCreditCodes = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// How long an RNR NAK asks the requester to wait, in units of 10 microseconds (table 46).
inline constexpr std::array<std::uint32_t, 32> kRnrTimerUnits = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
[[nodiscard]] constexpr Duration rnr_delay(std::uint8_t timer_code) noexcept {
  return std::chrono::microseconds(10 * kRnrTimerUnits[timer_code & 0x1f]);
}

/// ACK Extended Transport Header: 0 syndrome | 1..3 message sequence number
struct Aeth {
  static constexpr std::size_t kSize = 4;
  Syndrome syndrome{};
  std::uint32_t msn = 0;  // 24 bits: messages that the responder has completed

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(to, (std::uint32_t{syndrome.raw()} << 24) | (msn & 0x00ff'ffffU));
  }
  static Aeth from(std::span<const std::byte, kSize> octets) noexcept {
    const auto word = load_be<std::uint32_t, 0>(octets);
    return {.syndrome = Syndrome(static_cast<std::uint8_t>(word >> 24)),
            .msn = word & 0x00ff'ffffU};
  }
};

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/ids.h"
#include "wire/headers/opcode.h"
#include "wire/headers/psn.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Base Transport Header, the 12 octets that open every transport packet (IBA Vol 1, 9.2).
///
///     0 opcode | 1 SE:1 M:1 Pad:2 TVer:4 | 2..3 P_Key
///     4 F:1 B:1 reserved:6 | 5..7 DestQP | 8 A:1 reserved:7 | 9..11 PSN
struct Bth {
  static constexpr std::size_t kSize = 12;
  Opcode opcode{};
  bool solicited = false;
  bool migrated = false;       // path state "migrated"; receivers must not check it
  std::uint8_t pad_count = 0;  // 0..3 octets after the payload
  PKey pkey = PKey::kDefault;
  bool fecn = false;
  bool becn = false;
  QpNumber dest_qp{};
  bool ack_request = false;
  Psn psn{};

  /// The octets in front of the one with the acknowledge request, and those from it on, as numbers.
  static constexpr std::size_t kFrontSize = 8;
  [[nodiscard]] std::uint64_t front() const noexcept {
    const std::uint32_t flags =
        (solicited ? 0x80U : 0U) | (migrated ? 0x40U : 0U) | ((pad_count & 3U) << 4);
    const std::uint32_t target = (fecn ? 0x8000'0000U : 0U) | (becn ? 0x4000'0000U : 0U) |
                                 (static_cast<std::uint32_t>(dest_qp) & kQpNumberMask);
    return std::uint64_t{static_cast<std::uint8_t>(opcode)} << 56 | std::uint64_t{flags} << 48 |
           std::uint64_t{static_cast<std::uint16_t>(pkey)} << 32 | target;
  }
  [[nodiscard]] std::uint32_t back() const noexcept {
    return (ack_request ? 0x8000'0000U : 0U) | psn.raw();
  }

  /// Writes every octet, reserved bits as zero: nothing of a reused buffer leaks onto the fabric.
  /// The stores are few and wide, so that loads of the same octets can follow at once.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint64_t, 0>(to, front());
    store_be<std::uint32_t, kFrontSize>(to, back());
  }
};

/// A header that arrived: once parse() has succeeded every accessor is safe. No accessor checks its
/// value.
class BthView {
 public:
  static Expected<BthView, WireError> parse(std::span<const std::byte> packet) noexcept {
    if (packet.size() < Bth::kSize) return WireError::kTruncated;
    const BthView view(packet.first<Bth::kSize>());
    if ((load_be<std::uint8_t, 1>(view.octets_) & 0x0f) != 0) return WireError::kBadVersion;
    return view;
  }

  [[nodiscard]] Opcode opcode() const noexcept { return Opcode{load_be<std::uint8_t, 0>(octets_)}; }
  [[nodiscard]] bool solicited() const noexcept { return (flags() & 0x80) != 0; }
  [[nodiscard]] bool migrated() const noexcept { return (flags() & 0x40) != 0; }
  [[nodiscard]] std::uint8_t pad_count() const noexcept {
    return static_cast<std::uint8_t>((flags() >> 4) & 3);
  }
  [[nodiscard]] PKey pkey() const noexcept { return PKey{load_be<std::uint16_t, 2>(octets_)}; }
  [[nodiscard]] bool fecn() const noexcept { return (word<4>() & 0x8000'0000U) != 0; }
  [[nodiscard]] bool becn() const noexcept { return (word<4>() & 0x4000'0000U) != 0; }
  [[nodiscard]] QpNumber dest_qp() const noexcept { return QpNumber{word<4>() & kQpNumberMask}; }
  [[nodiscard]] bool ack_request() const noexcept { return (word<8>() & 0x8000'0000U) != 0; }
  [[nodiscard]] Psn psn() const noexcept { return Psn(word<8>()); }

  /// The header as a value, with reserved bits zero.
  [[nodiscard]] Bth value() const noexcept {
    return {.opcode = opcode(),
            .solicited = solicited(),
            .migrated = migrated(),
            .pad_count = pad_count(),
            .pkey = pkey(),
            .fecn = fecn(),
            .becn = becn(),
            .dest_qp = dest_qp(),
            .ack_request = ack_request(),
            .psn = psn()};
  }

 private:
  explicit BthView(std::span<const std::byte, Bth::kSize> octets) noexcept : octets_(octets) {}
  [[nodiscard]] std::uint8_t flags() const noexcept { return load_be<std::uint8_t, 1>(octets_); }
  template <std::size_t kOffset>
  [[nodiscard]] std::uint32_t word() const noexcept {
    return load_be<std::uint32_t, kOffset>(octets_);
  }
  std::span<const std::byte, Bth::kSize> octets_;
};

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/crc/vcrc.h"
#include "wire/headers/lrh.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The link packet by which each end of a native link grants the other end credits to send (IBA Vol
/// 1, 7.9.4). Blocks are of 64 octets and counted modulo 4096, for each data lane.
///
///     0..1 Op:4 FCTBS:12 | 2..3 VL:4 FCCL:12 | 4..5 LPCRC
struct FlowControl {
  static constexpr std::size_t kSize = 6;
  static constexpr std::uint16_t kBlocksMask = 0x0fff;
  enum class Op : std::uint8_t { kNormal = 0, kInit = 1 };
  Op op = Op::kNormal;
  std::uint16_t blocks_sent = 0;  // FCTBS: by the sender of this packet; 12 bits
  VirtualLane lane{};
  std::uint16_t credit_limit = 0;  // FCCL: the receiver of this packet may send up to it; 12 bits

  /// Writes every octet, the LPCRC included.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint16_t, 0>(to, nibble_and_blocks(static_cast<unsigned>(op), blocks_sent));
    store_be<std::uint16_t, 2>(to, nibble_and_blocks(static_cast<unsigned>(lane), credit_limit));
    const auto crc = vcrc_of(to.first<4>());
    std::copy(crc.begin(), crc.end(), to.data() + 4);
  }

 private:
  static std::uint16_t nibble_and_blocks(unsigned nibble, unsigned blocks) noexcept {
    return static_cast<std::uint16_t>((nibble << 12) | (blocks & kBlocksMask));
  }
};

/// A link packet that arrived: parse() has checked its length and its LPCRC. The receiver must
/// ignore an operation that is neither of the two.
class FlowControlView {
 public:
  static Expected<FlowControlView, WireError> parse(std::span<const std::byte> packet) noexcept {
    if (packet.size() < FlowControl::kSize) return WireError::kTruncated;
    if (packet.size() > FlowControl::kSize) return WireError::kBadLength;
    const auto crc = vcrc_of(packet.first<4>());
    if (!std::equal(crc.begin(), crc.end(), packet.data() + 4)) return WireError::kBadChecksum;
    return FlowControlView(packet.first<FlowControl::kSize>());
  }

  [[nodiscard]] FlowControl::Op op() const noexcept {
    return FlowControl::Op{static_cast<std::uint8_t>(load_be<std::uint8_t, 0>(octets_) >> 4)};
  }
  [[nodiscard]] std::uint16_t blocks_sent() const noexcept {
    return load_be<std::uint16_t, 0>(octets_) & FlowControl::kBlocksMask;
  }
  [[nodiscard]] VirtualLane lane() const noexcept {
    return VirtualLane{static_cast<std::uint8_t>(load_be<std::uint8_t, 2>(octets_) >> 4)};
  }
  [[nodiscard]] std::uint16_t credit_limit() const noexcept {
    return load_be<std::uint16_t, 2>(octets_) & FlowControl::kBlocksMask;
  }

  [[nodiscard]] FlowControl value() const noexcept {
    return {
        .op = op(), .blocks_sent = blocks_sent(), .lane = lane(), .credit_limit = credit_limit()};
  }

 private:
  explicit FlowControlView(std::span<const std::byte, FlowControl::kSize> octets) noexcept
      : octets_(octets) {}
  std::span<const std::byte, FlowControl::kSize> octets_;
};

}  // namespace verbatim::wire

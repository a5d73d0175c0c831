// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"
#include "wire/headers/lrh.h"
#include "wire/management/attribute_data.h"
#include "wire/management/node_info.h"

namespace verbatim::wire {

enum class NoticeType : std::uint8_t {
  kFatal = 0,
  kUrgent = 1,
  kSecurity = 2,
  kSubnetManagement = 3,
  kInformational = 4,
};

/// The event that a subnet management agent reports (IBA Vol 1, 14.2.5.1).
enum class TrapNumber : std::uint16_t {
  kLinkStateChange = 128,
  kLocalLinkIntegrity = 129,
  kBufferOverrun = 130,
  kFlowControlWatchdog = 131,
  kLocalChanges = 144,
  kBadMKey = 256,
  kBadPKey = 257,
  kBadQKey = 258,
  kBadPKeyAtSwitchPort = 259,
};

/// A generic notice (IBA Vol 1, 13.4.8.2).
///
///     0 generic:1 type:7 | 1..3 producer | 4..5 trap number | 6..7 LID of the issuer
///     8..9 toggle:1 count:15 | 10..63 details
struct Notice {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kDetailsSize = 54;
  NoticeType type{};
  NodeType producer{};
  TrapNumber number{};
  Lid issuer{};
  std::uint16_t toggle_and_count = 0;
  std::array<std::byte, kDetailsSize> details{};
  friend bool operator==(const Notice&, const Notice&) noexcept = default;

  void emit(AttributeData to) const noexcept {
    store_be<std::uint32_t, 0>(to, 0x8000'0000U | (static_cast<std::uint32_t>(type) << 24) |
                                       static_cast<std::uint32_t>(producer));
    store_be<std::uint16_t, 4>(to, static_cast<std::uint16_t>(number));
    store_be<std::uint16_t, 6>(to, static_cast<std::uint16_t>(issuer));
    store_be<std::uint16_t, 8>(to, toggle_and_count);
    std::ranges::copy(details, to.subspan<10, kDetailsSize>().begin());
  }
  static Notice from(ConstAttributeData octets) noexcept {
    Notice notice{
        .type = NoticeType{static_cast<std::uint8_t>(load_be<std::uint8_t, 0>(octets) & 0x7f)},
        .producer = NodeType{load_be<std::uint8_t, 3>(octets)},
        .number = TrapNumber{load_be<std::uint16_t, 4>(octets)},
        .issuer = Lid{load_be<std::uint16_t, 6>(octets)},
        .toggle_and_count = load_be<std::uint16_t, 8>(octets)};
    std::ranges::copy(octets.subspan<10, kDetailsSize>(), notice.details.begin());
    return notice;
  }
};

}  // namespace verbatim::wire

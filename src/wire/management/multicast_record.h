// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/management/path_record.h"

namespace verbatim::wire {

/// How a port belongs to a multicast group: bits (IBA Vol 1, 15.2.5.17).
enum class JoinState : std::uint8_t {
  kNone = 0,
  kFullMember = 1,
  kNonMember = 2,
  kSendOnlyNonMember = 4,
  kSendOnlyFullMember = 8,
};
[[nodiscard]] constexpr bool has_any(JoinState of, JoinState bits) noexcept {
  return (static_cast<unsigned>(of) & static_cast<unsigned>(bits)) != 0;
}

/// A multicast group and the membership of one port, as subnet administration describes it:
/// MCMemberRecord (IBA Vol 1, 15.2.5.17). A Set joins, a Delete leaves. Any octets are some value.
///
///     0..15 MGID | 16..31 port GID | 32..35 Q_Key | 36..37 MLID | 38 MTU selector:2 MTU:6
///     39 traffic class | 40..41 P_Key | 42 rate selector:2 rate:6
///     43 life time selector:2 life time:6 | 44 SL:4 flow label:20 hop limit:8
///     48 scope:4 join state:4 | 49 proxy join:1 reserved:7 | 50..55 reserved
struct MulticastRecord {
  static constexpr std::size_t kSize = 56;
  static constexpr std::uint16_t kAttributeId = 0x0038;

  /// The bits of the component mask.
  static constexpr std::uint64_t kGroup = 1U << 0;
  static constexpr std::uint64_t kPortGid = 1U << 1;
  static constexpr std::uint64_t kQKey = 1U << 2;
  static constexpr std::uint64_t kMtuSelector = 1U << 4;
  static constexpr std::uint64_t kMtu = 1U << 5;
  static constexpr std::uint64_t kTrafficClass = 1U << 6;
  static constexpr std::uint64_t kPKey = 1U << 7;
  static constexpr std::uint64_t kRateSelector = 1U << 8;
  static constexpr std::uint64_t kRate = 1U << 9;
  static constexpr std::uint64_t kServiceLevel = 1U << 12;
  static constexpr std::uint64_t kFlowLabel = 1U << 13;
  static constexpr std::uint64_t kHopLimit = 1U << 14;
  static constexpr std::uint64_t kJoinState = 1U << 16;

  Gid group{};
  Gid port_gid{};
  QKey qkey{};
  Lid lid{};
  RecordSelector mtu_selector{};
  PathMtu mtu{};  // 6 bits: a received value may be no valid MTU
  std::uint8_t traffic_class = 0;
  PKey pkey{};
  RecordSelector rate_selector{};
  std::uint8_t rate = 0;  // 6 bits
  RecordSelector life_time_selector{};
  std::uint8_t life_time = 0;  // 6 bits
  ServiceLevel level{};
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t hop_limit = 0;
  std::uint8_t scope = 0;  // 4 bits
  JoinState join_state{};
  bool is_proxy_join = false;
  friend bool operator==(const MulticastRecord&, const MulticastRecord&) noexcept = default;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    std::ranges::fill(to, std::byte{0});
    std::ranges::copy(std::as_bytes(std::span(group.octets)), to.begin());
    std::ranges::copy(std::as_bytes(std::span(port_gid.octets)), to.begin() + 16);
    store_be<std::uint32_t, 32>(to, static_cast<std::uint32_t>(qkey));
    store_be<std::uint16_t, 36>(to, static_cast<std::uint16_t>(lid));
    store_be<std::uint8_t, 38>(to, joined(mtu_selector, static_cast<std::uint8_t>(mtu)));
    store_be<std::uint8_t, 39>(to, traffic_class);
    store_be<std::uint16_t, 40>(to, static_cast<std::uint16_t>(pkey));
    store_be<std::uint8_t, 42>(to, joined(rate_selector, rate));
    store_be<std::uint8_t, 43>(to, joined(life_time_selector, life_time));
    store_be<std::uint32_t, 44>(
        to, static_cast<std::uint32_t>(level) << 28 | (flow_label & 0xf'ffffU) << 8 | hop_limit);
    store_be<std::uint8_t, 48>(
        to, static_cast<std::uint8_t>(unsigned{scope} << 4 |
                                      (static_cast<unsigned>(join_state) & 15U)));
    store_be<std::uint8_t, 49>(to, is_proxy_join ? 0x80 : 0);
  }

  static MulticastRecord from(std::span<const std::byte, kSize> octets) noexcept {
    const auto mtu = load_be<std::uint8_t, 38>(octets);
    const auto rate = load_be<std::uint8_t, 42>(octets);
    const auto life_time = load_be<std::uint8_t, 43>(octets);
    const auto routing = load_be<std::uint32_t, 44>(octets);
    const auto membership = load_be<std::uint8_t, 48>(octets);
    MulticastRecord record{
        .qkey = QKey{load_be<std::uint32_t, 32>(octets)},
        .lid = Lid{load_be<std::uint16_t, 36>(octets)},
        .mtu_selector = RecordSelector{static_cast<std::uint8_t>(mtu >> 6)},
        .mtu = PathMtu{static_cast<std::uint8_t>(mtu & 0x3f)},
        .traffic_class = load_be<std::uint8_t, 39>(octets),
        .pkey = PKey{load_be<std::uint16_t, 40>(octets)},
        .rate_selector = RecordSelector{static_cast<std::uint8_t>(rate >> 6)},
        .rate = static_cast<std::uint8_t>(rate & 0x3f),
        .life_time_selector = RecordSelector{static_cast<std::uint8_t>(life_time >> 6)},
        .life_time = static_cast<std::uint8_t>(life_time & 0x3f),
        .level = ServiceLevel{static_cast<std::uint8_t>(routing >> 28)},
        .flow_label = routing >> 8 & 0xf'ffffU,
        .hop_limit = static_cast<std::uint8_t>(routing),
        .scope = static_cast<std::uint8_t>(membership >> 4),
        .join_state = JoinState{static_cast<std::uint8_t>(membership & 15)},
        .is_proxy_join = (load_be<std::uint8_t, 49>(octets) & 0x80) != 0};
    std::memcpy(record.group.octets.data(), octets.data(), sizeof(Gid));
    std::memcpy(record.port_gid.octets.data(), octets.data() + 16, sizeof(Gid));
    return record;
  }

 private:
  static std::uint8_t joined(RecordSelector selector, std::uint8_t value) noexcept {
    return static_cast<std::uint8_t>(static_cast<unsigned>(selector) << 6 | (value & 0x3fU));
  }
};

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"

namespace verbatim::wire {

/// What a query demands of a number, or that an answer is this number exactly (IBA Vol 1,
/// 15.2.5.16).
enum class RecordSelector : std::uint8_t { kGreater = 0, kLess = 1, kExactly = 2, kLargest = 3 };

/// A path through the subnet from one port to another, as subnet administration describes it (IBA
/// Vol 1, 15.2.5.16). Any octets are some value.
///
///     0..7 service | 8..23 DGID | 24..39 SGID | 40..41 DLID | 42..43 SLID
///     44 raw:1 reserved:3 flow label:20 hop limit:8 | 48 traffic class | 49 reversible:1 paths:7
///     50..51 P_Key | 52 QoS class:12 SL:4 | 54 MTU selector:2 MTU:6 | 55 rate selector:2 rate:6
///     56 life time selector:2 life time:6 | 57 preference | 58..63 reserved
struct PathRecord {
  static constexpr std::size_t kSize = 64;
  static constexpr std::uint16_t kAttributeId = 0x0035;

  /// The bits of the component mask.
  static constexpr std::uint64_t kService = 0x3;
  static constexpr std::uint64_t kDestinationGid = 1U << 2;
  static constexpr std::uint64_t kSourceGid = 1U << 3;
  static constexpr std::uint64_t kTrafficClass = 1U << 10;
  static constexpr std::uint64_t kReversible = 1U << 11;
  static constexpr std::uint64_t kPathCount = 1U << 12;
  static constexpr std::uint64_t kPKey = 1U << 13;
  static constexpr std::uint64_t kQosClass = 1U << 14;

  ServiceId service{};
  Gid destination_gid{};
  Gid source_gid{};
  Lid destination{};
  Lid source{};
  bool is_raw = false;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t hop_limit = 0;    // above 1: behind a router, and packets have a GRH
  std::uint8_t traffic_class = 0;
  bool is_reversible = false;
  std::uint8_t path_count = 0;  // 7 bits; of a query
  PKey pkey{};
  std::uint16_t qos_class = 0;  // 12 bits
  ServiceLevel level{};
  RecordSelector mtu_selector{};
  PathMtu mtu{};  // 6 bits: a received value may be no valid MTU
  RecordSelector rate_selector{};
  std::uint8_t rate = 0;  // 6 bits; 2 is 2.5 Gb/s, 3 is 10 Gb/s, ...
  RecordSelector life_time_selector{};
  std::uint8_t life_time = 0;  // 6 bits: 4.096 us << code
  std::uint8_t preference = 0;
  friend bool operator==(const PathRecord&, const PathRecord&) noexcept = default;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    std::ranges::fill(to, std::byte{0});
    store_be<std::uint64_t, 0>(to, static_cast<std::uint64_t>(service));
    std::ranges::copy(std::as_bytes(std::span(destination_gid.octets)), to.begin() + 8);
    std::ranges::copy(std::as_bytes(std::span(source_gid.octets)), to.begin() + 24);
    store_be<std::uint16_t, 40>(to, static_cast<std::uint16_t>(destination));
    store_be<std::uint16_t, 42>(to, static_cast<std::uint16_t>(source));
    store_be<std::uint32_t, 44>(
        to, (is_raw ? 0x8000'0000U : 0U) | (flow_label & 0xf'ffffU) << 8 | hop_limit);
    store_be<std::uint8_t, 48>(to, traffic_class);
    store_be<std::uint8_t, 49>(
        to, static_cast<std::uint8_t>((is_reversible ? 0x80U : 0U) | (path_count & 0x7fU)));
    store_be<std::uint16_t, 50>(to, static_cast<std::uint16_t>(pkey));
    store_be<std::uint16_t, 52>(
        to,
        static_cast<std::uint16_t>(unsigned{qos_class} << 4 | (static_cast<unsigned>(level) & 15)));
    store_be<std::uint8_t, 54>(to, joined(mtu_selector, static_cast<std::uint8_t>(mtu)));
    store_be<std::uint8_t, 55>(to, joined(rate_selector, rate));
    store_be<std::uint8_t, 56>(to, joined(life_time_selector, life_time));
    store_be<std::uint8_t, 57>(to, preference);
  }

  static PathRecord from(std::span<const std::byte, kSize> octets) noexcept {
    const auto routing = load_be<std::uint32_t, 44>(octets);
    const auto count = load_be<std::uint8_t, 49>(octets);
    const auto quality = load_be<std::uint16_t, 52>(octets);
    const auto mtu = load_be<std::uint8_t, 54>(octets);
    const auto rate = load_be<std::uint8_t, 55>(octets);
    const auto life_time = load_be<std::uint8_t, 56>(octets);
    PathRecord record{
        .service = ServiceId{load_be<std::uint64_t, 0>(octets)},
        .destination = Lid{load_be<std::uint16_t, 40>(octets)},
        .source = Lid{load_be<std::uint16_t, 42>(octets)},
        .is_raw = (routing & 0x8000'0000U) != 0,
        .flow_label = routing >> 8 & 0xf'ffffU,
        .hop_limit = static_cast<std::uint8_t>(routing),
        .traffic_class = load_be<std::uint8_t, 48>(octets),
        .is_reversible = (count & 0x80) != 0,
        .path_count = static_cast<std::uint8_t>(count & 0x7f),
        .pkey = PKey{load_be<std::uint16_t, 50>(octets)},
        .qos_class = static_cast<std::uint16_t>(quality >> 4),
        .level = ServiceLevel{static_cast<std::uint8_t>(quality & 15)},
        .mtu_selector = RecordSelector{static_cast<std::uint8_t>(mtu >> 6)},
        .mtu = PathMtu{static_cast<std::uint8_t>(mtu & 0x3f)},
        .rate_selector = RecordSelector{static_cast<std::uint8_t>(rate >> 6)},
        .rate = static_cast<std::uint8_t>(rate & 0x3f),
        .life_time_selector = RecordSelector{static_cast<std::uint8_t>(life_time >> 6)},
        .life_time = static_cast<std::uint8_t>(life_time & 0x3f),
        .preference = load_be<std::uint8_t, 57>(octets)};
    std::memcpy(record.destination_gid.octets.data(), octets.data() + 8, sizeof(Gid));
    std::memcpy(record.source_gid.octets.data(), octets.data() + 24, sizeof(Gid));
    return record;
  }

 private:
  static std::uint8_t joined(RecordSelector selector, std::uint8_t value) noexcept {
    return static_cast<std::uint8_t>(static_cast<unsigned>(selector) << 6 | (value & 0x3fU));
  }
};

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"
#include "wire/headers/smp.h"
#include "wire/management/notice.h"

/// What the details of a notice contain, by trap number (IBA Vol 1, 14.2.5.1). Offsets count from
/// the start of the details.
namespace verbatim::wire {

using TrapDetails = std::array<std::byte, Notice::kDetailsSize>;

/// Trap 128: 0..1 LID of the switch
struct LinkStateChange {
  Lid lid{};
  [[nodiscard]] TrapDetails details() const noexcept {
    TrapDetails to{};
    store_be<std::uint16_t, 0>(std::span(to), static_cast<std::uint16_t>(lid));
    return to;
  }
};

/// Traps 129 to 131: 0..1 reserved | 2..3 LID | 4 port
struct LinkErrorReport {
  Lid lid{};
  std::uint8_t port = 0;
  [[nodiscard]] TrapDetails details() const noexcept {
    TrapDetails to{};
    store_be<std::uint16_t, 2>(std::span(to), static_cast<std::uint16_t>(lid));
    store_be<std::uint8_t, 4>(std::span(to), port);
    return to;
  }
};

/// Trap 144: 0..1 reserved | 2..3 LID | 4 reserved | 5 reserved:7 other changes:1
///     6..9 capability mask | 10..11 changes | 12..13 capability mask 2
struct LocalChanges {
  static constexpr std::uint16_t kDescription = 1U << 0;  // bits of `changes`
  Lid lid{};
  bool has_other_changes =
      false;  // then `changes` names them; else the capability mask has changed
  std::uint32_t capability_mask = 0;
  std::uint16_t changes = 0;
  std::uint16_t capability_mask_2 = 0;
  [[nodiscard]] TrapDetails details() const noexcept {
    TrapDetails to{};
    store_be<std::uint16_t, 2>(std::span(to), static_cast<std::uint16_t>(lid));
    store_be<std::uint8_t, 5>(std::span(to), has_other_changes ? 1 : 0);
    store_be<std::uint32_t, 6>(std::span(to), capability_mask);
    store_be<std::uint16_t, 10>(std::span(to), changes);
    store_be<std::uint16_t, 12>(std::span(to), capability_mask_2);
    return to;
  }
};

/// Trap 256: 0..1 reserved | 2..3 LID | 4..5 directed route source LID | 6 method | 7 reserved
///     8..9 attribute | 10..13 modifier | 14..21 M_Key | 22 reserved
///     23 directed:1 truncated:1 hops:6 | 24..53 return path
struct BadMKey {
  static constexpr std::size_t kHopsMax = 30;  // of the path that fit
  Lid lid{};                                   // the source of the packet
  Lid dr_source{};
  MadMethod method{};
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;
  MKey mkey{};
  bool is_directed = false;
  std::uint8_t hop_count = 0;
  SmpPath return_path{};
  [[nodiscard]] TrapDetails details() const noexcept {
    TrapDetails to{};
    store_be<std::uint16_t, 2>(std::span(to), static_cast<std::uint16_t>(lid));
    store_be<std::uint8_t, 6>(std::span(to), static_cast<std::uint8_t>(method));
    store_be<std::uint16_t, 8>(std::span(to), attribute_id);
    store_be<std::uint32_t, 10>(std::span(to), attribute_modifier);
    store_be<std::uint64_t, 14>(std::span(to), static_cast<std::uint64_t>(mkey));
    if (!is_directed) return to;
    store_be<std::uint16_t, 4>(std::span(to), static_cast<std::uint16_t>(dr_source));
    const std::size_t hops = std::min<std::size_t>(hop_count, kHopsMax);
    store_be<std::uint8_t, 23>(
        std::span(to), static_cast<std::uint8_t>(0x80U | (hop_count > kHopsMax ? 0x40U : 0U) |
                                                 static_cast<unsigned>(hops)));
    std::ranges::copy(std::span(return_path).subspan(1, hops), to.begin() + 24);
    return to;
  }
};

/// Traps 257 and 258: 0..1 reserved | 2..3 source LID | 4..5 destination LID | 6..9 key
///     10 SL:4 reserved:4 | 11..13 source QP | 14 reserved | 15..17 destination QP
///     18..33 source GID | 34..49 destination GID
struct BadKey {
  Lid source{};
  Lid destination{};
  std::uint32_t key = 0;
  ServiceLevel level{};
  QpNumber source_qp{};
  QpNumber dest_qp{};
  Gid source_gid{};
  Gid destination_gid{};
  [[nodiscard]] TrapDetails details() const noexcept {
    TrapDetails to{};
    store_be<std::uint16_t, 2>(std::span(to), static_cast<std::uint16_t>(source));
    store_be<std::uint16_t, 4>(std::span(to), static_cast<std::uint16_t>(destination));
    store_be<std::uint32_t, 6>(std::span(to), key);
    store_be<std::uint32_t, 10>(std::span(to),
                                (static_cast<std::uint32_t>(level) << 28) |
                                    (static_cast<std::uint32_t>(source_qp) & kQpNumberMask));
    store_be<std::uint32_t, 14>(std::span(to), static_cast<std::uint32_t>(dest_qp) & kQpNumberMask);
    std::ranges::copy(std::as_bytes(std::span(source_gid.octets)), to.begin() + 18);
    std::ranges::copy(std::as_bytes(std::span(destination_gid.octets)), to.begin() + 34);
    return to;
  }
};

/// Trap 259: 0..1 which fields are valid | 2..3 source LID | 4..5 destination LID | 6..7 P_Key
///     8 SL:4 reserved:4 | 9..11 source QP | 12 reserved | 13..15 destination QP
///     16..31 source GID | 32..47 destination GID | 48..49 LID of the switch | 50 port
struct BadPKeyAtSwitchPort {
  static constexpr std::uint16_t kAllButGids = 0xe700;  // LIDs, P_Key, SL, QPs, switch, port
  Lid source{};
  Lid destination{};
  PKey pkey{};
  ServiceLevel level{};
  QpNumber source_qp{};
  QpNumber dest_qp{};
  Lid switch_lid{};
  std::uint8_t port = 0;
  [[nodiscard]] TrapDetails details() const noexcept {
    TrapDetails to{};
    store_be<std::uint16_t, 0>(std::span(to), kAllButGids);
    store_be<std::uint16_t, 2>(std::span(to), static_cast<std::uint16_t>(source));
    store_be<std::uint16_t, 4>(std::span(to), static_cast<std::uint16_t>(destination));
    store_be<std::uint16_t, 6>(std::span(to), static_cast<std::uint16_t>(pkey));
    store_be<std::uint32_t, 8>(std::span(to),
                               (static_cast<std::uint32_t>(level) << 28) |
                                   (static_cast<std::uint32_t>(source_qp) & kQpNumberMask));
    store_be<std::uint32_t, 12>(std::span(to), static_cast<std::uint32_t>(dest_qp) & kQpNumberMask);
    store_be<std::uint16_t, 48>(std::span(to), static_cast<std::uint16_t>(switch_lid));
    store_be<std::uint8_t, 50>(std::span(to), port);
    return to;
  }
};

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The attribute that a subnet management packet reads or writes (IBA Vol 1, 14.2.5).
enum class SmpAttribute : std::uint16_t {
  kNotice = 0x0002,
  kNodeDescription = 0x0010,
  kNodeInfo = 0x0011,
  kSwitchInfo = 0x0012,
  kGuidInfo = 0x0014,
  kPortInfo = 0x0015,
  kPKeyTable = 0x0016,
  kSlToVlTable = 0x0017,
  kVlArbitrationTable = 0x0018,
  kLinearForwardingTable = 0x0019,
  kMulticastForwardingTable = 0x001b,
  kSmInfo = 0x0020,
  kLedInfo = 0x0031,
};

/// The result of the request (13.4.7). On a directed route the field has 15 bits.
enum class SmpStatus : std::uint16_t {
  kOk = 0x0000,
  kBadVersion = 0x0004,
  kUnsupportedMethod = 0x0008,
  kUnsupportedMethodOrAttribute = 0x000c,
  kInvalidField = 0x001c,
};

/// The key that a manager must present to a port (14.2.4); with zero the port requires none.
enum class MKey : std::uint64_t {};

/// How a subnet management packet is routed.
enum class SmpRoute : std::uint8_t {
  kLid,       // by LID, like any packet
  kDirected,  // port by port along a path in the packet, when there are no LIDs yet (14.2.2)
};

/// Numbers of ports, one octet each: to leave through, or that the packet was received at. Hop 1 is
/// at index 1; index 0 is not used.
using SmpPath = std::array<std::byte, 64>;

/// A subnet management packet to be sent (14.2.1). `dr` means directed route: on the LID route
/// those octets are reserved, and emit() writes zeroes whatever the members hold.
///
///     0..23 header (directed: 4..5 D:1 status:15 | 6 hop pointer | 7 hop count) | 24..31 M_Key
///     32..33 dr source LID | 34..35 dr destination LID | 36..63 reserved | 64..127 data
///     128..191 dr initial path | 192..255 dr return path
struct Smp {
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::uint8_t kClassVersion = 1;
  static constexpr std::uint8_t kHopCountMax = 63;  // the last index of a path
  static constexpr std::size_t kDataSize = 64;
  static constexpr std::uint16_t kReturningBit = 0x8000;  // in the status of a directed route
  SmpRoute route = SmpRoute::kDirected;
  MadMethod method = MadMethod::kGet;
  SmpStatus status = SmpStatus::kOk;
  bool returning = false;        // the D bit: on its way back to the requester
  std::uint8_t hop_pointer = 0;  // which hop comes next
  std::uint8_t hop_count = 0;    // how many there are; more than kHopCountMax is dropped
  TransactionId transaction{};
  SmpAttribute attribute{};
  std::uint32_t attribute_modifier = 0;
  MKey mkey{};
  Lid dr_source = Lid::kPermissive;
  Lid dr_destination = Lid::kPermissive;
  std::array<std::byte, kDataSize> data{};
  SmpPath initial_path{};
  SmpPath return_path{};
  friend bool operator==(const Smp&, const Smp&) noexcept = default;

  /// Writes every octet, reserved ones as zero.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    std::ranges::fill(to, std::byte{0});
    header().emit(to.first<MadHeader::kSize>());
    store_be<std::uint64_t, 24>(to, static_cast<std::uint64_t>(mkey));
    std::ranges::copy(data, to.subspan<64, kDataSize>().begin());
    if (route == SmpRoute::kLid) return;
    store_be<std::uint16_t, 32>(to, static_cast<std::uint16_t>(dr_source));
    store_be<std::uint16_t, 34>(to, static_cast<std::uint16_t>(dr_destination));
    std::ranges::copy(initial_path, to.subspan<128, 64>().begin());
    std::ranges::copy(return_path, to.subspan<192, 64>().begin());
  }

 private:
  [[nodiscard]] MadHeader header() const noexcept {
    MadHeader header{.mgmt_class = MgmtClass::kSubnetLidRouted,
                     .class_version = kClassVersion,
                     .method = method,
                     .status = static_cast<std::uint16_t>(status),
                     .transaction = transaction,
                     .attribute_id = static_cast<std::uint16_t>(attribute),
                     .attribute_modifier = attribute_modifier};
    if (route == SmpRoute::kLid) return header;
    header.mgmt_class = MgmtClass::kSubnetDirectedRoute;
    header.status = static_cast<std::uint16_t>((header.status & ~unsigned{kReturningBit}) |
                                               (returning ? kReturningBit : 0U));
    header.class_specific = static_cast<std::uint16_t>((hop_pointer << 8) | hop_count);
    return header;
  }
};

/// A subnet management packet that arrived: parse() has checked the class and its version. No
/// accessor checks its value; a hop count or pointer may lie outside the paths. Borrows the octets.
class SmpView {
 public:
  static Expected<SmpView, WireError> parse(const MadView& mad) noexcept {
    if (mad.mgmt_class() != MgmtClass::kSubnetLidRouted &&
        mad.mgmt_class() != MgmtClass::kSubnetDirectedRoute) {
      return WireError::kBadClass;
    }
    if (mad.class_version() != Smp::kClassVersion) return WireError::kBadVersion;
    return SmpView(mad);
  }

  [[nodiscard]] const MadView& mad() const noexcept { return mad_; }
  [[nodiscard]] bool is_directed() const noexcept {
    return mad_.mgmt_class() == MgmtClass::kSubnetDirectedRoute;
  }
  [[nodiscard]] MadMethod method() const noexcept { return mad_.method(); }
  [[nodiscard]] SmpStatus status() const noexcept {
    return SmpStatus{is_directed()
                         ? static_cast<std::uint16_t>(mad_.status() & ~unsigned{Smp::kReturningBit})
                         : mad_.status()};
  }
  [[nodiscard]] TransactionId transaction() const noexcept { return mad_.transaction(); }
  [[nodiscard]] SmpAttribute attribute() const noexcept {
    return SmpAttribute{mad_.attribute_id()};
  }
  [[nodiscard]] std::uint32_t attribute_modifier() const noexcept {
    return mad_.attribute_modifier();
  }
  [[nodiscard]] MKey mkey() const noexcept { return MKey{load_be<std::uint64_t, 24>(octets())}; }
  [[nodiscard]] std::span<const std::byte, Smp::kDataSize> data() const noexcept {
    return octets().subspan<64, Smp::kDataSize>();
  }

  // The following are defined on a directed route only.
  [[nodiscard]] bool returning() const noexcept {
    return (mad_.status() & Smp::kReturningBit) != 0;
  }
  [[nodiscard]] std::uint8_t hop_pointer() const noexcept {
    return load_be<std::uint8_t, 6>(octets());
  }
  [[nodiscard]] std::uint8_t hop_count() const noexcept {
    return load_be<std::uint8_t, 7>(octets());
  }
  [[nodiscard]] Lid dr_source() const noexcept { return Lid{load_be<std::uint16_t, 32>(octets())}; }
  [[nodiscard]] Lid dr_destination() const noexcept {
    return Lid{load_be<std::uint16_t, 34>(octets())};
  }
  [[nodiscard]] std::span<const std::byte, 64> initial_path() const noexcept {
    return octets().subspan<128, 64>();
  }
  [[nodiscard]] std::span<const std::byte, 64> return_path() const noexcept {
    return octets().subspan<192, 64>();
  }

  /// The packet as a value, with the reserved octets of its route zero.
  [[nodiscard]] Smp value() const noexcept {
    Smp smp{.route = is_directed() ? SmpRoute::kDirected : SmpRoute::kLid,
            .method = method(),
            .status = status(),
            .transaction = transaction(),
            .attribute = attribute(),
            .attribute_modifier = attribute_modifier(),
            .mkey = mkey()};
    std::ranges::copy(data(), smp.data.begin());
    if (!is_directed()) return smp;
    smp.returning = returning();
    smp.hop_pointer = hop_pointer();
    smp.hop_count = hop_count();
    smp.dr_source = dr_source();
    smp.dr_destination = dr_destination();
    std::ranges::copy(initial_path(), smp.initial_path.begin());
    std::ranges::copy(return_path(), smp.return_path.begin());
    return smp;
  }

 private:
  explicit SmpView(const MadView& mad) noexcept : mad_(mad) {}
  [[nodiscard]] std::span<const std::byte, Smp::kSize> octets() const noexcept {
    return mad_.octets();
  }
  MadView mad_;
};

}  // namespace verbatim::wire

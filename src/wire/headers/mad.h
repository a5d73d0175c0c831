// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/expected.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// The class of a management datagram (IBA Vol 1, 13.4.4).
enum class MgmtClass : std::uint8_t {
  kSubnetLidRouted = 0x01,
  kSubnetAdministration = 0x03,
  kPerformance = 0x04,
  kCommunication = 0x07,
  kSubnetDirectedRoute = 0x81,
};

/// The method of a management datagram (13.4.5). Bit 7 marks a response.
enum class MadMethod : std::uint8_t {
  kGet = 0x01,
  kSet = 0x02,
  kSend = 0x03,
  kTrap = 0x05,
  kTrapRepress = 0x07,
  kDelete = 0x15,  // of subnet administration
  kGetResp = 0x81,
  kDeleteResp = 0x95,
};

/// Connects a response with its request; chosen by the requester (13.4.6.4).
enum class TransactionId : std::uint64_t {};

/// The first octets of every management datagram (13.4.3).
///
///     0 base version | 1 class | 2 class version | 3 method | 4..5 status | 6..7 class specific
///     8..15 transaction | 16..17 attribute | 18..19 reserved | 20..23 attribute modifier
struct MadHeader {
  static constexpr std::size_t kSize = 24;
  static constexpr std::uint8_t kBaseVersion = 1;
  MgmtClass mgmt_class{};
  std::uint8_t class_version = 0;
  MadMethod method{};
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;  // directed routes: hop pointer, hop count
  TransactionId transaction{};
  std::uint16_t attribute_id = 0;  // its meaning depends on the class
  std::uint32_t attribute_modifier = 0;
  friend bool operator==(const MadHeader&, const MadHeader&) noexcept = default;

  /// Writes every octet, reserved ones as zero.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint8_t, 0>(to, kBaseVersion);
    store_be<std::uint8_t, 1>(to, static_cast<std::uint8_t>(mgmt_class));
    store_be<std::uint8_t, 2>(to, class_version);
    store_be<std::uint8_t, 3>(to, static_cast<std::uint8_t>(method));
    store_be<std::uint16_t, 4>(to, status);
    store_be<std::uint16_t, 6>(to, class_specific);
    store_be<std::uint64_t, 8>(to, static_cast<std::uint64_t>(transaction));
    store_be<std::uint16_t, 16>(to, attribute_id);
    store_be<std::uint16_t, 18>(to, 0);
    store_be<std::uint32_t, 20>(to, attribute_modifier);
  }
};

/// A management datagram: the header and data whose form depends on the class. It is the payload of
/// one UD packet to queue pair 0 or 1 and always has this length (13.4.2).
struct Mad {
  static constexpr std::size_t kSize = 256;
  static constexpr std::size_t kDataSize = kSize - MadHeader::kSize;
  MadHeader header{};
  std::array<std::byte, kDataSize> data{};
  friend bool operator==(const Mad&, const Mad&) noexcept = default;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    header.emit(to.first<MadHeader::kSize>());
    std::ranges::copy(data, to.subspan<MadHeader::kSize>().begin());
  }
};

/// A management datagram that arrived: parse() has checked its length and base version. No accessor
/// checks its value. Borrows the octets.
class MadView {
 public:
  static Expected<MadView, WireError> parse(std::span<const std::byte> payload) noexcept {
    if (payload.size() < Mad::kSize) return WireError::kTruncated;
    if (payload.size() > Mad::kSize) return WireError::kBadLength;
    const MadView view(payload.first<Mad::kSize>());
    if (load_be<std::uint8_t, 0>(view.octets_) != MadHeader::kBaseVersion) {
      return WireError::kBadVersion;
    }
    return view;
  }

  [[nodiscard]] MgmtClass mgmt_class() const noexcept {
    return MgmtClass{load_be<std::uint8_t, 1>(octets_)};
  }
  [[nodiscard]] std::uint8_t class_version() const noexcept {
    return load_be<std::uint8_t, 2>(octets_);
  }
  [[nodiscard]] MadMethod method() const noexcept {
    return MadMethod{load_be<std::uint8_t, 3>(octets_)};
  }
  [[nodiscard]] std::uint16_t status() const noexcept { return load_be<std::uint16_t, 4>(octets_); }
  [[nodiscard]] std::uint16_t class_specific() const noexcept {
    return load_be<std::uint16_t, 6>(octets_);
  }
  [[nodiscard]] TransactionId transaction() const noexcept {
    return TransactionId{load_be<std::uint64_t, 8>(octets_)};
  }
  [[nodiscard]] std::uint16_t attribute_id() const noexcept {
    return load_be<std::uint16_t, 16>(octets_);
  }
  [[nodiscard]] std::uint32_t attribute_modifier() const noexcept {
    return load_be<std::uint32_t, 20>(octets_);
  }
  [[nodiscard]] std::span<const std::byte, Mad::kSize> octets() const noexcept { return octets_; }
  /// The octets after the header.
  [[nodiscard]] std::span<const std::byte, Mad::kDataSize> data() const noexcept {
    return octets_.subspan<MadHeader::kSize>();
  }

  [[nodiscard]] MadHeader header() const noexcept {
    return {.mgmt_class = mgmt_class(),
            .class_version = class_version(),
            .method = method(),
            .status = status(),
            .class_specific = class_specific(),
            .transaction = transaction(),
            .attribute_id = attribute_id(),
            .attribute_modifier = attribute_modifier()};
  }
  /// The datagram as a value, with the reserved octets of the header zero.
  [[nodiscard]] Mad value() const noexcept {
    Mad mad{.header = header()};
    std::ranges::copy(data(), mad.data.begin());
    return mad;
  }

 private:
  explicit MadView(std::span<const std::byte, Mad::kSize> octets) noexcept : octets_(octets) {}
  std::span<const std::byte, Mad::kSize> octets_;  // valid as long as the caller's payload is
};

}  // namespace verbatim::wire

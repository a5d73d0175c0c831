// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim::wire {

/// The transport that an opcode belongs to: its upper three bits (IBA Vol 1, 9.2.1).
enum class Transport : std::uint8_t {
  kRc = 0x00,
  kUc = 0x20,
  kRd = 0x40,
  kUd = 0x60,
  kCnp = 0x80,
  kXrc = 0xa0,
};

/// The operation of a packet: the lower five bits of its opcode (9.2.1, annexes A17 and A19).
enum class Operation : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
  kFlush = 0x1c,
  kAtomicWrite = 0x1d,
};

/// The first octet of a BTH.
enum class Opcode : std::uint8_t { kCnp = 0x81 };

[[nodiscard]] constexpr Opcode opcode_of(Transport transport, Operation operation) noexcept {
  return Opcode(static_cast<std::uint8_t>(static_cast<std::uint8_t>(transport) |
                                          static_cast<std::uint8_t>(operation)));
}
[[nodiscard]] constexpr Transport transport_of(Opcode opcode) noexcept {
  return Transport(static_cast<std::uint8_t>(static_cast<std::uint8_t>(opcode) & 0xe0));
}
[[nodiscard]] constexpr Operation operation_of(Opcode opcode) noexcept {
  return Operation(static_cast<std::uint8_t>(static_cast<std::uint8_t>(opcode) & 0x1f));
}

/// How many payload octets a packet may have. The queue pair checks the MTU; a parser only
/// distinguishes "none", "eight" and "some".
enum class PayloadRule : std::uint8_t {
  kNone,        // headers only
  kExactlyMtu,  // First and Middle
  kOneToMtu,    // Last
  kUpToMtu,     // Only
  kEight,       // ATOMIC WRITE
};

/// One row of the opcode table: which headers follow the BTH, in which order, and which part of a
/// message the packet is.
struct OpcodeInfo {
  enum Header : std::uint16_t {
    kDeth = 1U << 0,
    kXrcEth = 1U << 1,
    kFeth = 1U << 2,
    kReth = 1U << 3,
    kAtomicEth = 1U << 4,
    kAeth = 1U << 5,
    kAtomicAckEth = 1U << 6,
    kImmDt = 1U << 7,
    kIeth = 1U << 8,
    kCnpReserved = 1U << 9,
  };
  const char* name = nullptr;      // null: the opcode is not defined
  std::uint16_t headers = 0;       // Header bits
  std::uint8_t header_octets = 0;  // of everything between BTH and payload
  PayloadRule payload = PayloadRule::kNone;
  bool is_response = false;  // sent by the responder to the requester
  bool starts_message = false;
  bool ends_message = false;
  std::array<std::uint8_t, 10> offsets{};  // of each header from the BTH's first octet, by bit

  [[nodiscard]] constexpr bool known() const noexcept { return name != nullptr; }
  [[nodiscard]] constexpr bool has(Header header) const noexcept { return (headers & header) != 0; }
  /// The offset of `header`; only for a header that this opcode has.
  [[nodiscard]] constexpr std::size_t offset_of(Header header) const noexcept {
    return offsets[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint16_t>(header)))];
  }
};

namespace detail {
/// All 256 opcodes; the name of an undefined one is null.
extern const std::array<OpcodeInfo, 256> kOpcodeTable;
}  // namespace detail

[[nodiscard]] inline const OpcodeInfo& describe(Opcode opcode) noexcept {
  return detail::kOpcodeTable[static_cast<std::uint8_t>(opcode)];
}

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "memory/scatter_gather.h"
#include "memory/window.h"
#include "transport/path.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/ids.h"

/// Work requests as a program posts them, and their completions.
namespace verbatim::transport {

/// The values are those of the verbs.
enum class SendOpcode : std::uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendInvalidate = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

/// The values are those of the verbs.
enum class SendFlags : std::uint8_t {
  kNone = 0,
  kFence = 1U << 0,
  kSignaled = 1U << 1,
  kSolicited = 1U << 2,
  kInline = 1U << 3,
};
[[nodiscard]] constexpr SendFlags operator|(SendFlags a, SendFlags b) noexcept {
  return SendFlags(
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b)));
}
[[nodiscard]] constexpr bool has(SendFlags flags, SendFlags flag) noexcept {
  return (static_cast<std::uint8_t>(flags) & static_cast<std::uint8_t>(flag)) != 0;
}

/// The longest message of any operation (IBA Vol 1, 9.7.1).
inline constexpr std::uint64_t kMaxMessageOctets = std::uint64_t{1} << 31;

/// One send-side work request. Only the fields that its opcode uses are read. Borrowed for the call
/// that posts it: everything is copied.
struct SendRequest {
  std::uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  SendFlags flags = SendFlags::kNone;
  std::span<const memory::Sge> list{};  // with kInline the data is read at once, keys are ignored

  std::uint64_t remote_address = 0;  // WRITE, READ, atomics, FLUSH
  wire::MemoryKey rkey{};
  wire::Immediate immediate{};       // *Imm
  wire::MemoryKey invalidate_key{};  // kSendInvalidate, kLocalInvalidate
  std::uint64_t compare_or_add = 0;  // atomics: the value to compare with, or the addend
  std::uint64_t swap = 0;            // kCompareSwap
  std::uint32_t flush_octets = 0;    // kFlush: the range
  wire::Feth flush{};                // kFlush: selectivity and placement
  memory::BindRequest bind{};        // kBindWindow
  bool bind_type1 = false;           // kBindWindow: from the bind verb, not from a work request
  wire::SrqNumber remote_srq{};      // XRC

  const Path* path = nullptr;    // UD: the destination
  bool is_foreign_path = false;  // UD: the address handle is of another protection domain
  wire::QpNumber remote_qp{};    // UD
  wire::QKey remote_qkey{};      // UD; with bit 31 set the queue pair's own key is used
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::span<const memory::Sge> list{};
};

/// The values are those of the verbs (IBA Vol 1, 11.6.2).
enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalProtection = 4,
  kFlushed = 5,
  kWindowBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kFatal = 19,
  kGeneral = 21,
};

/// The values are those of the verbs.
enum class WcOpcode : std::uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kReceive = 128,
  kReceiveWithImm = 129,
};

/// The values are those of the verbs.
enum class WcFlags : std::uint8_t {
  kNone = 0,
  kGrh = 1U << 0,  // UD: the payload begins 40 octets behind the start of the receive
  kWithImm = 1U << 1,
  kWithInvalidate = 1U << 3,
  kIpv4 = 1U << 7,  // UD: the octets before the payload are an IPv4 header. Not a flag of verbs
};
[[nodiscard]] constexpr WcFlags operator|(WcFlags a, WcFlags b) noexcept {
  return WcFlags(
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b)));
}

[[nodiscard]] constexpr bool has(WcFlags flags, WcFlags flag) noexcept {
  return (static_cast<std::uint8_t>(flags) & static_cast<std::uint8_t>(flag)) != 0;
}

/// Where a native datagram came from, for its completion.
struct DatagramOrigin {
  wire::Lid source = wire::Lid::kReserved;  // none: the datagram was no native one
  wire::ServiceLevel level{};
  std::uint8_t path_bits = 0;  // the low seven bits of the LID that it came to; 0 for a group

  [[nodiscard]] static constexpr DatagramOrigin of(const wire::LocalRoute& route) noexcept {
    const bool is_to_group = route.destination >= wire::Lid::kFirstMulticast;
    const unsigned low_bits = static_cast<unsigned>(route.destination) & 0x7f;
    return {.source = route.source,
            .level = route.level,
            .path_bits = static_cast<std::uint8_t>(is_to_group ? 0 : low_bits)};
  }
  [[nodiscard]] constexpr std::uint32_t pack() const noexcept {
    return static_cast<std::uint32_t>(path_bits) << 24 | static_cast<std::uint32_t>(level) << 16 |
           static_cast<std::uint32_t>(source);
  }
  [[nodiscard]] static constexpr DatagramOrigin unpack(std::uint32_t packed) noexcept {
    return {.source = wire::Lid{static_cast<std::uint16_t>(packed)},
            .level = wire::ServiceLevel{static_cast<std::uint8_t>(packed >> 16 & 0xf)},
            .path_bits = static_cast<std::uint8_t>(packed >> 24)};
  }
};

/// One work completion. Plain data: it travels through lanes that a peer process may write.
struct Completion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  WcFlags flags = WcFlags::kNone;
  bool solicited = false;        // triggers a queue that is armed for solicited completions
  std::uint32_t octets = 0;      // received, READ or swapped
  std::uint32_t imm_or_key = 0;  // immediate data, or the key that was invalidated
  wire::QpNumber qp{};           // the local queue pair
  wire::QpNumber source_qp{};    // UD receives
  std::uint32_t detail = 0;      // of an error: the Reason; of a datagram: its DatagramOrigin
  std::uint64_t timestamp = 0;   // nanoseconds of the owner's clock, when it was produced

  /// The Reason of an error; 0 of a success.
  [[nodiscard]] std::uint32_t vendor_error() const noexcept {
    return status == WcStatus::kSuccess ? 0 : detail;
  }
  [[nodiscard]] DatagramOrigin origin() const noexcept {
    return status == WcStatus::kSuccess ? DatagramOrigin::unpack(detail) : DatagramOrigin{};
  }

  /// Copies member by member: a completion that was built for this copy alone then goes from
  /// registers to its place. As a whole it would be built in memory and read in larger pieces than
  /// it was written in, which stalls processors.
  [[gnu::always_inline]] void assign(const Completion& other) noexcept {
    wr_id = other.wr_id;
    status = other.status;
    opcode = other.opcode;
    flags = other.flags;
    solicited = other.solicited;
    octets = other.octets;
    imm_or_key = other.imm_or_key;
    qp = other.qp;
    source_qp = other.source_qp;
    detail = other.detail;
    timestamp = other.timestamp;
  }
};
static_assert(sizeof(Completion) == 40);

/// Events of a queue pair that belong to no work request (IBA Vol 1, 11.6.3).
enum class QpEvent : std::uint8_t {
  kFatal,
  kRequestError,
  kAccessError,
  kCommunicationEstablished,
  kSendQueueDrained,
  kLastWqeReached,
};

}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/queues/send_queue.h"
#include "transport/queues/work.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/ids.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// The operation that a request asks for.
enum class RequestKind : std::uint8_t {
  kNone,  // not a request: a response, or a local operation
  kSend,
  kWrite,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kFlush,
  kAtomicWrite,
};

/// One request as the responder's rules see it (request_rules.h): the same whether it came in
/// packets or is executed by a requester of this host. Plain data, made by request_of().
struct Request {
  /// What a SEND or WRITE has beside its octets.
  enum class Extra : std::uint8_t { kNone, kImmediate, kInvalidate };

  RequestKind kind = RequestKind::kNone;
  Extra extra = Extra::kNone;
  bool solicited = false;
  wire::Feth flush{};            // FLUSH: selectivity and placement
  std::uint32_t imm_or_key = 0;  // the immediate data, or the key to invalidate
  wire::MemoryKey key{};         // of the memory that it names
  std::uint64_t address = 0;     // of that memory
  std::uint64_t octets = 0;      // of that memory; 0 for a SEND, which names none
  std::uint64_t compare = 0;     // COMPARE SWAP
  std::uint64_t operand = 0;     // the value to swap in, to add or to store
};

/// Whether the request is a COMPARE SWAP or a FETCH ADD, whose answer carries the old value.
[[nodiscard]] constexpr bool is_atomic(RequestKind kind) noexcept {
  return kind == RequestKind::kCompareSwap || kind == RequestKind::kFetchAdd;
}
/// Whether the request is executed atomically on eight octets.
[[nodiscard]] constexpr bool is_of_eight(RequestKind kind) noexcept {
  return is_atomic(kind) || kind == RequestKind::kAtomicWrite;
}
/// Whether a message of this kind needs a receive when it ends (IBA Vol 1, 9.7.4.1).
[[nodiscard]] constexpr bool takes_receive(const Request& request) noexcept {
  return request.kind == RequestKind::kSend || request.extra == Request::Extra::kImmediate;
}

namespace detail {

[[nodiscard]] constexpr RequestKind classify(wire::Operation operation) noexcept {
  using wire::Operation;
  switch (operation) {
    case Operation::kSendFirst:
    case Operation::kSendMiddle:
    case Operation::kSendLast:
    case Operation::kSendLastImm:
    case Operation::kSendOnly:
    case Operation::kSendOnlyImm:
    case Operation::kSendLastInvalidate:
    case Operation::kSendOnlyInvalidate:
      return RequestKind::kSend;
    case Operation::kWriteFirst:
    case Operation::kWriteMiddle:
    case Operation::kWriteLast:
    case Operation::kWriteLastImm:
    case Operation::kWriteOnly:
    case Operation::kWriteOnlyImm:
      return RequestKind::kWrite;
    case Operation::kReadRequest:
      return RequestKind::kRead;
    case Operation::kCompareSwap:
      return RequestKind::kCompareSwap;
    case Operation::kFetchAdd:
      return RequestKind::kFetchAdd;
    case Operation::kFlush:
      return RequestKind::kFlush;
    case Operation::kAtomicWrite:
      return RequestKind::kAtomicWrite;
    case Operation::kReadResponseFirst:
    case Operation::kReadResponseMiddle:
    case Operation::kReadResponseLast:
    case Operation::kReadResponseOnly:
    case Operation::kAcknowledge:
    case Operation::kAtomicAcknowledge:
      return RequestKind::kNone;
  }
  return RequestKind::kNone;
}

[[nodiscard]] constexpr RequestKind classify(SendOpcode opcode) noexcept {
  switch (opcode) {
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
      return RequestKind::kWrite;
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
    case SendOpcode::kSendInvalidate:
      return RequestKind::kSend;
    case SendOpcode::kRead:
      return RequestKind::kRead;
    case SendOpcode::kCompareSwap:
      return RequestKind::kCompareSwap;
    case SendOpcode::kFetchAdd:
      return RequestKind::kFetchAdd;
    case SendOpcode::kFlush:
      return RequestKind::kFlush;
    case SendOpcode::kAtomicWrite:
      return RequestKind::kAtomicWrite;
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      return RequestKind::kNone;
  }
  return RequestKind::kNone;
}

/// One load instead of a switch: the kind of every request is looked up.
template <typename Code, std::size_t kCount>
inline constexpr auto kKinds = [] {
  std::array<RequestKind, kCount> kinds{};
  for (std::size_t i = 0; i < kCount; ++i) kinds[i] = classify(Code(i));
  return kinds;
}();

}  // namespace detail

[[nodiscard]] constexpr RequestKind kind_of(wire::Operation operation) noexcept {
  return detail::kKinds<wire::Operation, 32>[static_cast<std::size_t>(operation) % 32];
}
[[nodiscard]] constexpr RequestKind kind_of(SendOpcode opcode) noexcept {
  return detail::kKinds<SendOpcode, 16>[static_cast<std::size_t>(opcode) % 16];
}

/// The request of a packet. A Middle or Last packet names no memory.
[[nodiscard]] inline Request request_of(const wire::PacketView& packet) noexcept {
  using wire::OpcodeInfo;
  const OpcodeInfo& info = packet.info();
  Request request{.kind = kind_of(packet.operation()), .solicited = packet.bth().solicited()};
  if (info.has(OpcodeInfo::kReth)) {
    const wire::Reth reth = packet.reth();
    request.key = reth.rkey;
    request.address = reth.address;
    request.octets = reth.dma_octets;
  }
  if (info.has(OpcodeInfo::kAtomicEth)) {
    const wire::AtomicEth eth = packet.atomic_eth();
    request.key = eth.rkey;
    request.address = eth.address;
    request.octets = sizeof(std::uint64_t);
    request.compare = eth.compare;
    request.operand = eth.swap_or_add;
  }
  if (info.has(OpcodeInfo::kImmDt)) {
    request.extra = Request::Extra::kImmediate;
    request.imm_or_key = static_cast<std::uint32_t>(packet.imm_dt().immediate);
  }
  if (info.has(OpcodeInfo::kIeth)) {
    request.extra = Request::Extra::kInvalidate;
    request.imm_or_key = static_cast<std::uint32_t>(packet.ieth().rkey);
  }
  if (info.has(OpcodeInfo::kFeth)) request.flush = packet.feth();
  const bool stores = request.kind == RequestKind::kAtomicWrite &&
                      packet.payload().size() == sizeof request.operand;
  if (stores) std::memcpy(&request.operand, packet.payload().data(), sizeof request.operand);
  return request;
}

/// The request of an entry of a send queue, which is of that kind. If the kind is a constant, the
/// compiler drops all rules for other kinds. The value of an ATOMIC WRITE is not in the entry: the
/// caller sets `operand`.
[[nodiscard, gnu::always_inline]] inline Request request_of(const SendEntry& entry,
                                                            RequestKind kind) noexcept {
  Request request{.kind = kind,
                  .solicited = has(entry.flags, SendFlags::kSolicited),
                  .flush = entry.flush,
                  .key = entry.rkey,
                  .address = entry.remote_address,
                  .octets = entry.octets,
                  .compare = entry.compare_or_add,
                  .operand = entry.compare_or_add};
  if (kind == RequestKind::kSend) request.octets = 0;
  if (kind == RequestKind::kFlush) request.octets = entry.flush_octets;
  if (is_atomic(kind)) request.octets = sizeof(std::uint64_t);
  if (kind == RequestKind::kCompareSwap) request.operand = entry.swap;
  if (kind != RequestKind::kSend && kind != RequestKind::kWrite) return request;
  if (entry.opcode == SendOpcode::kSendImm || entry.opcode == SendOpcode::kWriteImm) {
    request.extra = Request::Extra::kImmediate;
    request.imm_or_key = static_cast<std::uint32_t>(entry.immediate);
  } else if (entry.opcode == SendOpcode::kSendInvalidate) {
    request.extra = Request::Extra::kInvalidate;
    request.imm_or_key = static_cast<std::uint32_t>(entry.invalidate_key);
  }
  return request;
}
[[nodiscard]] inline Request request_of(const SendEntry& entry) noexcept {
  return request_of(entry, kind_of(entry.opcode));
}

}  // namespace verbatim::transport

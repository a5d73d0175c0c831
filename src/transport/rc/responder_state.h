// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "memory/access.h"
#include "memory/domain.h"
#include "memory/scatter_gather.h"
#include "transport/queues/work.h"
#include "transport/reason.h"
#include "wire/headers/aeth.h"
#include "wire/headers/ids.h"
#include "wire/headers/psn.h"

namespace verbatim::transport {

/// True unless zero. Not a bool, which must be one or zero: peers can write here.
using Flag = std::uint8_t;

/// The most READs and atomics that a requester has in flight and a responder remembers
/// (max_rd_atomic, max_dest_rd_atomic): as many as Linux rdma_rxe has. A power of two, because
/// their numbers wrap.
inline constexpr std::uint32_t kMaxReadAtomic = 128;

/// A READ, atomic, FLUSH or ATOMIC WRITE that was executed, kept so that a repeated request is
/// answered again and not executed again (IBA Vol 1, 9.7.5.1.2).
struct ReplayEntry {
  enum class Kind : std::uint8_t { kRead, kAtomic, kFlush, kAtomicWrite };
  Kind kind = Kind::kRead;
  Flag pending = 0;            // has packets to send
  Flag answered = 0;           // all its responses were sent at least once
  wire::Psn first_psn{};       // of the request, and of its first response
  std::uint32_t packets = 1;   // responses
  std::uint32_t start = 0;     // index of the response that this transmission began with
  std::uint32_t next = 0;      // index of the response to send next
  std::uint32_t msn = 0;       // in its responses
  std::uint32_t octets = 0;    // READ: of the whole range
  wire::MemoryKey rkey{};      // READ
  std::uint64_t address = 0;   // READ
  std::uint64_t original = 0;  // atomics: the value before

  [[nodiscard]] bool contains(wire::Psn psn) const noexcept {
    return !psn.is_before(first_psn) && psn.is_before(first_psn + packets);
  }
};

/// The kind of the message that is arriving.
enum class Inbound : std::uint8_t { kNone, kSend, kWrite };

/// The whole state of a queue pair's responder: its settings, the message that is arriving, and the
/// answers that it owes. Plain data of fixed size in storage that the caller provides, so that the
/// same machine runs in a private array, in a simulator and in a segment that two processes map.
struct alignas(64) ResponderState {
  // Settings. Written by the owner when the queue pair is modified.
  wire::QpNumber number{};
  wire::QpNumber dest_qp{};
  memory::DomainId domain = memory::DomainId::kNone;
  memory::Access access = memory::Access::kNone;  // operations that the peer may use
  std::uint32_t path_mtu = 1024;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t replay_limit = 0;  // max_dest_rd_atomic
  std::uint8_t moves = 0;         // part of the claimant of shared receives; see leave_behind()
  Flag failed = 0;                // the half has ended; the reason is at the end of this struct

  // The message that is arriving.
  wire::Psn expected_psn{};
  std::uint32_t msn = 0;  // messages completed, 24 bits
  Inbound inbound = Inbound::kNone;
  Flag receive_taken = 0;              // a receive belongs to this message (UC: or to the next)
  std::uint32_t shared_cell = 0;       // its cell in the shared receive queue, if there is one
  std::uint64_t shared_wr_id = 0;      // its wr_id: the cell is released before the completion
  std::uint32_t published_before = 0;  // completions ever published when the receive was taken
  memory::SgeCursor scatter{};         // the place of the next payload octet
  wire::SrqNumber shared_number{};     // XRC: of the shared receive queue
  wire::QKey qkey{};                   // UD
  std::uint32_t arrived = 0;           // payload octets of the message so far
  std::uint32_t write_octets = 0;      // WRITE: its DMA length
  std::uint64_t write_address = 0;
  wire::MemoryKey write_key{};

  // Answers that are owed to the peer.
  Flag nak_sent = 0;     // a gap or an empty receive queue was reported, which is done once
  Flag answer_owed = 0;  // an acknowledgement or a refusal
  wire::Syndrome answer{};
  wire::Psn answer_psn{};
  std::uint32_t answer_msn = 0;
  std::uint32_t replay_oldest = 0;  // number of the oldest entry in the replay
  std::uint32_t replay_count = 0;
  std::uint32_t replay_pending = 0;  // entries with packets to send
  std::uint32_t replay_from = 0;     // entries before this number have none

  // The end of the half: the owner sees `failed`, changes the state and raises the event.
  Flag failing = 0;    // `failed` follows at once; the program may see the error completion already
  Flag event_due = 0;  // no completion reports the end, so an event does
  QpEvent event{};
  Reason reason = Reason::kNone;
};
static_assert(std::is_trivially_copyable_v<ResponderState>);

/// The last store of the thread that executes requests. An owner that sees it sees all earlier
/// stores, and may change the state of the queue pair at once.
inline void mark_failed(ResponderState& state) noexcept {
  std::atomic_ref(state.failed).store(true, std::memory_order_release);  // pairs with has_failed()
}
[[nodiscard]] inline bool has_failed(const ResponderState& state) noexcept {
  // pairs with mark_failed()
  return std::atomic_ref(const_cast<Flag&>(state.failed)).load(std::memory_order_acquire);
}
/// Called before the error completion is published, by which the program can see the end.
inline void mark_failing(ResponderState& state) noexcept {
  std::atomic_ref(state.failing).store(true, std::memory_order_release);  // pairs with is_failing()
}
[[nodiscard]] inline bool is_failing(const ResponderState& state) noexcept {
  // pairs with mark_failing()
  return std::atomic_ref(const_cast<Flag&>(state.failing)).load(std::memory_order_acquire);
}
static_assert(std::is_standard_layout_v<ResponderState>);

}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "memory/access.h"
#include "memory/atomics.h"
#include "memory/key_table.h"
#include "transport/rc/responder_state.h"
#include "transport/rules/request.h"
#include "transport/rules/verdict.h"

/// The rules that every responder applies to a request, on each data path (IBA Vol 1, 9.7.4.1;
/// annex A19 for FLUSH and ATOMIC WRITE). Their order: check_allowed(), check_form(), then
/// check_grant() with the result of ask_key(). They change nothing; the caller executes and
/// answers.
namespace verbatim::transport {

/// The right that the queue pair must have. FLUSH needs none: the rights of the region decide
/// (annex A19).
[[nodiscard]] constexpr memory::Access queue_pair_right(RequestKind kind) noexcept {
  switch (kind) {
    case RequestKind::kWrite:
    case RequestKind::kAtomicWrite:
      return memory::Access::kRemoteWrite;
    case RequestKind::kRead:
      return memory::Access::kRemoteRead;
    case RequestKind::kCompareSwap:
    case RequestKind::kFetchAdd:
      return memory::Access::kRemoteAtomic;
    case RequestKind::kSend:
    case RequestKind::kFlush:
    case RequestKind::kNone:
      break;
  }
  return memory::Access::kNone;
}

/// The right of the key that a FLUSH needs, by its placement (annex A19).
[[nodiscard]] constexpr memory::Access flush_right(const wire::Feth& flush) noexcept {
  memory::Access need = memory::Access::kNone;
  if ((flush.placement & wire::Feth::kGlobalVisibility) != 0) {
    need = need | memory::Access::kFlushGlobal;
  }
  if ((flush.placement & wire::Feth::kPersistence) != 0) {
    need = need | memory::Access::kFlushPersistent;
  }
  return need;
}

/// The right that the key must grant.
[[nodiscard]] constexpr memory::Access key_right(const Request& request) noexcept {
  return request.kind == RequestKind::kFlush ? flush_right(request.flush)
                                             : queue_pair_right(request.kind);
}

/// Whether the responder remembers the request, so that a repeated one is answered again and not
/// executed again (9.7.5.1.2). Such requests count against max_dest_rd_atomic.
[[nodiscard]] constexpr bool is_remembered(RequestKind kind) noexcept {
  return kind != RequestKind::kSend && kind != RequestKind::kWrite;
}

/// Whether a FLUSH has values that annex A19 defines; all others are reserved.
[[nodiscard]] constexpr bool is_defined(const wire::Feth& flush) noexcept {
  constexpr unsigned kPlacements = wire::Feth::kGlobalVisibility | wire::Feth::kPersistence;
  return flush.selectivity <= wire::Feth::kWholeRegion && flush.placement != 0 &&
         (flush.placement & ~kPlacements) == 0;
}

/// Whether the queue pair takes requests of this kind at all.
[[nodiscard]] inline Judgement check_allowed(const ResponderState& state,
                                             RequestKind kind) noexcept {
  if (!allows(state.access, queue_pair_right(kind))) [[unlikely]]
    return {Verdict::kInvalidRequest, Reason::kOperationNotEnabled};
  if (is_remembered(kind) && state.replay_limit == 0) [[unlikely]]
    return {Verdict::kInvalidRequest, Reason::kTooManyReads};
  return {};
}

/// Whether the lengths, the alignment and the values of the request are valid. Not for a Middle or
/// Last packet, which has none of them.
[[nodiscard]] constexpr Judgement check_form(const Request& request) noexcept {
  switch (request.kind) {
    case RequestKind::kWrite:
    case RequestKind::kRead:
      if (request.octets > kMaxMessageOctets) break;
      return {};
    case RequestKind::kCompareSwap:
    case RequestKind::kFetchAdd:
    case RequestKind::kAtomicWrite:
      if (request.octets != 8) break;
      if (request.address % 8 == 0) return {};
      return {Verdict::kInvalidRequest, Reason::kMisaligned};
    case RequestKind::kFlush:
      if (is_defined(request.flush)) return {};
      return {Verdict::kInvalidRequest, Reason::kReservedValue};
    case RequestKind::kSend:
    case RequestKind::kNone:
      return {};
  }
  return {Verdict::kInvalidRequest, Reason::kBadPacketLength};
}

/// The access that the request needs, for `octets` octets from `offset` on.
[[nodiscard]] constexpr memory::KeyTable::Want want_of(const ResponderState& state,
                                                       const Request& request, std::uint64_t offset,
                                                       std::uint64_t octets) noexcept {
  return {.key = request.key,
          .domain = state.domain,
          .qp = state.number,
          .address = request.address + offset,
          .octets = octets,
          .need = key_right(request)};
}

/// The result of a key check.
using KeyAnswer = Expected<memory::Grant, memory::Refusal>;

/// Checks the key for `octets` octets, from `offset` on, of the range that the request names.
[[nodiscard]] inline KeyAnswer ask_key(const memory::KeyTable& keys, const ResponderState& state,
                                       const Request& request, std::uint64_t offset,
                                       std::uint64_t octets) noexcept {
  return keys.check_remote(want_of(state, request, offset, octets));
}

/// Checks the key for the whole range that the request names. A FLUSH of a whole region names a key
/// and no range.
[[nodiscard]] inline KeyAnswer ask_key(const memory::KeyTable& keys, const ResponderState& state,
                                       const Request& request) noexcept {
  const auto want = want_of(state, request, 0, request.octets);
  const bool is_whole =
      request.kind == RequestKind::kFlush && request.flush.selectivity == wire::Feth::kWholeRegion;
  return is_whole ? keys.check_whole(want) : keys.check_remote(want);
}

[[nodiscard]] constexpr Judgement refused_by_key(memory::Refusal refusal) noexcept {
  return {Verdict::kAccessRefused, reason_of(refusal)};
}

/// Whether the request may use what its key grants. The address in a request may differ from the
/// address in memory, so the place of eight octets must be aligned as well.
[[nodiscard]] inline Judgement check_grant(const Request& request,
                                           const KeyAnswer& answer) noexcept {
  if (!answer) [[unlikely]]
    return refused_by_key(answer.error());
  if (is_of_eight(request.kind) && !memory::is_aligned_for_atomics(answer->local())) [[unlikely]]
    return {Verdict::kInvalidRequest, Reason::kMisaligned};
  return {};
}

/// Executes a request of eight octets at the place that its key has granted. Returns the value
/// before; 0 for an ATOMIC WRITE.
inline std::uint64_t execute_eight(const Request& request, std::byte* at) noexcept {
  if (request.kind == RequestKind::kCompareSwap) {
    return memory::compare_swap(at, request.compare, request.operand);
  }
  if (request.kind == RequestKind::kFetchAdd) return memory::fetch_add(at, request.operand);
  memory::store_eight(at, request.operand);
  return 0;
}

/// Executes a FLUSH: earlier WRITEs are in memory already, and become visible before the MSN of the
/// answer (annex A19). A fence would do as well, but the thread sanitizer does not support fences.
inline void execute_flush(ResponderState& state) noexcept {
  (void)std::atomic_ref(state.msn).fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace verbatim::transport

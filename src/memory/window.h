// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/key_table.h"

namespace verbatim::memory {

/// Why a bind or an invalidate was not done (IBA Vol 1, 10.6.7 and 10.6.8). Of several faults the
/// first is named: a bind looks at the window, then at the request, then at the region.
enum class BindRefusal : std::uint8_t {
  kNone,
  kNoSuchWindow,     // the key names no window
  kWrongWindowKey,   // invalidate: the window has another key now; bind: the new key is not its own
  kWrongWindowType,  // a type 1 window in a work request meant for type 2, or the reverse
  kAlreadyBound,     // a type 2 window is bound once, then invalidated
  kOtherDomain,      // window, region and queue pair are not in one domain
  kNoSuchRegion,     // the region's key is not valid
  kZeroBasedRegion,  // windows on zero-based regions are not offered
  kRegionDeniesBind,   // the region was registered without the right to bind
  kRegionDeniesWrite,  // a writable window needs a region that its owner may write
  kOutsideRegion,      // the range leaves the region
  kEmptyRange,         // a type 2 window must have a length
  kBadAccess,          // rights that a window cannot have
  kNotInvalidatable,   // a region, a type 1 window, or a window that is not bound
  kOtherQueuePair,     // a type 2 window of another queue pair
};
inline constexpr std::size_t kBindRefusalCount = 15;
[[nodiscard]] const char* name_of(BindRefusal refusal) noexcept;

/// What `ibv_bind_mw` and a bind work request ask for. No octets on a type 1 window unbind it.
struct BindRequest {
  wire::MemoryKey window_key{};  // names the window; the low octet is not looked at, because a bind
                                 // that failed has not changed the one that the window has
  wire::MemoryKey new_key{};     // the same but for the low octet, which type 2 consumers choose
  wire::MemoryKey region_key{};
  std::uint64_t address = 0;
  std::uint64_t octets = 0;
  Access access = Access::kNone;
};

/// Who asks: the queue pair whose send queue runs the request.
struct Binder {
  DomainId domain = DomainId::kNone;
  wire::QpNumber qp{};
};

/// Binds a type 2 window; the new key works when this returns.
[[nodiscard]] BindRefusal bind_type2(const KeyTable& table, const Binder& binder,
                                     const BindRequest& request) noexcept;

/// Binds, binds anew or unbinds a type 1 window under `request.new_key`, which the provider chose
/// when the request was posted.
[[nodiscard]] BindRefusal bind_type1(const KeyTable& table, const Binder& binder,
                                     const BindRequest& request) noexcept;

/// Takes a bound type 2 window's key out of use: local invalidate, and SEND with invalidate.
[[nodiscard]] BindRefusal invalidate(const KeyTable& table, const Binder& binder,
                                     wire::MemoryKey key) noexcept;

/// Ends what a window grants, if anything; its key stays. The region is then free of it.
void release_range(const KeyTable& table, KeyEntry& window) noexcept;

}  // namespace verbatim::memory

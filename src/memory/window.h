// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/key_table.h"

namespace verbatim::memory {

/// Why a bind or an invalidate was refused (IBA Vol 1, 10.6.7 and 10.6.8). If several rules are
/// broken, the first one is named: a bind checks the window, then the request, then the region.
enum class BindRefusal : std::uint8_t {
  kNone,
  kNoSuchWindow,     // the key names no window
  kWrongWindowKey,   // invalidate: the window has another key now; bind: the new key is not its own
  kWrongWindowType,  // a type 1 window in a work request meant for type 2, or the reverse
  kAlreadyBound,     // a type 2 window that is bound must be invalidated before it is bound again
  kOtherDomain,      // window, region and queue pair are not in one domain
  kNoSuchRegion,     // the region's key is not valid
  kZeroBasedRegion,  // windows on zero-based regions are not offered
  kRegionDeniesBind,   // the region was registered without the right to bind
  kRegionDeniesWrite,  // a writable window needs a region with local write
  kOutsideRegion,      // the range leaves the region
  kEmptyRange,         // a type 2 window must have a length
  kBadAccess,          // rights that a window cannot have
  kNotInvalidatable,   // a region, a type 1 window, or a window that is not bound
  kOtherQueuePair,     // a type 2 window of another queue pair
};
inline constexpr std::size_t kBindRefusalCount = 15;
[[nodiscard]] const char* name_of(BindRefusal refusal) noexcept;

/// The parameters of `ibv_bind_mw` and of a bind work request. A bind of a type 1 window with zero
/// octets unbinds it.
struct BindRequest {
  wire::MemoryKey window_key{};  // names the window; the low octet is not checked, because a bind
                                 // that failed has not changed the low octet of the window's key
  wire::MemoryKey new_key{};     // the same but for the low octet; for type 2 the consumer chooses
  wire::MemoryKey region_key{};
  std::uint64_t address = 0;
  std::uint64_t octets = 0;
  Access access = Access::kNone;
};

/// The queue pair whose send queue executes the request.
struct Binder {
  DomainId domain = DomainId::kNone;
  wire::QpNumber qp{};
};

/// Binds a type 2 window; the new key is valid when this returns.
[[nodiscard]] BindRefusal bind_type2(const KeyTable& table, const Binder& binder,
                                     const BindRequest& request) noexcept;

/// Binds or unbinds a type 1 window. `request.new_key` becomes its key; the provider chose it when
/// the request was posted.
[[nodiscard]] BindRefusal bind_type1(const KeyTable& table, const Binder& binder,
                                     const BindRequest& request) noexcept;

/// Invalidates the key of a bound type 2 window: local invalidate, and SEND with invalidate.
[[nodiscard]] BindRefusal invalidate(const KeyTable& table, const Binder& binder,
                                     wire::MemoryKey key) noexcept;

/// Ends the access that a window grants, if any, and no longer counts it at its region. Its key
/// stays.
void release_range(const KeyTable& table, KeyEntry& window) noexcept;

/// The same for a window whose status was `present`, and with another backing afterwards. False
/// when the status is no longer that: then nothing has changed.
[[nodiscard]] bool end_range(const KeyTable& table, KeyEntry& window, const KeyStatus& present,
                             Backing backing) noexcept;

}  // namespace verbatim::memory

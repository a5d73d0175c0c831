// SPDX-License-Identifier: Apache-2.0
#include "memory/window.h"

#include "base/fence.h"
#include "base/pointer.h"

namespace verbatim::memory {
namespace {

constexpr Access kRemoteRights = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

// A bind is repeated when the region changes meanwhile. More than two tries do not happen in
// practice.
constexpr int kBindTries = 1000;

bool is_window(const KeyEntry& entry) noexcept {
  const KeyKind kind = load_field(entry.status.kind);
  return kind == KeyKind::kWindowType1 || kind == KeyKind::kWindowType2A ||
         kind == KeyKind::kWindowType2B;
}
bool is_type2(const KeyEntry& entry) noexcept {
  const KeyKind kind = load_field(entry.status.kind);
  return kind == KeyKind::kWindowType2A || kind == KeyKind::kWindowType2B;
}
bool same_index(wire::MemoryKey a, wire::MemoryKey b) noexcept {
  return (static_cast<std::uint32_t>(a) >> 8) == (static_cast<std::uint32_t>(b) >> 8);
}

/// The region that a window is to be bound to, and its contents when it was checked.
struct Parent {
  KeyEntry* region = nullptr;
  KeyStatus status{};
};

/// The checks that the two types share: the region, its rights and the range.
BindRefusal check_region(const KeyTable& table, const Binder& binder, const BindRequest& request,
                         Parent* found) noexcept {
  KeyEntry* region = table.find(request.region_key);
  const auto key = static_cast<std::uint32_t>(request.region_key);
  if (region == nullptr) return BindRefusal::kNoSuchRegion;
  const KeyStatus status = load_field(region->status);
  if (status.kind != KeyKind::kRegion || status.live != key) return BindRefusal::kNoSuchRegion;
  if (region->domain != binder.domain) return BindRefusal::kOtherDomain;
  if (allows(region->access, Access::kZeroBased)) return BindRefusal::kZeroBasedRegion;
  if (!allows(region->access, Access::kBindWindow)) return BindRefusal::kRegionDeniesBind;
  const bool changes =
      (request.access & (Access::kRemoteWrite | Access::kRemoteAtomic)) != Access::kNone;
  if (changes && !allows(region->access, Access::kLocalWrite)) {
    return BindRefusal::kRegionDeniesWrite;
  }
  if (request.address < region->base) return BindRefusal::kOutsideRegion;
  const std::uint64_t offset = request.address - region->base;
  if (offset > region->octets || request.octets > region->octets - offset) {
    return BindRefusal::kOutsideRegion;
  }
  *found = {.region = region, .status = status};
  return BindRefusal::kNone;
}

BindRefusal check_window(const KeyTable& table, const Binder& binder, const BindRequest& request,
                         KeyEntry** found) noexcept {
  KeyEntry* window = table.find(request.window_key);
  if (window == nullptr || !is_window(*window)) return BindRefusal::kNoSuchWindow;
  if (!same_index(request.new_key, request.window_key) || request.new_key == wire::MemoryKey{}) {
    return BindRefusal::kWrongWindowKey;
  }
  if (window->domain != binder.domain) return BindRefusal::kOtherDomain;
  *found = window;
  return BindRefusal::kNone;
}

/// Fills the window from the region and makes its new key valid, unless the region has ended since
/// the check.
///
/// The caller does not hold the adapter's lock. Meanwhile, other threads may deregister the region,
/// close it, or make it private. Each of them first stores that in the region, and then looks for
/// windows that are bound to it. This function first counts and fills the window, and then looks at
/// the region again. Both sides have a fence between the two steps, so at least one of them sees
/// the store of the other. The key becomes valid only if the window's status is still the one that
/// was filled in.
BindRefusal grant_range(const KeyTable& table, KeyEntry& window, const Parent& parent,
                        const Binder& binder, const BindRequest& request) noexcept {
  KeyEntry& region = *parent.region;
  const auto key = static_cast<std::uint32_t>(request.new_key);
  const std::uint32_t old_key = load_field(window.key);
  const auto backing_of = [](const KeyStatus& status) {
    return status.backing == Backing::kShared ? Backing::kShared : Backing::kPrivate;
  };
  const std::uint64_t offset = request.address - region.base;
  std::atomic_ref(region.bound).fetch_add(1);
  KeyStatus present = load_field(region.status);
  for (int tries = 0; tries < kBindTries; ++tries) {
    const Backing backing = backing_of(present);
    fill(window, {.status = {.backing = backing, .kind = load_field(window.status.kind)},
                  .key = key,
                  .domain = window.domain,
                  .access = request.access,
                  .qp = static_cast<std::uint32_t>(binder.qp),
                  .base = allows(request.access, Access::kZeroBased) ? 0 : request.address,
                  .octets = request.octets,
                  .local = region.local + offset,
                  .shared_at = load_field(region.shared_at) + offset,
                  .parent = table.index_of(region)});
    full_fence();
    KeyStatus filled = load_field(window.status);
    present = load_field(region.status);
    const bool is_there =
        present.live == parent.status.live && present.generation == parent.status.generation;
    if (!is_there) break;
    if (backing_of(present) != backing || filled.backing != backing) continue;
    KeyStatus live = filled;
    live.live = key;
    if (exchange_status(window, filled, live)) return BindRefusal::kNone;
  }
  store_field(window.key, old_key);
  std::atomic_ref(region.bound).fetch_sub(1);
  return BindRefusal::kNoSuchRegion;
}

}  // namespace

BindRefusal bind_type2(const KeyTable& table, const Binder& binder,
                       const BindRequest& request) noexcept {
  KeyEntry* window = nullptr;
  Parent region;
  if (const auto no = check_window(table, binder, request, &window); no != BindRefusal::kNone) {
    return no;
  }
  if (!is_type2(*window)) return BindRefusal::kWrongWindowType;
  if (load_live(*window) != 0) return BindRefusal::kAlreadyBound;
  if (request.octets == 0) return BindRefusal::kEmptyRange;
  if (!allows(kRemoteRights | Access::kZeroBased, request.access)) return BindRefusal::kBadAccess;
  if (const auto no = check_region(table, binder, request, &region); no != BindRefusal::kNone) {
    return no;
  }
  return grant_range(table, *window, region, binder, request);
}

BindRefusal bind_type1(const KeyTable& table, const Binder& binder,
                       const BindRequest& request) noexcept {
  KeyEntry* window = nullptr;
  Parent region;
  if (const auto no = check_window(table, binder, request, &window); no != BindRefusal::kNone) {
    return no;
  }
  if (load_field(window->status.kind) != KeyKind::kWindowType1)
    return BindRefusal::kWrongWindowType;
  if (!allows(kRemoteRights, request.access)) return BindRefusal::kBadAccess;
  if (request.octets == 0) {
    release_range(table, *window);
    store_field(window->key, static_cast<std::uint32_t>(request.new_key));
    return BindRefusal::kNone;
  }
  if (const auto no = check_region(table, binder, request, &region); no != BindRefusal::kNone) {
    return no;
  }
  release_range(table, *window);
  return grant_range(table, *window, region, binder, request);
}

BindRefusal invalidate(const KeyTable& table, const Binder& binder, wire::MemoryKey key) noexcept {
  KeyEntry* entry = table.find(key);
  if (entry == nullptr || load_field(entry->status.kind) == KeyKind::kNone)
    return BindRefusal::kNoSuchWindow;
  if (!is_type2(*entry)) return BindRefusal::kNotInvalidatable;
  if (entry->key != static_cast<std::uint32_t>(key)) return BindRefusal::kWrongWindowKey;
  if (load_live(*entry) == 0) return BindRefusal::kNotInvalidatable;
  if (load_field(entry->status.kind) == KeyKind::kWindowType2B && entry->domain != binder.domain) {
    return BindRefusal::kOtherDomain;
  }
  if (entry->qp != static_cast<std::uint32_t>(binder.qp)) return BindRefusal::kOtherQueuePair;
  release_range(table, *entry);
  return BindRefusal::kNone;
}

void release_range(const KeyTable& table, KeyEntry& window) noexcept {
  for (;;) {
    const KeyStatus present = load_field(window.status);
    if (present.live == 0 || end_range(table, window, present, present.backing)) return;
  }
}

/// The parent is that of the range that `present` is the status of: otherwise the exchange fails.
bool end_range(const KeyTable& table, KeyEntry& window, const KeyStatus& present,
               Backing backing) noexcept {
  const std::uint32_t parent = load_field(window.parent);
  const KeyStatus ended{.generation = static_cast<std::uint16_t>(present.generation + 1),
                        .backing = backing,
                        .kind = present.kind};
  if (!exchange_status(window, present, ended)) return false;
  if (parent < table.size()) {
    std::atomic_ref(table.at(parent).bound).fetch_sub(1, std::memory_order_acq_rel);
  }
  return true;
}

const char* name_of(BindRefusal refusal) noexcept {
  switch (refusal) {
    case BindRefusal::kNone:
      return "not refused";
    case BindRefusal::kNoSuchWindow:
      return "no window has this key";
    case BindRefusal::kWrongWindowKey:
      return "the window has another key now";
    case BindRefusal::kWrongWindowType:
      return "the window is of the other type";
    case BindRefusal::kAlreadyBound:
      return "the window is bound; invalidate it first";
    case BindRefusal::kOtherDomain:
      return "window, region and queue pair differ in domain";
    case BindRefusal::kNoSuchRegion:
      return "no region has this key";
    case BindRefusal::kZeroBasedRegion:
      return "the region is zero-based";
    case BindRefusal::kRegionDeniesBind:
      return "the region was registered without MW_BIND";
    case BindRefusal::kRegionDeniesWrite:
      return "the region does not allow local write";
    case BindRefusal::kOutsideRegion:
      return "the range leaves the region";
    case BindRefusal::kEmptyRange:
      return "a type 2 window needs a length";
    case BindRefusal::kBadAccess:
      return "a window cannot have these rights";
    case BindRefusal::kNotInvalidatable:
      return "only a bound type 2 window can be invalidated";
    case BindRefusal::kOtherQueuePair:
      return "the window is bound to another queue pair";
  }
  return "?";
}

}  // namespace verbatim::memory

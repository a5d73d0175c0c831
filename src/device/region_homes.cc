// SPDX-License-Identifier: Apache-2.0
#include "device/region_homes.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/environment.h"
#include "base/fence.h"
#include "base/mutex.h"
#include "base/own_threads.h"
#include "base/process_wide.h"
#include "direct/access_list.h"

namespace verbatim::device {

namespace {

// How long an unmapping waits for peers that are in the middle of an access. A registration in
// another thread waits about three times as long for unmappings that are under way (Watch::now()).
constexpr Duration kUnmapPatience = std::chrono::milliseconds(30);

rehome::Policy policy_of_environment() noexcept {
  const char* value = environment_variable("VERBATIM_REHOME");
  if (value != nullptr && std::strcmp(value, "0") == 0) return rehome::Policy::kNever;
  if (value != nullptr && std::strcmp(value, "1") == 0) return rehome::Policy::kEdges;
  return rehome::Policy::kAutomatic;
}

rehome::Range range_of(const RegionHomes::Region& region) noexcept {
  return {.begin = region.address, .end = region.address + region.octets};
}

/// Created while the library is loaded, and never destroyed, because programs exit with memory
/// registered. It is not on the heap: a forked child reads it before pages of the heap that have
/// moved exist in the child.
alignas(rehome::Rehoming) std::byte g_place_of_rehoming[sizeof(rehome::Rehoming)];
auto* const g_rehoming = new (g_place_of_rehoming) rehome::Rehoming;

/// The RegionHomes of all adapters of the process: a page may belong to regions of several
/// adapters. The lock is taken after that of Rehoming and before that of an adapter.
struct AllHomes {
  Mutex mutex;
  std::vector<RegionHomes*> list VB_GUARDED_BY(mutex);
};
AllHomes& all_homes() noexcept {
  return process_wide([] { return new AllHomes; });
}

/// The pages of a new home may have become private before the adapter knew of the home.
void learn_whether_private(RegionHomes::Home& home) noexcept {
  if (!home.placement) return;
  const rehome::Rehoming& rehoming = process_rehoming();
  if (home.placement->detachments != rehoming.detachments()) home.why = rehome::Why::kStopped;
  if (home.placement->partings != rehoming.partings()) home.why = rehome::Why::kForked;
}

/// Moves the region, or notes why not.
void move(RegionHomes::Home& home) {
  auto moved = process_rehoming().move_in(range_of(home.region));
  if (moved) {
    home.placement = *moved;
    home.why = rehome::Why::kMoved;
  } else {
    home.why = moved.error();
  }
}

}  // namespace

rehome::Rehoming& process_rehoming() noexcept { return *g_rehoming; }

void prepare_process_rehoming() noexcept {
  process_rehoming().set_policy(policy_of_environment());
  process_rehoming().open_arena();
}

RegionHomes::RegionHomes(memory::KeyRegistry& keys, host::AdapterLock& lock, PeerAccess& peers)
    : keys_(keys),
      lock_(lock),
      peers_(peers),
      observer_{.handle_unmap =
                    [](void* context, rehome::Range range) noexcept {
                      return static_cast<RegionHomes*>(context)->handle_unmap(range);
                    },
                .context = this} {
  (void)process_rehoming().add_observer(observer_);  // on failure stale keys stay valid
  const LockGuard listed(all_homes().mutex);
  all_homes().list.push_back(this);
}

RegionHomes::~RegionHomes() {
  {
    const LockGuard lock(all_homes().mutex);
    std::erase(all_homes().list, this);
  }
  process_rehoming().remove_observer(observer_);
}

void RegionHomes::forget_in_child() noexcept {
  new (&all_homes().mutex) Mutex;
  const LockGuard lock(all_homes().mutex);
  all_homes().list.clear();
}

/// On the monitor, while the program's call waits. The addresses may be those of other memory as
/// soon as the call returns. By then no thread of this process and no peer uses them, unless it was
/// stopped in the middle of an access.
bool RegionHomes::handle_unmap(rehome::Range range) noexcept {
  using Closed = memory::KeyRegistry::Closed;
  const Closed closed = keys_.close(range.begin, range.end);
  // If another thread has made a key invalid that close() would have, it has counted before.
  full_fence();
  if (closed == Closed::kNow || endings_.load() > 0) {
    direct::AccessList::of_process().await(kUnmapPatience);
  }
  return closed != Closed::kNothing;
}

RegionHomes::Home RegionHomes::find(const Region& region, bool is_shared) {
  Home home{.region = region};
  if (region.octets == 0) return home;
  home.found_at = process_rehoming().now();
  if (is_shared) move(home);
  home.is_watched = process_rehoming().watch(range_of(region));
  return home;
}

void RegionHomes::confirm(wire::MemoryKey key, const Home& home) {
  const rehome::Range range = range_of(home.region);
  if (!process_rehoming().has_unmapped_since(home.found_at, range)) return;
  if (keys_.close(key) != memory::KeyRegistry::Closed::kNow) return;
  direct::AccessList::of_process().await(kUnmapPatience);
}

bool RegionHomes::may_be_gone(const Home& home) noexcept {
  return home.region.octets > 0 && process_rehoming().may_have_unmapped_since(home.found_at);
}

bool RegionHomes::is_gone(wire::MemoryKey key, const Home& home) {
  const bool is_so = process_rehoming().has_unmapped_since(home.found_at, range_of(home.region));
  if (is_so) (void)keys_.close(key);
  return is_so;
}

void RegionHomes::give_up(const Home& home) {
  if (home.is_watched) process_rehoming().unwatch(range_of(home.region));
  if (home.placement) process_rehoming().drop(*home.placement);
}

/// With the lock of Rehoming held: nothing moves meanwhile.
void RegionHomes::withdraw_everywhere(rehome::Range pages) {
  const LockGuard lock(all_homes().mutex);
  for (RegionHomes* homes : all_homes().list) homes->withdraw(pages);
}

/// The pages are about to become private. The regions stay, and peers reach them by system calls.
void RegionHomes::withdraw(rehome::Range pages) {
  const host::AdapterGuard lock(lock_);
  bool has_any = false;
  for (auto& [key, home] : homes_) {
    if (!home.placement || !home.placement->pages.overlaps(pages)) continue;
    has_any = true;
    withdraw(wire::MemoryKey{key}, home);
    home.why = rehome::Why::kStopped;  // the placement is dropped with the region
    show(wire::MemoryKey{key}, home);
  }
  if (has_any) (void)peers_.await();  // a stopped peer stores to pages that no program sees
}

void RegionHomes::add(wire::MemoryKey key, const Home& found) {
  Home& home = homes_[static_cast<std::uint32_t>(key)] = found;
  learn_whether_private(home);
  show(key, home);
  if (home.why == rehome::Why::kNoPeer && has_peers(home.region.domain)) {
    to_move_.push_back(key);  // the domain has got its first peer meanwhile
    has_moves_.store(true, std::memory_order_relaxed);
  }
}

/// Publishes how peers reach the region.
void RegionHomes::show(wire::MemoryKey key, const Home& home) {
  keys_.note(key, static_cast<std::uint32_t>(home.why));
  if (!home.placement || home.why != rehome::Why::kMoved) return;
  const rehome::Range range = range_of(home.region);
  const rehome::Range pages = home.placement->pages;
  const bool is_whole = pages.covers(range);
  const bool pages_are_usual =
      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) == memory::kSharedPageOctets;
  if (!is_whole && !pages_are_usual) return;  // a peer assumes the usual page size
  // Addresses and offsets in the arena have a constant difference, so this offset is right for the
  // first octet of the region, too.
  const std::uint64_t shared_at = home.placement->offset - (pages.begin - range.begin);
  keys_.change_backing(key, is_whole ? memory::Backing::kShared : memory::Backing::kSharedInside,
                       shared_at);
}

RegionHomes::Home RegionHomes::take(wire::MemoryKey key) {
  const auto node = homes_.extract(static_cast<std::uint32_t>(key));
  return node.empty() ? Home{} : std::move(node.mapped());
}

RegionHomes::Home RegionHomes::exchange(wire::MemoryKey key, const Home& home) {
  Home old = take(key);
  add(key, home);
  return old;
}

void RegionHomes::share(memory::DomainId domain) {
  if (!shared_.insert(domain).second) return;
  for (const auto& [key, home] : homes_) {
    if (home.region.domain == domain) to_move_.push_back(wire::MemoryKey{key});
  }
  has_moves_.store(!to_move_.empty(), std::memory_order_relaxed);
}

void RegionHomes::run_moves() {
  if (has_moves() && !OwnThread::is_mine()) move_listed();
  detach_abandoned();
}

/// Pages that another region has moved already are used also while the program has several threads.
/// Then another thread may deregister the region meanwhile, or change its memory.
void RegionHomes::move_listed() {
  host::AdapterGuard held(lock_);
  const auto keys = std::exchange(to_move_, {});
  has_moves_.store(false, std::memory_order_relaxed);
  for (const wire::MemoryKey key : keys) {
    const auto found = homes_.find(static_cast<std::uint32_t>(key));
    if (found == homes_.end() || found->second.placement) continue;
    if (keys_.is_closed(key)) continue;  // other memory may be mapped there now
    Home home = found->second;
    held.unlock();
    if (home.region.octets > 0) move(home);
    held.lock();
    const auto again = homes_.find(static_cast<std::uint32_t>(key));
    if (again != homes_.end() && !again->second.placement && again->second.region == home.region) {
      learn_whether_private(home);
      again->second.placement = home.placement;
      again->second.why = home.why;
      show(key, again->second);
    } else if (home.placement) {
      home.is_watched = false;  // the end of the region has released the watch
      held.unlock();
      give_up(home);
      held.lock();
    }
  }
}

/// The adapter's lock is taken for each element of the list: the lock of Rehoming comes first.
void RegionHomes::detach_abandoned() {
  if (!has_abandoned()) return;
  const auto next = [this]() -> std::optional<rehome::Placement> {
    const host::AdapterGuard held(lock_);
    if (to_detach_.empty()) {
      has_abandoned_.store(false, std::memory_order_release);  // pairs with has_abandoned()
      return std::nullopt;
    }
    const rehome::Placement placement = to_detach_.back();
    to_detach_.pop_back();
    return placement;
  };
  process_rehoming().detach_all(next, &withdraw_everywhere);
}

void RegionHomes::withdraw(wire::MemoryKey key, const Home& home) {
  if (home.placement) keys_.change_backing(key, memory::Backing::kPrivate, 0);
}

void RegionHomes::withdraw(const Domains& domains) {
  for (const auto& [key, home] : homes_) {
    if (domains.contains(home.region.domain)) withdraw(wire::MemoryKey{key}, home);
  }
}

void RegionHomes::abandon(const Domains& domains) {
  for (auto& [key, home] : homes_) {
    if (!home.placement || !domains.contains(home.region.domain)) continue;
    abandon(home);
    show(wire::MemoryKey{key}, home);
  }
}

void RegionHomes::abandon(Home& home) {
  if (!home.placement) return;
  to_detach_.push_back(*home.placement);
  home.placement.reset();
  home.why = rehome::Why::kStopped;
  has_abandoned_.store(true, std::memory_order_relaxed);
}

void RegionHomes::withdraw_all() {
  for (const auto& [key, home] : homes_) withdraw(wire::MemoryKey{key}, home);
}

/// PeerAccess::await() does not count peers that are locked out, and the pages that they may still
/// write are those that abandon() has listed.
bool RegionHomes::await_all() { return !has_abandoned() && peers_.await(); }

void RegionHomes::note_fork() {
  for (auto& [key, home] : homes_) {
    if (!home.placement) continue;
    home.placement.reset();
    home.why = rehome::Why::kForked;
    show(wire::MemoryKey{key}, home);
  }
}

void RegionHomes::restore_all() {
  for (const auto& [key, home] : homes_) show(wire::MemoryKey{key}, home);
}

}  // namespace verbatim::device

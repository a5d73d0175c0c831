// SPDX-License-Identifier: Apache-2.0
#include "device/memory_region.h"

#include <chrono>
#include <mutex>

#include "base/pointer.h"
#include "base/time.h"
#include "device/registrable.h"
#include "direct/access_list.h"

namespace verbatim::device {
namespace {

using memory::Access;

/// Whether an adapter pins memory with these rights for writing.
bool is_written(Access access) noexcept {
  constexpr Access kWriting =
      Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteAtomic | Access::kBindWindow;
  return (access & kWriting) != Access::kNone;
}

bool can_be_pinned(const MemoryRegion::Place& place, Access access) noexcept {
  return is_registrable(pointer_as<void>(place.address), place.octets, is_written(access));
}

/// How long the end of a registration waits for requests of this process that name its memory.
constexpr Duration kOwnPatience = std::chrono::milliseconds(100);

RegionHomes::Region region_of(memory::DomainId domain, const MemoryRegion::Place& place) noexcept {
  return {.domain = domain, .address = place.address, .octets = place.octets};
}

}  // namespace

/// Without the lock, before a key names the memory.
RegionHomes::Home MemoryRegion::find_home(memory::DomainId domain, const Place& place) const {
  bool has_peers = false;
  {
    const host::AdapterGuard lock(parts_.lock);
    has_peers = parts_.homes.has_peers(domain);
  }
  return RegionHomes::find(region_of(domain, place), has_peers);
}

Expected<std::unique_ptr<MemoryRegion>> MemoryRegion::create(const MemoryParts& parts,
                                                             const Setup& setup) {
  if (!can_be_pinned(setup.place, setup.access)) return Errc::kFault;
  std::unique_ptr<MemoryRegion> region(new MemoryRegion(parts, setup));
  const Home home = region->find_home(setup.domain, setup.place);
  {
    host::AdapterGuard lock(parts.lock);
    auto key = parts.keys.register_region({.domain = setup.domain,
                                           .address = setup.place.address,
                                           .octets = setup.place.octets,
                                           .base = setup.base,
                                           .access = setup.access});
    if (!key) {
      lock.unlock();
      RegionHomes::give_up(home);
      return key.error();
    }
    (void)parts.domains.add_user(setup.domain);  // cannot fail: the domain is open
    parts.homes.add(*key, home);
    region->key_ = *key;
  }
  parts.homes.confirm(region->key_, home);
  parts.homes.run_moves();
  return region;
}

Status MemoryRegion::change(const Change& change) {
  const memory::DomainId domain = change.domain.value_or(domain_);
  const Place place = change.place.value_or(place_);
  Access access = Access::kNone;
  std::uint64_t base = place.address;
  bool is_gone = false;  // other memory may be mapped there now, which is not registered
  {
    const host::AdapterGuard lock(parts_.lock);
    const memory::KeyEntry& entry = *parts_.keys.table().find(key_);
    access = change.access.value_or(entry.access);
    if (!change.place) {
      base = entry.base;
      is_gone = parts_.keys.is_closed(key_);
    }
  }
  const bool pins = change.place || (change.access && is_written(access) && !is_gone);
  if (pins && !can_be_pinned(place, access)) return Errc::kFault;
  const Home home = is_gone ? Home{.region = region_of(domain, place)} : find_home(domain, place);

  const RegionHomes::Ending ending(parts_.homes);
  host::AdapterGuard lock(parts_.lock);
  using Memory = memory::KeyRegistry::Memory;
  auto changed = parts_.keys.change_region(key_,
                                           {.domain = domain,
                                            .address = place.address,
                                            .octets = place.octets,
                                            .base = base,
                                            .access = access},
                                           change.place ? Memory::kOther : Memory::kSame);
  if (!changed) {
    lock.unlock();
    RegionHomes::give_up(home);
    return changed;
  }
  Home old = parts_.homes.exchange(key_, home);
  (void)parts_.domains.add_user(domain);  // cannot fail: the domain is open
  const bool may_be_gone = RegionHomes::may_be_gone(home);
  if (!may_be_gone) parts_.keys.publish_region(key_);
  if (!parts_.peers.await()) parts_.homes.abandon(old);
  lock.unlock();
  const bool is_late = may_be_gone && !parts_.homes.is_gone(key_, home);
  direct::AccessList::of_process().await_requesters(kOwnPatience);
  lock.lock();
  if (is_late) parts_.keys.publish_region(key_);
  parts_.peers.await_calls(lock, place_.address, place_.octets);
  parts_.domains.drop_user(domain_);
  domain_ = domain;
  place_ = place;
  lock.unlock();
  RegionHomes::give_up(old);
  parts_.homes.run_moves();
  return Ok{};
}

Status MemoryRegion::destroy() {
  const RegionHomes::Ending ending(parts_.homes);
  Home home;
  {
    host::AdapterGuard lock(parts_.lock);
    if (auto ended = parts_.keys.deregister_region(key_); !ended) return ended;
    home = parts_.homes.take(key_);
    if (!parts_.peers.await()) parts_.homes.abandon(home);
    parts_.peers.await_calls(lock, place_.address, place_.octets);
    parts_.domains.drop_user(domain_);
  }
  direct::AccessList::of_process().await_requesters(kOwnPatience);
  RegionHomes::give_up(home);
  parts_.homes.detach_abandoned();
  return Ok{};
}

}  // namespace verbatim::device

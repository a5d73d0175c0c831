// SPDX-License-Identifier: Apache-2.0
#include "device/memory_region.h"

#include <mutex>

#include "base/pointer.h"
#include "device/registrable.h"

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

RegionHomes::Region region_of(memory::DomainId domain, const MemoryRegion::Place& place) noexcept {
  return {.domain = domain, .address = place.address, .octets = place.octets};
}

}  // namespace

/// Without the lock, before a key names the memory.
RegionHomes::Home MemoryRegion::find_home(memory::DomainId domain, const Place& place) const {
  bool has_peers = false;
  {
    const std::lock_guard lock(parts_.lock);
    has_peers = parts_.homes.has_peers(domain);
  }
  return RegionHomes::find(region_of(domain, place), has_peers);
}

Expected<std::unique_ptr<MemoryRegion>> MemoryRegion::create(const MemoryParts& parts,
                                                             const Setup& setup) {
  if (!can_be_pinned(setup.place, setup.access)) return Errc::kFault;
  auto region = std::make_unique<MemoryRegion>(parts);
  const Home home = region->find_home(setup.domain, setup.place);
  {
    std::unique_lock lock(parts.lock);
    auto key = parts.keys.register_region({.domain = setup.domain,
                                           .address = setup.place.address,
                                           .octets = setup.place.octets,
                                           .base = setup.base,
                                           .access = setup.access});
    if (!key) {
      lock.unlock();
      RegionHomes::give_up(home, true);
      return key.error();
    }
    (void)parts.domains.add_user(setup.domain);  // cannot fail: the domain is open
    parts.homes.add(*key, home);
    region->key_ = *key;
  }
  region->domain_ = setup.domain;
  region->place_ = setup.place;
  parts.homes.run_moves();
  parts.homes.confirm(region->key_, home);
  return region;
}

Status MemoryRegion::change(const Change& change) {
  const memory::DomainId domain = change.domain.value_or(domain_);
  const Place place = change.place.value_or(place_);
  Access access = Access::kNone;
  std::uint64_t base = place.address;
  bool is_gone = false;  // other memory may be mapped there now, which is not registered
  {
    const std::lock_guard lock(parts_.lock);
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

  std::unique_lock lock(parts_.lock);
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
    RegionHomes::give_up(home, true);
    return changed;
  }
  const bool has_left = parts_.peers.await();
  parts_.peers.await_calls(lock, place_.address, place_.octets);
  const Home old = parts_.homes.take(key_);
  parts_.homes.add(key_, home);
  (void)parts_.domains.add_user(domain);  // cannot fail: the domain is open
  parts_.domains.drop_user(domain_);
  domain_ = domain;
  place_ = place;
  lock.unlock();
  RegionHomes::give_up(old, has_left);
  parts_.homes.run_moves();
  parts_.homes.confirm(key_, home);
  return Ok{};
}

Status MemoryRegion::destroy() {
  Home home;
  bool has_left = true;
  {
    std::unique_lock lock(parts_.lock);
    if (auto ended = parts_.keys.deregister_region(key_); !ended) return ended;
    has_left = parts_.peers.await();
    parts_.peers.await_calls(lock, place_.address, place_.octets);
    home = parts_.homes.take(key_);
    parts_.domains.drop_user(domain_);
  }
  RegionHomes::give_up(home, has_left);
  return Ok{};
}

}  // namespace verbatim::device

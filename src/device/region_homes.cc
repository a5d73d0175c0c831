// SPDX-License-Identifier: Apache-2.0
#include "device/region_homes.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "device/clock.h"

namespace verbatim::device {

namespace {

rehome::Policy policy_of_environment() noexcept {
  const char* value = std::getenv("VERBATIM_REHOME");
  if (value != nullptr && std::strcmp(value, "0") == 0) return rehome::Policy::kNever;
  if (value != nullptr && std::strcmp(value, "1") == 0) return rehome::Policy::kAlways;
  return rehome::Policy::kAutomatic;
}

}  // namespace

/// Never destroyed: programs exit with memory registered.
rehome::Rehoming& process_rehoming() noexcept {
  static auto* const instance =
      new rehome::Rehoming(rehome::Rehoming::Config{.policy = policy_of_environment()});
  return *instance;
}

void RegionHomes::add(wire::MemoryKey key, const Region& region) {
  remove(key, true);  // one that was changed
  Home& home = homes_[static_cast<std::uint32_t>(key)];
  home.region = region;
  if (shared_.contains(region.domain)) move_in(key, home);
}

void RegionHomes::remove(wire::MemoryKey key, bool is_left) {
  const auto found = homes_.find(static_cast<std::uint32_t>(key));
  if (found == homes_.end()) return;
  if (auto& home = found->second; home.placement) {
    is_left ? process_rehoming().move_back(*home.placement, now()) : orphan(home);
  }
  homes_.erase(found);
}

void RegionHomes::orphan(Home& home) {
  process_rehoming().orphan(*home.placement, now());
  orphaned_.push_back(home.placement->pages);
  home.placement.reset();
}

void RegionHomes::withdraw(const Domains& domains) {
  for (auto& [key, home] : homes_) {
    if (!home.placement || !domains.contains(home.region.domain)) continue;
    keys_.change_backing(wire::MemoryKey{key}, memory::Backing::kPrivate, 0);
  }
}

void RegionHomes::abandon(const Domains& domains) {
  for (auto& [key, home] : homes_) {
    if (home.placement && domains.contains(home.region.domain)) orphan(home);
  }
  for (const memory::DomainId domain : domains) {
    if (shared_.erase(domain) > 0) exiled_.insert(domain);
  }
}

void RegionHomes::restore() {
  for (const rehome::Range& pages : orphaned_) process_rehoming().release(pages);
  orphaned_.clear();
  for (const memory::DomainId domain : std::exchange(exiled_, {})) share(domain);
}

void RegionHomes::share(memory::DomainId domain) {
  if (exiled_.contains(domain) || !shared_.insert(domain).second) return;
  for (auto& [key, home] : homes_) {
    if (home.region.domain == domain) move_in(wire::MemoryKey{key}, home);
  }
}

void RegionHomes::move_in(wire::MemoryKey key, Home& home) {
  if (home.placement || home.region.octets == 0) return;
  (void)try_to_move_in(key, home);  // else peers read and write by system calls
}

/// Whether peers can map all of it.
bool RegionHomes::try_to_move_in(wire::MemoryKey key, Home& home) {
  const rehome::Range range{.begin = home.region.address,
                            .end = home.region.address + home.region.octets};
  auto moved = process_rehoming().move_in(range, now());
  if (!moved) return false;
  home.placement = *moved;
  const bool is_whole = moved->pages.covers(range);
  const bool pages_are_usual =
      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) == memory::kSharedPageOctets;
  if (!is_whole && !pages_are_usual) return false;  // a peer could not tell which pages
  // Neighbours in memory are neighbours in the arena, so this is right for the first octet, too.
  const std::uint64_t shared_at = moved->offset - (moved->pages.begin - range.begin);
  keys_.change_backing(key, is_whole ? memory::Backing::kShared : memory::Backing::kSharedInside,
                       shared_at);
  return is_whole;
}

}  // namespace verbatim::device

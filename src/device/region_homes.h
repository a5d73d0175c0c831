// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "memory/key_registry.h"
#include "rehome/rehoming.h"

namespace verbatim::device {

/// The one of this process.
[[nodiscard]] rehome::Rehoming& process_rehoming() noexcept;

/// Where the regions of an adapter live: in private memory, or, once a queue pair of their domain
/// has a peer on this host, in memory that peers map. Regions that cannot move are reached through
/// system calls; nothing fails.
///
/// Thread: whoever holds the adapter's lock.
class RegionHomes {
 public:
  explicit RegionHomes(memory::KeyRegistry& keys) noexcept : keys_(keys) {}

  struct Region {
    memory::DomainId domain = memory::DomainId::kNone;
    std::uintptr_t address = 0;
    std::size_t octets = 0;
  };
  /// A region was registered, or changed.
  void add(wire::MemoryKey key, const Region& region);
  /// It is gone, and no peer is in the middle of an access. `is_left` is false when a peer that is
  /// stopped may still store there.
  void remove(wire::MemoryKey key, bool is_left);
  /// Whether peers may reach what does not move with system calls; true unless told.
  void allow_peer_calls(bool allowed) noexcept { has_peer_calls_ = allowed; }
  /// A queue pair of this domain has a peer on this host.
  void share(memory::DomainId domain);

  using Domains = std::set<memory::DomainId>;
  /// From now on peers are to reach the regions of these domains by system calls, not by pointers.
  void withdraw(const Domains& domains);
  /// Then, when nobody is left in there but who is stopped: the pages move back to private memory,
  /// and what such a peer still stores goes where nobody looks. Nothing of these domains moves in
  /// again before restore().
  void abandon(const Domains& domains);
  /// Nobody is stopped anywhere any longer.
  void restore();

 private:
  struct Home {
    Region region;
    std::optional<rehome::Placement> placement{};
  };
  void move_in(wire::MemoryKey key, Home& home);
  [[nodiscard]] bool try_to_move_in(wire::MemoryKey key, Home& home);
  void orphan(Home& home);

  memory::KeyRegistry& keys_;
  std::map<std::uint32_t, Home> homes_;  // by key
  Domains shared_;
  Domains exiled_;                       // abandoned, until restore()
  std::vector<rehome::Range> orphaned_;  // pages that a stopped peer may still store to
  bool has_peer_calls_ = true;
};

}  // namespace verbatim::device

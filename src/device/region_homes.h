// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "device/peer_access.h"
#include "host/queue_lock.h"
#include "memory/key_registry.h"
#include "rehome/rehoming.h"

namespace verbatim::device {

/// The one of this process.
[[nodiscard]] rehome::Rehoming& process_rehoming() noexcept;
/// Before the first region: reads the environment (VERBATIM_REHOME) and makes the memory file.
void prepare_process_rehoming() noexcept;

/// Where the regions of an adapter live: in private memory, or, once a queue pair of their domain
/// has a peer on this host, in memory that peers map. Regions that cannot move are reached through
/// system calls; nothing fails. A region whose memory the program unmaps is closed: its key no
/// longer works.
///
/// Moving memory takes time, and the lock of Rehoming is taken before that of an adapter. So the
/// functions come in two kinds: those that run with the adapter's lock held and move nothing, and
/// those that run without it.
class RegionHomes {
 public:
  /// The parts of the adapter, which outlives this. `lock` is its lock.
  RegionHomes(memory::KeyRegistry& keys, host::AdapterLock& lock, PeerAccess& peers);
  RegionHomes(const RegionHomes&) = delete;
  RegionHomes& operator=(const RegionHomes&) = delete;
  ~RegionHomes();

  struct Region {
    memory::DomainId domain = memory::DomainId::kNone;
    std::uintptr_t address = 0;
    std::size_t octets = 0;
  };
  struct Home {
    Region region;
    std::optional<rehome::Placement> placement{};
    rehome::Why why = rehome::Why::kNoPeer;  // it did not move
    bool is_watched = false;
    rehome::Watch::Moment found_at{};
  };

  // ---- Without the adapter's lock ----

  /// For a region that is about to be registered. `is_shared` is has_peers() of its domain.
  [[nodiscard]] static Home find(const Region& region, bool is_shared);
  /// After add(): the key is closed if the program has unmapped the memory meanwhile.
  void confirm(wire::MemoryKey key, const Home& home);
  /// The region is deregistered, and its home was taken. `is_left` is false when a peer that is
  /// stopped may still store there.
  static void give_up(const Home& home, bool is_left);
  /// Does what share() and abandon() have left to be done. Threads of the library's own move
  /// nothing in: the program's threads do, where they may.
  void run_moves();
  [[nodiscard]] bool has_moves() const noexcept {
    return has_moves_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_strays() const noexcept {
    return has_strays_.load(std::memory_order_relaxed);
  }

  // ---- With it ----

  /// A region was registered, or changed.
  void add(wire::MemoryKey key, const Home& home);
  /// The region is gone, and no peer is in the middle of an access that is not stopped.
  [[nodiscard]] Home take(wire::MemoryKey key);
  /// A queue pair of this domain has a peer on this host.
  void share(memory::DomainId domain);
  [[nodiscard]] bool has_peers(memory::DomainId domain) const { return shared_.contains(domain); }

  using Domains = std::set<memory::DomainId>;
  /// From now on peers are to reach the regions of these domains by system calls, not by pointers.
  void withdraw(const Domains& domains);
  /// Then, when every peer but those that are stopped has left: the pages become private memory,
  /// and late stores of a stopped peer go to pages that no program sees.
  void abandon(const Domains& domains);

  /// In a forked child, before anything else here.
  static void forget_in_child() noexcept;

  /// Around a fork that makes moved memory private: withdraw() of all domains, then either that
  /// they are private now, or that nothing has happened.
  void withdraw_all();
  void note_fork();
  void restore_all();

 private:
  bool handle_unmap(rehome::Range range) noexcept;
  static void withdraw_everywhere(rehome::Range pages);
  void withdraw(rehome::Range pages);
  void show(wire::MemoryKey key, const Home& home);
  void withdraw(wire::MemoryKey key, const Home& home);

  memory::KeyRegistry& keys_;
  host::AdapterLock& lock_;
  PeerAccess& peers_;
  rehome::Watch::Listener listener_;
  std::map<std::uint32_t, Home> homes_;  // by key
  Domains shared_;
  std::vector<wire::MemoryKey> to_move_;  // of domains that have got their first peer
  std::vector<Home> to_detach_;           // under the hands of a stopped peer
  std::atomic<bool> has_moves_{false};    // to_move_ is not empty
  std::atomic<bool> has_strays_{false};   // to_detach_ is not empty
};

/// Runs the moves at the end of a scope. It is declared before the guard of the adapter's lock, and
/// so the moves run when the lock has been released.
class MovesAtEnd {
 public:
  explicit MovesAtEnd(RegionHomes& homes) noexcept : homes_(homes) {}
  MovesAtEnd(const MovesAtEnd&) = delete;
  MovesAtEnd& operator=(const MovesAtEnd&) = delete;
  ~MovesAtEnd() { homes_.run_moves(); }

 private:
  RegionHomes& homes_;
};

}  // namespace verbatim::device

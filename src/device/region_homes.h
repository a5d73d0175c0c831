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

/// The Rehoming of this process.
[[nodiscard]] rehome::Rehoming& process_rehoming() noexcept;
/// To be called before the first registration. Reads VERBATIM_REHOME and creates the arena.
void prepare_process_rehoming() noexcept;

/// The homes of the regions of an adapter: private memory, or, once a queue pair of their domain
/// has a peer on this host, memory that peers map. Peers reach regions that cannot move through
/// system calls, so a registration does not fail for this. A region whose memory the program unmaps
/// is closed: its key no longer works.
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
    rehome::Why why = rehome::Why::kNoPeer;  // or why it did not move
    bool is_watched = false;
    rehome::Watch::Moment found_at{};
  };

  // ---- Without the adapter's lock ----

  /// For a region that is about to be registered. `is_shared` is has_peers() of its domain.
  [[nodiscard]] static Home find(const Region& region, bool is_shared);
  /// After add(): the key is closed if the program has unmapped the memory meanwhile.
  void confirm(wire::MemoryKey key, const Home& home);
  /// Releases a home that take() returned, or that find() returned and no region got. `is_left` is
  /// false when a stopped peer may still store there.
  static void give_up(const Home& home, bool is_left);
  /// Moves the memory that share() and abandon() have listed. Threads of the library move no memory
  /// into the arena; threads of the program do.
  void run_moves();
  [[nodiscard]] bool has_moves() const noexcept {
    return has_moves_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_strays() const noexcept {
    return has_strays_.load(std::memory_order_relaxed);
  }

  // ---- With the adapter's lock held ----

  /// A region was registered, or has got another home.
  void add(wire::MemoryKey key, const Home& home);
  /// The region has ended, and no peer but a stopped one is in the middle of an access.
  [[nodiscard]] Home take(wire::MemoryKey key);
  /// A queue pair of this domain has a peer on this host.
  void share(memory::DomainId domain);
  [[nodiscard]] bool has_peers(memory::DomainId domain) const { return shared_.contains(domain); }

  using Domains = std::set<memory::DomainId>;
  /// Publishes that peers reach the regions of these domains by system calls, not by pointers.
  void withdraw(const Domains& domains);
  /// After withdraw(), when every peer but the stopped ones has left: lists the pages to become
  /// private memory. Late stores of a stopped peer then reach pages that no program sees.
  void abandon(const Domains& domains);

  /// In a forked child, before any other function of this class.
  static void forget_in_child() noexcept;

  /// For a fork that makes moved memory private: withdraw_all() before it, then note_fork() if the
  /// memory is private now, or restore_all() if it has not changed.
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
  std::vector<Home> to_detach_;           // which a stopped peer may still write
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/adapter_role.h"
#include "device/peer_access.h"
#include "host/adapter_guard.h"
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

    bool operator==(const Region&) const = default;
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
  /// After add() of a key that is valid: the key is closed if the program has unmapped the memory
  /// meanwhile.
  void confirm(wire::MemoryKey key, const Home& home);
  /// For a key that names other memory now and is not valid yet: whether the program has unmapped
  /// that memory since find(). Then the key is closed.
  [[nodiscard]] bool is_gone(wire::MemoryKey key, const Home& home);
  /// The same at once. True if it is not known without waiting.
  [[nodiscard]] static bool may_be_gone(const Home& home) noexcept;
  /// Releases a home that take() or exchange() returned, or that find() returned and no region got.
  static void give_up(const Home& home);
  /// Moves the memory that share() and abandon() have listed. Threads of the library move no memory
  /// into the arena; threads of the program do.
  void run_moves();
  /// Only what abandon() has listed. When this returns, all pages that were listed before are
  /// private memory, also those that another thread makes private at the same time.
  void detach_abandoned();
  [[nodiscard]] bool has_moves() const noexcept {
    return has_moves_.load(std::memory_order_relaxed);
  }
  /// Whether a stopped peer may still write pages that abandon() has listed.
  [[nodiscard]] bool has_abandoned() const noexcept {
    return has_abandoned_.load(std::memory_order_acquire);
  }

  /// Exists while a thread ends registrations: from before a key becomes invalid until no access
  /// goes on that has found it valid. An unmapping of the same memory by another thread finds the
  /// key invalid, or not at all, and waits for such accesses itself.
  class Ending {
   public:
    explicit Ending(RegionHomes& homes) noexcept : homes_(homes) { homes_.endings_.fetch_add(1); }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    ~Ending() { homes_.endings_.fetch_sub(1); }

   private:
    RegionHomes& homes_;
  };

  // ---- With the adapter's lock held ----
  //
  // The home of each key is that of the memory which the key names. So a key and its home change
  // without a release of the lock in between.

  /// A region was registered.
  void add(wire::MemoryKey key, const Home& home) VB_REQUIRES(adapter_role);
  /// The key has become invalid. Peers may still be in the middle of an access.
  [[nodiscard]] Home take(wire::MemoryKey key) VB_REQUIRES(adapter_role);
  /// The key names other memory, or has other rights. Returns the previous home, as take() does.
  [[nodiscard]] Home exchange(wire::MemoryKey key, const Home& home) VB_REQUIRES(adapter_role);
  /// A queue pair of this domain has a peer on this host.
  void share(memory::DomainId domain) VB_REQUIRES(adapter_role);
  [[nodiscard]] bool has_peers(memory::DomainId domain) const VB_REQUIRES(adapter_role) {
    return shared_.contains(domain);
  }

  using Domains = std::set<memory::DomainId>;
  /// Publishes that peers reach the regions of these domains by system calls, not by pointers.
  void withdraw(const Domains& domains) VB_REQUIRES(adapter_role);
  /// After withdraw(), when every peer but the stopped ones has left: lists the pages to become
  /// private memory. Late stores of a stopped peer then reach pages that no program sees.
  void abandon(const Domains& domains) VB_REQUIRES(adapter_role);
  /// The same for a home that take() or exchange() returned.
  void abandon(Home& home) VB_REQUIRES(adapter_role);

  /// In a forked child, before any other function of this class.
  static void forget_in_child() noexcept;

  /// For a fork that makes moved memory private: withdraw_all() before it, then note_fork() if the
  /// memory is private now, or restore_all() if it has not changed. Between them, await_all() says
  /// whether no peer can store to moved memory any more. The pages of memory that becomes private
  /// by a fork are not copied, so a later store of a stopped peer would appear in it.
  void withdraw_all() VB_REQUIRES(adapter_role);
  [[nodiscard]] bool await_all() VB_REQUIRES(adapter_role);
  void note_fork() VB_REQUIRES(adapter_role);
  void restore_all() VB_REQUIRES(adapter_role);

 private:
  bool handle_unmap(rehome::Range range) noexcept;
  void move_listed();
  static void withdraw_everywhere(rehome::Range pages);
  void withdraw(rehome::Range pages);
  void show(wire::MemoryKey key, const Home& home) VB_REQUIRES(adapter_role);
  void withdraw(wire::MemoryKey key, const Home& home) VB_REQUIRES(adapter_role);

  memory::KeyRegistry& keys_;
  host::AdapterLock& lock_;
  PeerAccess& peers_;
  std::atomic<int> endings_{0};
  rehome::Watch::Observer observer_;
  std::map<std::uint32_t, Home> homes_ VB_GUARDED_BY(adapter_role);  // by key
  Domains shared_ VB_GUARDED_BY(adapter_role);
  std::vector<wire::MemoryKey> to_move_
      VB_GUARDED_BY(adapter_role);  // of domains that have got their first peer
  std::vector<rehome::Placement> to_detach_
      VB_GUARDED_BY(adapter_role);      // which a stopped peer may still write
  std::atomic<bool> has_moves_{false};  // to_move_ is not empty
  // Set with an element of to_detach_. Cleared when all elements are detached, not when they are
  // taken out.
  std::atomic<bool> has_abandoned_{false};
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

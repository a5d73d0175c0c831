// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "base/mutex.h"
#include "base/occupancy.h"
#include "base/time.h"
#include "host/peer.h"

namespace verbatim::direct {

/// A party that reads and writes memory which this process has registered: the visitor of a half, a
/// requester of this process in the memory that its own requests name, or the packets and errands
/// of an adapter. It looks at keys and uses what they grant only while its occupancy is odd.
///
/// It is in the AccessList as long as it exists.
class AccessParty {
 public:
  enum class Kind : std::uint8_t { kVisitor, kRequester, kAdapter };

  /// `peer` is null for a party of this very process. The occupancy outlives this.
  AccessParty(Kind kind, const Occupancy& inside,
              std::shared_ptr<host::Peer> peer = nullptr) noexcept;
  AccessParty(const AccessParty&) = delete;
  AccessParty& operator=(const AccessParty&) = delete;
  ~AccessParty();

  [[nodiscard]] const std::shared_ptr<host::Peer>& peer() const noexcept { return peer_; }
  [[nodiscard]] Occupancy::Snapshot snapshot() const noexcept { return inside_.snapshot(); }
  /// Whether the access that the snapshot found is over. A dead process accesses nothing.
  [[nodiscard]] bool has_left(Occupancy::Snapshot since) const noexcept {
    return inside_.has_left(since) || (peer_ != nullptr && peer_->has_ended());
  }

 private:
  friend class AccessList;

  const Kind kind_;
  const Occupancy& inside_;
  const std::shared_ptr<host::Peer> peer_;
  // Members that AccessList uses:
  AccessParty* previous_ = nullptr;
  AccessParty* next_ = nullptr;
  std::uint32_t generation_ = 0;         // of the list that it is in
  Occupancy::Snapshot passed_over_ = 0;  // the access that was not waited for to its end
};

/// All parties that may be in the middle of an access to memory of this process. It is for the
/// monitor, which handles an unmapping while the program's munmap(2) waits, and which may neither
/// take a lock of an adapter nor allocate memory or descriptors; and for the end of a registration.
///
/// Its own lock is held for a few stores, or by a wait. Nothing is allocated or freed under it. A
/// thread must not wait for its own access: a wait has a limit, because a signal handler may have
/// interrupted one. Any thread.
class AccessList {
 public:
  [[nodiscard]] static AccessList& of_process() noexcept;

  /// For a caller that takes memory away, after it has published that the memory is gone. Returns
  /// when no access goes on that may have found it. An access that takes longer than `patience` is
  /// passed over, by later calls as well: its process is stopped, or has had no processor.
  void await(Duration patience) noexcept;
  /// The same for the requesters of this process alone, and no access is passed over by later
  /// calls. Costs nothing without a requester.
  void await_requesters(Duration patience) noexcept;

  /// In a forked child, which has no parties.
  void forget_in_child() noexcept;

 private:
  friend class AccessParty;
  void add(AccessParty& party) noexcept;
  void remove(AccessParty& party) noexcept;

  Mutex mutex_;
  AccessParty* first_ VB_GUARDED_BY(mutex_) = nullptr;
  int requester_count_ VB_GUARDED_BY(mutex_) = 0;
  std::uint32_t generation_ = 0;  // changes with each fork
};

}  // namespace verbatim::direct

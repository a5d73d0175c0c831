// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/mutex.h"
#include "base/time.h"
#include "direct/half_record.h"
#include "host/peer.h"

namespace verbatim::direct {

/// The one requester that may execute requests in a half, as the owner of the half sees it. Copies
/// stand for the same requester. It is in the VisitorList while a copy exists.
class Visitor {
 public:
  Visitor() noexcept = default;
  /// `peer` is null for this very process.
  Visitor(std::shared_ptr<host::Peer> peer, const Visiting* visiting);
  /// The requester of queue pair `number` of that peer; exists() is false when the peer's segment
  /// has no place for it.
  static Visitor of(std::shared_ptr<host::Peer> peer, const std::byte* own_segment,
                    wire::QpNumber number);

  [[nodiscard]] bool exists() const noexcept { return listed_ != nullptr; }
  [[nodiscard]] Occupancy::Snapshot snapshot() const noexcept { return listed_->snapshot(); }
  /// Whether the visit that the snapshot found is over. A dead requester has left.
  [[nodiscard]] bool has_left(Occupancy::Snapshot since) const noexcept {
    return listed_->has_left(since);
  }
  /// Asks the system whether its process is dead.
  void look() const noexcept;
  /// Whether it has announced a system call that reads or writes some of these octets.
  [[nodiscard]] bool calls_into(std::uint64_t address, std::uint64_t octets) const noexcept;
  /// Whether it sends its requests to queue pair `number` in packets.
  [[nodiscard]] bool sends_packets_to(wire::QpNumber number) const noexcept;

 private:
  friend class VisitorList;
  /// The part that all copies share.
  struct Listed {
    Listed(std::shared_ptr<host::Peer> of, const Visiting* at) noexcept;
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;
    ~Listed();

    [[nodiscard]] Occupancy::Snapshot snapshot() const noexcept {
      return visiting->inside.snapshot();
    }
    [[nodiscard]] bool has_left(Occupancy::Snapshot since) const noexcept {
      return visiting->inside.has_left(since) || (peer != nullptr && peer->has_ended());
    }

    const std::shared_ptr<host::Peer> peer;  // null: a requester of this process
    const Visiting* const visiting;
    // Members that VisitorList uses:
    Listed* previous = nullptr;
    Listed* next = nullptr;
    std::uint32_t generation = 0;         // of the list that it is in
    Occupancy::Snapshot passed_over = 0;  // the visit that was not waited for to its end
  };

  std::shared_ptr<Listed> listed_;
};

/// All visitors of the halves of this process. It is for the monitor, which handles an unmapping
/// while the program's munmap(2) waits, and which may neither take a lock of an adapter nor
/// allocate memory or descriptors.
///
/// Its own lock is held for a few stores, or by await(). Nothing is allocated or freed under it.
/// Any thread.
class VisitorList {
 public:
  [[nodiscard]] static VisitorList& of_process() noexcept;

  /// For a caller that takes something away, after it has published that the thing is gone. Returns
  /// when no visit goes on that may have seen the thing. A visit that takes longer than `patience`
  /// is passed over, by later calls as well: its process is stopped, or has had no processor.
  void await(Duration patience) noexcept;

  /// In a forked child, which has no visitors.
  void forget_in_child() noexcept;

 private:
  friend struct Visitor::Listed;
  void add(Visitor::Listed& visitor) noexcept;
  void remove(Visitor::Listed& visitor) noexcept;

  Mutex mutex_;
  Visitor::Listed* first_ VB_GUARDED_BY(mutex_) = nullptr;
  std::uint32_t generation_ = 0;  // changes with each fork
};

}  // namespace verbatim::direct

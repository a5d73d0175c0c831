// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "direct/access_list.h"
#include "direct/half_record.h"
#include "host/peer.h"

namespace verbatim::direct {

/// The one requester that may execute requests in a half, as the owner of the half sees it. Copies
/// stand for the same requester. It is in the AccessList while a copy exists.
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
  [[nodiscard]] Occupancy::Snapshot snapshot() const noexcept { return listed_->party.snapshot(); }
  /// Whether the visit that the snapshot found is over. A dead requester has left.
  [[nodiscard]] bool has_left(Occupancy::Snapshot since) const noexcept {
    return listed_->party.has_left(since);
  }
  /// Asks the system whether its process is dead.
  void look() const noexcept;
  /// Whether it has announced a system call that reads or writes some of these octets.
  [[nodiscard]] bool calls_into(std::uint64_t address, std::uint64_t octets) const noexcept;
  /// Whether it sends its requests to queue pair `number` in packets.
  [[nodiscard]] bool sends_packets_to(wire::QpNumber number) const noexcept;

 private:
  /// The part that all copies share.
  struct Listed {
    Listed(std::shared_ptr<host::Peer> of, const Visiting* at) noexcept
        : party(AccessParty::Kind::kVisitor, at->inside, std::move(of)), visiting(at) {}

    AccessParty party;
    const Visiting* const visiting;
  };

  std::shared_ptr<Listed> listed_;
};

}  // namespace verbatim::direct

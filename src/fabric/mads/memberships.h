// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/mads/user_mad.h"
#include "wire/headers/mad.h"
#include "wire/management/multicast_record.h"

namespace verbatim::fabric {

/// The multicast groups that programs of one port have joined. Subnet administration knows one
/// membership of a port, however many programs have asked for it. As a kernel does for rdma_cm,
/// this class counts them: the port leaves a group when the last program leaves it, or has ended.
///
/// The owner shows it what clients send and get, of which it reads the Sets and Deletes of
/// MCMemberRecords (IBA Vol 1, 15.2.5.17), and
///   - does not send a request that handle_request() has made an answer of, but delivers it;
///   - sends a Delete for each record that close() returns.
/// A join counts from when it leaves, and a departure when it is answered: so a client that ends in
/// between leaves nothing behind.
///
/// Limits: kMembershipsMax of one port; joins beyond it are not counted.
/// Pure. Thread: one.
class Memberships {
 public:
  static constexpr std::size_t kMembershipsMax = 4096;

  /// A datagram that a client sends. True: other members remain at this port, and the datagram has
  /// become the answer to itself.
  [[nodiscard]] bool handle_request(ClientId client, std::span<std::byte, wire::Mad::kSize> octets);
  /// A datagram that a client gets, or the header of its own request without an answer.
  void handle_answer(ClientId client, std::span<const std::byte> octets);
  /// The client has ended: what it alone was a member of.
  [[nodiscard]] std::vector<wire::MulticastRecord> close(ClientId client);

  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }

 private:
  /// One join of one client.
  struct Membership {
    ClientId client{};
    wire::MulticastRecord record{};
    std::uint32_t transaction = 0;  // the lower half of that of the request under way
    bool is_asking = true;          // a request is under way
    bool is_leaving = false;        // that of the last member to leave
  };
  [[nodiscard]] bool has_members(const wire::Gid& group) const noexcept;

  std::vector<Membership> all_;
};

}  // namespace verbatim::fabric

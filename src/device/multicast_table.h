// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/expected.h"
#include "wire/ids.h"

namespace verbatim::device {

class QueuePair;

/// The address that packets of a multicast group go to. The form that InfiniBand and RoCEv1 have
/// for an IPv4 group (ff0e::ffff:a.b.c.d) names the same group as ::ffff:a.b.c.d.
[[nodiscard]] wire::Gid group_address(const wire::Gid& gid) noexcept;

/// Which queue pairs of an adapter get a copy of the packets of which multicast group (IBA Vol 1,
/// 10.5). Guarded by the adapter's lock.
class MulticastTable {
 public:
  static constexpr std::size_t kGroupsMax = 256;        // each is a socket
  static constexpr std::size_t kMembersMax = 1U << 12;  // of one group

  struct Group {
    wire::Gid address{};
    std::vector<QueuePair*> members{};
  };

  /// The members of a group; empty when there is none.
  [[nodiscard]] std::span<QueuePair* const> members(const wire::Gid& address) const noexcept;
  [[nodiscard]] bool has_room_for_a_group() const noexcept { return groups_.size() < kGroupsMax; }

  /// A queue pair that is a member already stays one. kNoMemory when there is no room.
  [[nodiscard]] Status add(const wire::Gid& address, QueuePair& qp);
  /// kInvalidArgument when it is no member.
  [[nodiscard]] Status remove(const wire::Gid& address, const QueuePair& qp) noexcept;
  [[nodiscard]] bool has_member(const QueuePair& qp) const noexcept;

 private:
  std::vector<Group> groups_;  // none without members
};

}  // namespace verbatim::device

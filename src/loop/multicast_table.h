// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/expected.h"
#include "wire/headers/ids.h"

namespace verbatim::loop {

inline constexpr std::size_t kGroupsMax = 256;        // of one adapter; each is a socket
inline constexpr std::size_t kMembersMax = 1U << 12;  // of one group

/// The address that packets of a multicast group go to. The form that InfiniBand and RoCEv1 have
/// for an IPv4 group (ff0e::ffff:a.b.c.d) names the same group as ::ffff:a.b.c.d.
[[nodiscard]] wire::Gid group_address(const wire::Gid& gid) noexcept;

/// Which queue pairs of an adapter get a copy of the packets of which multicast group (IBA Vol 1,
/// 10.5). `Qp` is any type: the table looks at nothing behind the pointers. Guarded by the
/// adapter's lock.
template <typename Qp>
class MulticastTable {
 public:
  /// The members of a group; empty when there is none.
  [[nodiscard]] std::span<Qp* const> members(const wire::Gid& address) const noexcept {
    const auto group = find(groups_, address);
    if (group == groups_.end()) return {};
    return group->members;
  }
  [[nodiscard]] bool has_room_for_a_group() const noexcept { return groups_.size() < kGroupsMax; }

  /// A queue pair that is a member already stays one. kNoMemory when there is no room.
  [[nodiscard]] Status add(const wire::Gid& address, Qp& qp) {
    auto group = find(groups_, address);
    if (group == groups_.end()) {
      if (!has_room_for_a_group()) return Errc::kNoMemory;
      groups_.push_back({.address = address, .members = {}});
      group = groups_.end() - 1;
    }
    auto& members = group->members;
    if (std::ranges::find(members, &qp) != members.end()) return Ok{};
    if (members.size() >= kMembersMax) return Errc::kNoMemory;
    members.push_back(&qp);
    return Ok{};
  }
  /// kInvalidArgument when the queue pair is no member.
  [[nodiscard]] Status remove(const wire::Gid& address, const Qp& qp) noexcept {
    const auto group = find(groups_, address);
    if (group == groups_.end() || std::erase(group->members, &qp) == 0) {
      return Errc::kInvalidArgument;
    }
    if (group->members.empty()) groups_.erase(group);
    return Ok{};
  }
  [[nodiscard]] bool has_member(const Qp& qp) const noexcept {
    return std::ranges::any_of(groups_, [&](const Group& group) {
      return std::ranges::find(group.members, &qp) != group.members.end();
    });
  }

 private:
  struct Group {
    wire::Gid address{};
    std::vector<Qp*> members{};
  };
  template <typename Groups>
  static auto find(Groups& groups, const wire::Gid& address) noexcept {
    return std::ranges::find_if(groups,
                                [&](const Group& group) { return group.address == address; });
  }

  std::vector<Group> groups_;  // each has a member
};

}  // namespace verbatim::loop

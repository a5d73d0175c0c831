// SPDX-License-Identifier: Apache-2.0
#include "device/multicast_table.h"

#include <algorithm>

namespace verbatim::device {

namespace {

template <typename Groups>
auto find_group(Groups& groups, const wire::Gid& address) noexcept {
  return std::find_if(groups.begin(), groups.end(),
                      [&](const auto& group) { return group.address == address; });
}

}  // namespace

wire::Gid group_address(const wire::Gid& gid) noexcept {
  wire::Gid mapped = gid;
  mapped.octets[0] = mapped.octets[1] = 0;
  const bool has_prefix = gid.octets[0] == 0xff && gid.octets[1] == 0x0e;
  return has_prefix && mapped.is_ipv4_mapped() && mapped.is_multicast() ? mapped : gid;
}

std::span<QueuePair* const> MulticastTable::members(const wire::Gid& address) const noexcept {
  const auto group = find_group(groups_, address);
  if (group == groups_.end()) return {};
  return group->members;
}

Status MulticastTable::add(const wire::Gid& address, QueuePair& qp) {
  auto group = find_group(groups_, address);
  if (group == groups_.end()) {
    if (!has_room_for_a_group()) return Errc::kNoMemory;
    groups_.push_back({.address = address, .members = {}});
    group = groups_.end() - 1;
  }
  auto& members = group->members;
  if (std::find(members.begin(), members.end(), &qp) != members.end()) return Ok{};
  if (members.size() >= kMembersMax) return Errc::kNoMemory;
  members.push_back(&qp);
  return Ok{};
}

Status MulticastTable::remove(const wire::Gid& address, const QueuePair& qp) noexcept {
  const auto group = find_group(groups_, address);
  if (group == groups_.end() || std::erase(group->members, &qp) == 0) {
    return Errc::kInvalidArgument;
  }
  if (group->members.empty()) groups_.erase(group);
  return Ok{};
}

bool MulticastTable::has_member(const QueuePair& qp) const noexcept {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return std::find(group.members.begin(), group.members.end(), &qp) != group.members.end();
  });
}

}  // namespace verbatim::device

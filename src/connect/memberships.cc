// SPDX-License-Identifier: Apache-2.0
#include "connect/memberships.h"

#include <algorithm>

namespace verbatim::connect {

Outcome Memberships::attach(const wire::Gid& group, PairControl& pair) {
  if (!pair.has_pair()) return Ok{};
  for (Membership& membership : all_) {
    if (membership.is_attached || membership.group != group) continue;
    auto attached = pair.attach(group);
    membership.is_attached = attached.ok();
    return attached;
  }
  return Ok{};
}

void Memberships::detach(Membership& membership, PairControl* pair) noexcept {
  if (!membership.is_attached || pair == nullptr || !pair->has_pair()) return;
  pair->detach(membership.group);
  membership.is_attached = false;
}

Outcome Memberships::leave(const wire::Gid& group, PairControl* pair) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Membership& membership) {
    return membership.group == group;
  });
  if (found == all_.end()) return Error::kAddressNotAvailable;
  detach(*found, pair);
  all_.erase(found);
  return Ok{};
}

void Memberships::leave_all(PairControl* pair) noexcept {
  for (Membership& membership : all_) detach(membership, pair);
  all_.clear();
}

}  // namespace verbatim::connect

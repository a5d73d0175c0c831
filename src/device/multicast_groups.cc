// SPDX-License-Identifier: Apache-2.0
#include "device/multicast_groups.h"

#include <mutex>

#include "device/engine.h"
#include "device/network.h"
#include "device/queue_pair.h"

namespace verbatim::device {

Status MulticastGroups::attach(QueuePair& qp, const wire::Gid& group) {
  const wire::Gid address = loop::group_address(group);
  if (!address.is_multicast() || !qp.is_datagram()) return Errc::kInvalidArgument;
  const host::AdapterGuard lock(parts_.lock);
  if (is_abandoned_) return Errc::kNoDevice;
  if (table_.members(address).empty()) {
    if (!table_.has_room_for_a_group()) return Errc::kNoMemory;
    auto joined = parts_.network.join(parts_.port, address);
    if (!joined) return joined;
    parts_.engine.watch_link();
  }
  return table_.add(address, qp);
}

Status MulticastGroups::detach(QueuePair& qp, const wire::Gid& group) {
  const wire::Gid address = loop::group_address(group);
  const host::AdapterGuard lock(parts_.lock);
  auto removed = table_.remove(address, qp);
  if (!removed || !table_.members(address).empty() || is_abandoned_) return removed;
  parts_.network.leave(parts_.port, address);
  parts_.engine.watch_link();
  return Ok{};
}

bool MulticastGroups::has_member(const QueuePair& qp) const {
  const host::AdapterGuard lock(parts_.lock);
  return table_.has_member(qp);
}

}  // namespace verbatim::device

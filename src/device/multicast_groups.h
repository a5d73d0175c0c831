// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/adapter_role.h"
#include "base/expected.h"
#include "device/port_info.h"
#include "host/queue_lock.h"
#include "loop/multicast_table.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

class Engine;
class Network;
class QueuePair;

/// The multicast groups that queue pairs of an adapter are attached to. The adapter's link joins
/// a group with its first member and leaves it with its last.
///
/// Without the adapter's lock, unless a function says otherwise.
class MulticastGroups {
 public:
  /// The parts outlive this object.
  struct Parts {
    host::AdapterLock& lock;
    const PortInfo& port;
    Network& network;
    Engine& engine;
  };
  explicit MulticastGroups(const Parts& parts) noexcept : parts_(parts) {}
  MulticastGroups(const MulticastGroups&) = delete;
  MulticastGroups& operator=(const MulticastGroups&) = delete;

  /// A datagram queue pair gets a copy of what is sent to a multicast group. kInvalidArgument when
  /// `group` is no group or the queue pair not one of datagrams; kNoMemory when there are too many.
  [[nodiscard]] Status attach(QueuePair& qp, const wire::Gid& group);
  /// Ends the membership of the queue pair. kInvalidArgument when the queue pair is not attached.
  [[nodiscard]] Status detach(QueuePair& qp, const wire::Gid& group);
  [[nodiscard]] bool has_member(const QueuePair& qp) const;
  /// To be read with the adapter's lock held.
  [[nodiscard]] const loop::MulticastTable<QueuePair>& table() const noexcept
      VB_REQUIRES(adapter_role) {
    return table_;
  }

  /// In a forked child, with the lock held or as the only thread: its copies of the sockets join
  /// and leave nothing.
  void abandon_in_child() noexcept VB_REQUIRES(adapter_role) { is_abandoned_ = true; }

 private:
  Parts parts_;
  loop::MulticastTable<QueuePair> table_ VB_GUARDED_BY(adapter_role);
  bool is_abandoned_ VB_GUARDED_BY(adapter_role) = false;
};

}  // namespace verbatim::device

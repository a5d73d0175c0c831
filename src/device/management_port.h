// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "base/time.h"
#include "device/adapter_types.h"
#include "device/port_info.h"
#include "host/queue_lock.h"
#include "host/slot.h"
#include "link/link.h"
#include "link/packet_burst.h"
#include "wire/cm/cm_ids.h"
#include "wire/crc/icrc.h"
#include "wire/headers/ids.h"
#include "wire/headers/packet.h"

namespace verbatim::device {

class Engine;
class Network;

/// Queue pair 1 of an adapter (IBA Vol 1, 13.5.1), as the adapter sees it: where management
/// datagrams arrive, for this process and for the others behind the same addresses. A layer above
/// implements it (connect::GeneralServices), and the caller that opens an adapter says which one.
///
/// Locks: none for open() and leave(), when no other thread uses the adapter's parts, and for
/// descriptor(). deliver_news() takes the adapter's lock itself. All others are called with the
/// adapter's lock held.
///
/// The adapter destroys it before it releases the slot, under a ForkPause: the destructor closes
/// all names and connections.
class ManagementPort {
 public:
  /// The parts of the adapter that it uses. They exist as long as it does, but its constructor must
  /// not use them: some are made later.
  struct Parts {
    host::AdapterLock& lock;
    const PortInfo& port;
    const host::Slot& slot;
    Network& network;
    link::Link* const& link;  // the present one
    AdapterDispatch& dispatch;
    Engine& engine;
  };
  /// Makes the port of an adapter; never null.
  using Maker = std::unique_ptr<ManagementPort> (*)(const Parts& parts);

  /// `made_by` is the function that makes objects of the derived class, and of no other class.
  explicit ManagementPort(Maker made_by) noexcept : maker_(made_by) {}
  ManagementPort(const ManagementPort&) = delete;
  ManagementPort& operator=(const ManagementPort&) = delete;
  virtual ~ManagementPort() = default;
  /// Says of which class this object is.
  [[nodiscard]] Maker maker() const noexcept { return maker_; }

  /// Before anything that follows, when the link and the slot are open.
  [[nodiscard]] virtual Status open() noexcept = 0;
  /// The adapter closes: no datagrams are to come to this process any more. The engine's thread has
  /// ended, and the link is still open. Also without open().
  virtual void leave() noexcept VB_REQUIRES(adapter_role) = 0;
  /// In a forked child: gives up all that is shared with the parent.
  virtual void abandon_in_child() noexcept VB_REQUIRES(adapter_role) = 0;

  /// A packet that has arrived for queue pair 1.
  struct Arrival {
    const link::Incoming& incoming;
    const wire::PacketView& packet;
    const wire::IcrcSeed& seed;
    bool was_forwarded = false;  // by another process of this host
  };
  virtual void handle(const Arrival& arrival) noexcept VB_REQUIRES(adapter_role) = 0;
  /// The peer of a connection that was accepted has sent a packet, so it is ready (IBA Vol 1,
  /// 12.9.7.2).
  virtual void handle_first_data(wire::CommId communication) noexcept VB_REQUIRES(adapter_role) = 0;
  /// The adapter has got an address.
  virtual void handle_address(const wire::Gid& address) noexcept VB_REQUIRES(adapter_role) = 0;
  virtual void handle_port_change(const PortChange& change) noexcept VB_REQUIRES(adapter_role) = 0;

  /// Readable when take_forwarded() is to be called. It stays the same from open() on, so the
  /// engine's thread reads it without the lock.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  /// Handles the requests that other processes have forwarded.
  virtual void take_forwarded() noexcept VB_REQUIRES(adapter_role) = 0;
  /// Does what is due at this time.
  virtual void run_timer(Instant at) noexcept VB_REQUIRES(adapter_role) = 0;
  [[nodiscard]] virtual Instant next_deadline() const noexcept VB_REQUIRES(adapter_role) = 0;

  /// After Engine::note_management_news(): by the engine's thread, with no lock held.
  virtual void deliver_news() noexcept = 0;

 private:
  const Maker maker_;
};

}  // namespace verbatim::device

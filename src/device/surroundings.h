// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/adapter_role.h"
#include "base/time.h"
#include "base/uncancelled.h"
#include "device/adapter_record.h"
#include "device/engine.h"
#include "device/fault_guard.h"
#include "device/management_port.h"
#include "device/memory_work.h"
#include "device/network.h"
#include "device/port_info.h"
#include "device/segment_layout.h"
#include "device/visitors.h"
#include "host/slot.h"
#include "link/packet_burst.h"
#include "loop/dispatch.h"
#include "udp/backpressure.h"
#include "wire/cm/cm_ids.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"

namespace verbatim::device {

/// The device around Dispatch and Progress: sockets, other processes, the general services
/// interface and the engine. With the adapter's lock held.
class Surroundings {
 public:
  /// The parts outlive this object.
  struct Parts {
    const PortInfo& port;
    const host::Slot& slot;
    Network& network;
    const SegmentLayout& layout;
    Visitors& visitors;
    ManagementPort& management;
    Engine& engine;
    MemoryWork& memory_work;
  };
  explicit Surroundings(const Parts& parts);
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  [[nodiscard]] loop::PacketCounters& counters() noexcept {
    return parts_.layout.adapter().counters;
  }

  template <typename Work>
  [[nodiscard]] bool guarded(Work&& work) noexcept VB_REQUIRES(adapter_role) {
    return parts_.memory_work.run(work);
  }
  void expect_faults() noexcept { let_faults_through_for_burst(); }

  // ---- For Dispatch ----

  /// If that process has ended, the packet is lost, as with a host that is down, and the sender
  /// notices.
  void forward(std::uint32_t slot, const link::Incoming& incoming) noexcept
      VB_REQUIRES(adapter_role);
  [[nodiscard]] bool is_own_address(const wire::Gid& gid) const noexcept VB_REQUIRES(adapter_role);
  void handle_management(const link::Incoming& incoming, const wire::PacketView& packet,
                         const wire::IcrcSeed& seed, loop::ArrivedBy arrived_by) noexcept
      VB_REQUIRES(adapter_role);
  void handle_first_data(wire::CommId communication) noexcept VB_REQUIRES(adapter_role);
  void handle_key_violation(transport::KeyViolation violation,
                            const transport::Arrival& arrival) noexcept VB_REQUIRES(adapter_role);

  // ---- For Progress ----

  using Uncancelled = verbatim::Uncancelled;

  /// A packet that another process has sent on; the octets are valid until the next call.
  struct Forwarded {
    link::Incoming incoming{};
    std::span<std::byte> octets{};  // the packet's, in the same place
  };
  [[nodiscard]] std::optional<Forwarded> take_forwarded() noexcept VB_REQUIRES(adapter_role);

  using Room = link::Backpressure;
  [[nodiscard]] Room::Receiver receiver_at(const wire::Gid& gid,
                                           std::uint32_t slot) const noexcept {
    return {.address = {.gid = gid, .scope = parts_.port.interface_index}, .slot = slot};
  }
  [[nodiscard]] std::size_t room_at(const Room::Receiver& receiver, Instant at)
      VB_REQUIRES(adapter_role) {
    return parts_.network.room_at(receiver, at);
  }

  void note_deadline(Instant deadline) noexcept { parts_.engine.note_deadline(deadline); }
  void note_kept_answers(Instant deadline) noexcept { parts_.engine.note_kept_answers(deadline); }
  void note_caller(Instant at) noexcept { parts_.engine.note_caller(at); }
  [[nodiscard]] Instant next_chore() const noexcept VB_REQUIRES(adapter_role) {
    return parts_.visitors.next_look();
  }
  void do_chores(Instant at) VB_REQUIRES(adapter_role) { parts_.visitors.look(at); }

 private:
  Parts parts_;
  std::vector<std::byte> forwarded_
      VB_GUARDED_BY(adapter_role);  // a packet on its way to or from another process
};

}  // namespace verbatim::device

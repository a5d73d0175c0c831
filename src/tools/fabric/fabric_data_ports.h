// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/slot_numbers.h"
#include "base/time.h"
#include "fabric/data/data_packet.h"
#include "fabric/fabric.h"
#include "host/descriptor.h"
#include "host/fabric_data_server_port.h"
#include "host/fabric_server.h"
#include "tools/fabric/management_steering.h"
#include "tools/fabric/packet_tap.h"

namespace verbatim::tools {

/// The data ports of all processes at a fabric: takes the packets that they post into the fabric,
/// and hands each that arrives at a port to the processes there. The slot in the number of the
/// destination queue pair names the process; a packet to a group is for all at the port. A packet
/// to queue pair 1 is for the process that listens for its service, or that has given the ID in it;
/// if there is no such process, for the one with the lowest slot, which answers or hands it over.
///
/// No packet is lost because a process is slow: where its arrival ring is full, packets wait in
/// their senders' buffers, and in the receive buffer of the adapter, so that their lanes get no
/// credits and the senders wait, too. When the process has released nothing for kPatience, or has
/// had no room for kPatienceMax, what waits for it is discarded and counted, and so is all that
/// comes until it has released something: a process that is stopped stops its lanes once.
///
/// What processes say about packets that they refuse because of a key goes to the counters of their
/// port, of each process at most once in kReportsEvery.
///
/// The owner
///   1. watches descriptor() and calls handle_bells() when it is readable;
///   2. calls turn() after each advance() of the fabric, again at once while is_looking(), and no
///      later than next_due().
/// turn() moves a bounded number of packets. For kLooking after a data port has moved something it
/// is looked at without a system call of its process.
/// Thread: that of the fabric.
class FabricDataPorts {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(100);
  static constexpr Duration kPatienceMax = std::chrono::milliseconds(500);
  // A process that has ended: what has not left its adapter by then is discarded.
  static constexpr Duration kLingering = std::chrono::seconds(5);
  static constexpr Duration kLooking = std::chrono::microseconds(20);
  static constexpr Duration kReportsEvery = std::chrono::milliseconds(1);
  static constexpr std::size_t kBurstPackets = 32;  // of one process before the next one
  static constexpr std::size_t kTurnPackets = 256;

  /// Packets that were discarded here. The fabric has a record of each that has arrived.
  struct Counters {
    std::uint64_t malformed = 0;    // the headers make no sense, or are not those of data
    std::uint64_t unclaimed = 0;    // no process has the slot
    std::uint64_t undelivered = 0;  // the process released nothing in time
  };

  FabricDataPorts(fabric::Fabric& fabric, host::FabricServer& server);

  /// Gets all packets that pass tapped ports of the fabric, the management datagrams too.
  void set_tap(PacketTap& tap) noexcept { tap_ = &tap; }

  /// Negative: the system gives none.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.number(); }
  void handle_bells(Instant now);

  /// A process names its port, which exists, and its slot: accepts or refuses it. `name` is that of
  /// the port.
  struct Arrival {
    host::FabricClientId client = 0;
    fabric::PortEnd port{};
    std::uint32_t slot = 0;
  };
  void attach(const Arrival& arrival, const host::FabricNodeState& state, const std::string& name);
  /// A process with a data port listens for a service, or does so no more.
  void set_service(host::FabricClientId client, std::uint32_t service, bool listens);
  /// Where a process is; nothing: it has no data port.
  [[nodiscard]] std::optional<Arrival> seat_of(host::FabricClientId client) const;
  /// A process has ended. What it has posted leaves, if it can within kLingering. False: it has no
  /// data port.
  bool detach(Instant now, host::FabricClientId client);

  /// Returns how many packets were taken.
  std::size_t turn(Instant now);
  [[nodiscard]] bool is_looking() const noexcept { return !looked_at_.empty(); }
  [[nodiscard]] Instant next_due() const noexcept;

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  using Index = std::uint32_t;   // in members_
  using Handle = std::uint32_t;  // of a packet: the index of its sender, and in the low octet its
                                 // buffer
  static constexpr Index kNone = ~Index{0};
  /// A packet in the receive buffer of an adapter, for which processes have no room.
  struct Held {
    fabric::DataOutcome arrival{};
    std::uint32_t users = 0;  // processes that have not got it
  };
  struct Waiting {
    Handle handle = 0;
    std::uint32_t held = 0;  // in held_
  };
  /// A packet in a buffer of its sender.
  struct Passage {
    fabric::DataPacket packet{};
    std::uint32_t users = 0;  // the fabric, and the processes for which it waits
  };
  struct Member {
    Arrival about;
    bool is_attached = true;    // false: it has ended, but packets of it are on the way
    bool is_looked_at = false;  // is in looked_at_
    bool wants_ring = false;    // is in to_ring_
    Instant moved{};            // when it has last posted or got a packet
    Instant next_report{};      // when what it refuses is counted next
    host::FabricDataServerPort port;
    std::array<Passage, host::FabricDataArea::kBuffers> passages{};
    std::deque<Waiting> waiting;  // packets for it; while there are any it is in waited_for_
    bool is_given_up = false;     // it gets nothing more before it has released something
    bool is_excused = false;      // this process was late, once since something waits or was put
    std::uint32_t released = 0;   // when it was looked at last
    Instant released_changed{};   // or the first packet began to wait
    Instant put{};                // when one of them found room, or the first began to wait
  };
  /// A process that has ended, with packets on the way.
  struct Departed {
    Index index = 0;
    Instant withdraws{};
  };
  struct Seats {
    std::array<Index, kSlotCount> by_slot{};
    ServiceSeats services{};
  };

  [[nodiscard]] static std::uint64_t key_of(fabric::PortEnd port) noexcept {
    return std::uint64_t{port.node} << 8 | port.port;
  }
  [[nodiscard]] std::string objection_to(const Arrival& arrival, const std::string& name) const;
  [[nodiscard]] Index free_index();
  [[nodiscard]] Seats& seats_of(fabric::PortEnd port);
  void look_at(Instant now, Index index);
  [[nodiscard]] std::size_t take_posted(Instant now, Index index);
  void take_violations(Instant now, Member& member);
  void take_outcomes(Instant now);
  void take_tapped();
  void arrive(Instant now, const fabric::DataOutcome& arrival);
  void hand_over(Instant now, Index to, std::uint32_t held);
  void await_room(Instant now, Index to, std::uint32_t held);
  void discard(Instant now, const fabric::DataOutcome& arrival, fabric::DropReason reason);
  /// The process at a port for which a packet to queue pair 1 is.
  [[nodiscard]] Index general_services_of(const Seats& seats, Handle handle) const;
  [[nodiscard]] bool is_given_up(Member& member) const noexcept;
  [[nodiscard]] std::uint32_t hold(const fabric::DataOutcome& arrival);
  void let_go_held(Instant now, std::uint32_t held);
  [[nodiscard]] std::span<const std::byte> packet_of(Handle handle) const noexcept;
  void let_go(Handle handle);
  void serve_waiting(Instant now);
  void withdraw_departed(Instant now);
  void put_waiting(Instant now, Index to);
  void discard_waiting(Instant now, Member& member);
  [[nodiscard]] static Instant due_of(const Member& member) noexcept;
  void rest_idle(Instant now);
  void ring_all();

  fabric::Fabric& fabric_;
  host::FabricServer& server_;
  PacketTap* tap_ = nullptr;
  host::Descriptor epoll_;                        // of the bells that processes ring
  std::vector<std::unique_ptr<Member>> members_;  // null: free
  std::unordered_map<host::FabricClientId, Index> by_client_;
  std::unordered_map<std::uint64_t, Seats> seats_;  // by port
  std::vector<Index> looked_at_;
  std::size_t next_looked_at_ = 0;  // at which a turn begins
  std::vector<Index> waited_for_;
  std::vector<Index> to_ring_;
  std::vector<Departed> departed_;  // the one that has ended first is the first
  std::vector<Held> held_;
  std::vector<std::uint32_t> free_held_;  // in held_
  Counters counters_;
};

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "fabric/data/bad_key_report.h"
#include "fabric/data/data_packet.h"
#include "fabric/drop_record.h"
#include "fabric/faults/link_faults.h"
#include "fabric/lanes/lane_wait.h"
#include "fabric/link_error.h"
#include "fabric/mads/registration.h"
#include "fabric/mads/user_mad.h"
#include "fabric/port_status.h"
#include "fabric/taps/tapped_packet.h"
#include "fabric/topology/topology.h"
#include "wire/headers/smp.h"
#include "wire/management/port_counters.h"

namespace verbatim::fabric {

struct FabricOptions {
  std::uint64_t seed = 1;
  Duration hop_delay{0};             // of each link
  std::uint32_t loss_per_mille = 0;  // of management datagrams, once on their whole way
  // How much slower than in hardware links are, and with them all times of the link layer. 0: links
  // have no rate and take any number of packets at once; the times are those of hardware.
  std::uint32_t slowdown = 0;
  // How far links may be ahead of the time: as much as the clock of the owner is coarse, so that
  // packets that it posts at one instant need not wait for each other.
  Duration clock_grain{0};
  std::uint16_t lane_blocks = 256;  // of 64 octets: the receive buffer of each lane; at most 2,048
  // The owner says by take_arrival() when a packet has left the receive buffer of its adapter.
  bool holds_arrivals = false;
  // Switches show speeds above QDR only where bit 31 of the modifier asks for them, as some do.
  bool has_strict_switches = false;
};

/// A datagram or message for a program, and the port that the program has opened.
struct PortDelivery {
  PortEnd port{};
  Delivery delivery{};
};

/// How far a subnet manager has come: ports of links that are plugged in, without port 0 of
/// switches.
struct PortCensus {
  std::size_t cabled = 0;  // both nodes have power, and the cable is there
  std::size_t linked = 0;  // the link is up: Initialize, Armed or Active
  std::size_t active = 0;
  friend bool operator==(const PortCensus&, const PortCensus&) noexcept = default;
};

/// An InfiniBand subnet as a whole: nodes with their agents, links between their ports, and what is
/// on the way between them. Management datagrams travel as in hardware: by directed routes, or by
/// the forwarding tables that a subnet manager has written (IBA Vol 1, 14.2.2 and 18.2.4). Packets
/// of programs travel by these tables only, with the multicast tables among them.
///
/// It performs no I/O, reads no clock and starts no thread; equal calls with equal instants and
/// seed give equal results. Its owner
///   1. passes the calls of programs and of the user, with the time, which never goes back;
///   2. then calls advance(), and drains poll_delivery(), poll_data() and poll_change() until they
///      are empty;
///   3. then calls again no later than next_due(). Spurious calls are harmless.
/// Thread: one at a time.
///
/// A PortEnd must name a port of the topology; port 0 of a channel adapter is none. Programs can
/// use the ports of channel adapters and port 0 of switches.
class Fabric {
 public:
  /// At most this many events happen in one advance(), so that its owner can do other things in
  /// between; the others are due at once.
  static constexpr std::size_t kEventsMax = 4096;
  // Management datagrams between two nodes. Packets of programs have the limits of the receive
  // buffers, and of the owner.
  static constexpr std::size_t kFlightsMax = 131'072;
  static constexpr std::size_t kMessageOctetsMax = std::size_t{1} << 30;  // of RMPP, of all ports

  /// The topology must be complete, as readers and generators return it.
  explicit Fabric(Topology topology, const FabricOptions& options = {});
  Fabric(Fabric&&) noexcept;
  Fabric& operator=(Fabric&&) noexcept;
  ~Fabric();

  [[nodiscard]] const Topology& topology() const noexcept;

  /// Does what is due at `now`.
  void advance(Instant now);
  [[nodiscard]] std::optional<Instant> next_due() const noexcept;

  // Programs. See MadPort for the meaning and the errors.
  Expected<AgentId> register_agent(PortEnd port, ClientId client, const Registration& registration);
  Status unregister_agent(Instant now, PortEnd port, ClientId client, AgentId agent);
  void close_client(Instant now, PortEnd port, ClientId client);
  Status post_send(Instant now, PortEnd port, ClientId client, UserMad mad);
  /// Whether post_send() would take it; `mad` needs only its first datagram.
  [[nodiscard]] Status may_send(PortEnd port, ClientId client, const UserMad& mad,
                                std::size_t octets) const;
  [[nodiscard]] std::optional<PortDelivery> poll_delivery();
  /// Sends a packet through a port of a channel adapter. It arrives at the port that has its LID,
  /// for a multicast LID at several ones and at `from` itself, or the fabric discards it. Without a
  /// hop_delay, and if it need not wait for a link, poll_data() has all its outcomes already when
  /// this returns. Packets that wait in their adapter have no limit but that of the caller.
  void post_data(Instant now, PortEnd from, const DataPacket& packet);
  [[nodiscard]] std::optional<DataOutcome> poll_data();
  /// With holds_arrivals: a packet with this outcome has left the receive buffer of its adapter.
  /// Until then its room is taken, and a lane whose buffer is full gets no packets.
  void take_arrival(Instant now, const DataOutcome& arrival);
  /// Discards the packets with these handles, both inclusive, that wait in their adapter to leave
  /// it.
  void withdraw(Instant now, PortEnd from, std::uint32_t first_handle, std::uint32_t last_handle);
  /// Notes that the owner has discarded a packet that has arrived at a port, and why.
  void report_discard(Instant now, PortEnd at, DropReason reason, const DataPacket& packet);
  /// Has poll_room() name the port of an adapter once, as soon as at most so many packets wait in
  /// it to leave.
  void await_room(PortEnd from, std::uint32_t packets);
  [[nodiscard]] std::optional<PortEnd> poll_room();
  /// Has poll_tapped() give each packet that leaves the port over its link or arrives at it there,
  /// or stops that. While it does, the owner drains poll_tapped() before each poll_data(): a packet
  /// of a program is not done with then.
  void set_tap(PortEnd port, bool is_tapped) noexcept;
  [[nodiscard]] std::optional<TappedPacket> poll_tapped();
  /// Programs at a port of a channel adapter have refused packets because of their keys: counts
  /// them in its PortInfo, and sends the trap that belongs to it. Traps have a limit of their own.
  void report_bad_keys(Instant now, PortEnd port, const BadKeyReport& report);
  /// A subnet manager runs on the port, or does not any more.
  void set_is_sm(Instant now, PortEnd port, bool is_sm);

  // The user.
  /// Plugs a cable in or pulls it out; false: the port has none.
  bool set_cable(Instant now, PortEnd port, bool plugged_in);
  /// Without power a node forgets all that a subnet manager has written.
  void set_power(Instant now, std::uint32_t node, bool on);
  void set_description(Instant now, std::uint32_t node, const std::string& description);
  void set_loss(std::uint32_t per_mille) noexcept;
  /// The loss of one link, at each packet and in both directions; false: the port has none.
  bool set_link_loss(PortEnd port, std::uint32_t per_mille) noexcept;
  /// The faults of the link of a port, instead of those that it had; out and in are as the port
  /// sees them. Rules without a seed get one from the fabric's. False: the port has no link. There
  /// must be no objection_to() the rules.
  bool set_link_faults(PortEnd port, const link::FaultRules& rules);
  /// What the faults of its link have done to packets that leave a port.
  [[nodiscard]] LinkFaultCounts link_fault_counts(PortEnd port) const noexcept;
  /// Counts an error of a link at the port, and sends the trap that belongs to it.
  void report_link_error(Instant now, PortEnd port, LinkError error);

  /// Carries out a request of subnet management at a port, as if it had arrived there, and returns
  /// the answer; empty: its M_Key is wrong. So a fabric in virtual time is set up without a subnet
  /// manager on one of its nodes.
  std::optional<wire::Smp> administer(Instant now, PortEnd at, const wire::Smp& request);

  // What is there.
  [[nodiscard]] PortStatus port_status(PortEnd port) const;
  /// A port whose status has changed since it was polled last.
  [[nodiscard]] std::optional<PortEnd> poll_change();
  [[nodiscard]] std::optional<PortEnd> peer_of(PortEnd port) const noexcept;
  [[nodiscard]] bool has_cable(PortEnd port) const noexcept;
  [[nodiscard]] bool has_power(std::uint32_t node) const noexcept;
  [[nodiscard]] PortCensus census() const noexcept;
  /// The port through which a switch sends packets to a LID; empty: it discards them.
  [[nodiscard]] std::optional<std::uint8_t> route_of(std::uint32_t node,
                                                     wire::Lid lid) const noexcept;
  [[nodiscard]] std::string description(std::uint32_t node) const;
  /// What the port has counted in all, whatever management has reset.
  [[nodiscard]] std::uint64_t counter(PortEnd port, wire::PortCounter counter) const noexcept;
  [[nodiscard]] std::uint64_t drop_count(DropReason reason) const noexcept;
  [[nodiscard]] LaneState lane_state(PortEnd port, wire::VirtualLane lane) const noexcept;
  /// The output lanes in which packets wait. Looks at every port.
  [[nodiscard]] std::vector<LaneWait> waiting_lanes() const;
  /// The last ones, oldest first.
  [[nodiscard]] std::vector<DropRecord> recent_drops() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace verbatim::fabric

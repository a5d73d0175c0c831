// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/octet_budget.h"
#include "base/prng.h"
#include "base/time.h"
#include "fabric/alarm_heap.h"
#include "fabric/data/data_flight.h"
#include "fabric/data/data_packet.h"
#include "fabric/data/journeys.h"
#include "fabric/drop_book.h"
#include "fabric/fabric.h"
#include "fabric/faults/crossing.h"
#include "fabric/faults/late_flights.h"
#include "fabric/faults/link_faults.h"
#include "fabric/flight.h"
#include "fabric/lanes/lane_wait.h"
#include "fabric/lanes/link_layer.h"
#include "fabric/lanes/pacer.h"
#include "fabric/mads/mad_port.h"
#include "fabric/management_packet.h"
#include "fabric/node/directed_route.h"
#include "fabric/node/node.h"
#include "fabric/node/subnet_agent.h"
#include "fabric/packet_header.h"
#include "fabric/ring_queue.h"
#include "fabric/taps/tapped_packet.h"

namespace verbatim::fabric {

/// The parts of a Fabric. Its functions stand in one file per thing that happens: machine.cc makes
/// it and keeps the time, machine_transit.cc moves management datagrams, machine_delivery.cc hands
/// them to agents, data/machine_data.cc moves packets of programs, machine_ports.cc has the rules
/// of ports for packets of all kinds, lanes/machine_lanes.cc lets packets wait for their links,
/// lanes/machine_lifetimes.cc discards those that have waited too long, machine_links.cc brings
/// links up and down, taps/machine_taps.cc notes what passes tapped ports, and
/// faults/machine_faults.cc has what links do to packets on purpose.
class Fabric::Machine {
 public:
  Machine(Topology topology, const FabricOptions& options);

  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  [[nodiscard]] const DropBook& drops() const noexcept { return drops_; }

  void advance(Instant now);
  [[nodiscard]] std::optional<Instant> next_due() const noexcept;

  /// The MAD port of a port that programs can use.
  [[nodiscard]] MadPort& mad_port(PortEnd port) noexcept { return mad_ports_[mad_index(port)]; }
  /// Whether the directed route of a datagram, if it has one, can begin at the port. Linux refuses
  /// others.
  [[nodiscard]] bool can_begin(PortEnd from, const UserMad& mad) const;
  /// Takes the packets that a MAD port wants to send, and notes its next timeout. To be called
  /// after each call of the port.
  void take_outgoing(Instant now, PortEnd port);
  [[nodiscard]] std::optional<PortDelivery> poll_delivery();

  void post_data(Instant now, PortEnd from, const DataPacket& packet);
  [[nodiscard]] std::optional<DataOutcome> poll_data();
  void take_arrival(Instant now, const DataOutcome& arrival);
  void withdraw(Instant now, PortEnd from, std::uint32_t first_handle, std::uint32_t last_handle);
  void report_discard(Instant now, PortEnd at, DropReason reason, const DataPacket& packet) {
    drop(now, at, reason, packet.header());
  }
  void await_room(PortEnd from, std::uint32_t packets);
  [[nodiscard]] std::optional<PortEnd> poll_room();
  [[nodiscard]] LaneState lane_state(PortEnd end, wire::VirtualLane lane) const noexcept;
  [[nodiscard]] std::vector<LaneWait> waiting_lanes() const;

  std::optional<wire::Smp> administer(Instant now, PortEnd at, const wire::Smp& request);
  void set_tap(PortEnd end, bool is_tapped) noexcept {
    jack(end).is_tapped = is_tapped;
    refresh_digest(end);
  }
  [[nodiscard]] std::optional<TappedPacket> poll_tapped();
  void report_bad_keys(Instant now, PortEnd end, const BadKeyReport& report);

  void set_is_sm(Instant now, PortEnd end, bool is_sm);
  void set_description(Instant now, std::uint32_t node, const std::string& description);
  void report_link_error(Instant now, PortEnd end, LinkError error);
  void set_loss(std::uint32_t per_mille) noexcept { options_.loss_per_mille = per_mille; }
  bool set_link_loss(PortEnd end, std::uint32_t per_mille) noexcept;
  bool set_link_faults(PortEnd end, const link::FaultRules& rules);
  [[nodiscard]] LinkFaultCounts link_fault_counts(PortEnd end) const noexcept;
  bool set_cable(Instant now, PortEnd end, bool plugged_in);
  void set_power(Instant now, std::uint32_t node, bool on);

  [[nodiscard]] PortStatus port_status(PortEnd end) const;
  [[nodiscard]] std::optional<PortEnd> poll_change();
  [[nodiscard]] std::optional<PortEnd> peer_of(PortEnd end) const noexcept;
  [[nodiscard]] bool has_cable(PortEnd end) const noexcept { return jack(end).is_plugged_in; }
  [[nodiscard]] bool has_power(std::uint32_t node) const noexcept {
    return places_[node].has_power;
  }
  [[nodiscard]] PortCensus census() const noexcept;
  [[nodiscard]] const Node& node(std::uint32_t index) const noexcept { return places_[index].node; }
  /// Counts the time that packets have waited until now at the ports of a node.
  void settle_waits(std::uint32_t node) noexcept;

 private:
  static constexpr std::uint8_t kNoLaneFor = 0xff;
  static constexpr std::uint32_t kNoDatagram = ~std::uint32_t{0};
  static constexpr std::uint32_t kNoRoomWanted = ~std::uint32_t{0};
  /// More links than any route of a subnet has. In hardware SwitchLifeTime ends such a packet.
  static constexpr std::uint8_t kHopsMax = 64;

  /// A node, and where its ports stand in the tables of all ports.
  struct Place {
    Node node;
    std::size_t first_jack = 0;      // of port 0, in jacks_
    std::size_t first_mad_port = 0;  // in mad_ports_
    bool has_power = true;
  };
  /// What a port is connected with.
  struct Jack {
    PortEnd peer{};
    std::optional<LinkRate> rate{};  // of its link; empty: the topology has none
    bool is_plugged_in = false;      // the same at both ends
    bool is_change_listed = false;
    bool is_tapped = false;
    std::uint32_t loss_per_mille = 0;      // the same at both ends
    std::shared_ptr<LinkFaults> faults{};  // of what leaves through the port; null: none
  };
  /// A packet in a node, and the links that it has passed.
  struct Transit {
    ManagementPacket& packet;
    std::uint8_t hops = 0;
    std::uint8_t ingress = 0;  // the port it has come through; 0: it begins here
    Hold* hold = nullptr;      // in the receive buffer there; who lets the packet wait takes it
  };
  /// A copy of a packet of a program in a node.
  struct DataTransit {
    JourneyId journey{};
    std::uint8_t hops = 0;
    std::uint8_t ingress = 0;
    Hold hold{};                // as it came; a waiting copy has it afterwards
    bool shares_hold = false;   // with other copies of the packet
    bool is_hold_kept = false;  // by a waiting copy, or by the owner of the fabric
  };
  /// A datagram that waits in a lane.
  struct WaitingDatagram {
    ManagementPacket packet{};
    std::uint32_t next = 0;  // of those that are free
  };
  /// What a packet of a program meets at a port, as it usually is: looked at for each packet, so
  /// that nothing else need be.
  struct PortDigest {
    Port* port = nullptr;
    std::uint32_t node = 0;
    std::uint16_t words_max = 0;  // that the MTU of the link allows
    std::uint8_t number = 0;
    bool is_switch = false;
    bool sends = false;  // no other rule keeps a packet in, the link is intact, and no tap
    bool takes = false;  // no rule keeps one out, none comes damaged, and no tap
  };
  /// A lane that has discarded too many packets, and discards all until then.
  struct Stall {
    Instant until{};
    LinkIndex at = kNoLink;
    std::uint8_t lane = 0;
  };
  /// How long packets may wait.
  struct Lifetimes {
    Duration queue{};          // as the first of a lane
    Duration in_switch{};      // in all
    std::uint8_t stall_count;  // of packets that were discarded so one after the other; 0: any
  };

  [[nodiscard]] Port& port(PortEnd end) noexcept { return places_[end.node].node.port(end.port); }
  [[nodiscard]] const Port& port(PortEnd end) const noexcept {
    return places_[end.node].node.port(end.port);
  }
  [[nodiscard]] Jack& jack(PortEnd end) noexcept {
    return jacks_[places_[end.node].first_jack + end.port];
  }
  [[nodiscard]] const Jack& jack(PortEnd end) const noexcept {
    return jacks_[places_[end.node].first_jack + end.port];
  }
  /// The port of the same node that has the agents.
  [[nodiscard]] PortEnd management_end(PortEnd end) const noexcept {
    return {.node = end.node, .port = places_[end.node].node.management_port(end.port)};
  }
  [[nodiscard]] LinkIndex link_of(PortEnd end) const noexcept {
    return static_cast<LinkIndex>(places_[end.node].first_jack + end.port);
  }
  /// Another port of the same node.
  [[nodiscard]] LinkIndex link_beside(LinkIndex at, std::uint8_t number) const noexcept {
    return at - digests_[at].number + number;
  }
  [[nodiscard]] std::size_t mad_index(PortEnd end) const noexcept {
    const Place& place = places_[end.node];
    return place.first_mad_port + (place.node.is_switch() ? 0U : end.port - 1U);
  }

  // machine.cc
  void add_jacks();
  void add_node(const TopologyNode& node, std::size_t first_jack);
  [[nodiscard]] Node make_node(const TopologyNode& node, std::size_t first_jack) const;
  [[nodiscard]] std::vector<LinkRate> rates_of(std::size_t first_jack,
                                               std::uint8_t port_count) const;
  /// When the next event of each kind is due.
  struct PacketEvents {
    Instant datagram{};
    Instant data{};
    Instant late{};
    Instant link{};
    Instant paced{};
  };
  void handle_packet_event(Instant due, const PacketEvents& events);
  void handle_alarm(Instant now, std::uint32_t owner);
  void list_change(PortEnd end);
  void identify(PortEnd end);
  void drop(Instant now, PortEnd at, DropReason reason, const ManagementPacket& packet);
  void drop(Instant now, PortEnd at, DropReason reason, const PacketHeader& packet);

  // machine_transit.cc
  void originate(Instant now, PortEnd from, Transit transit);
  void arrive(Instant now, const Flight& flight);
  void follow(Instant now, PortEnd at, const DirectedHop& hop, Transit transit);
  void arrive_directed(Instant now, PortEnd at, Transit transit);
  void arrive_by_lid(Instant now, PortEnd at, Transit transit);
  void relay(Instant now, PortEnd ingress, Transit transit);
  void transmit(Instant now, PortEnd out, Transit transit);
  void loop_back(Instant now, PortEnd at, const ManagementPacket& packet);
  void fly(Instant now, const Flight& flight, Duration delay);

  // machine_ports.cc: what all packets are under. A reason that is returned has been counted by the
  // port; empty: the packet goes on.
  [[nodiscard]] std::optional<DropReason> refuse_to_send(Instant now, PortEnd out,
                                                         const PacketHeader& packet,
                                                         std::uint8_t hops);
  /// A packet on its way over the link of a port.
  struct OnLink {
    const PacketHeader& packet;
    std::uint8_t lane = 0;
    bool is_damaged = false;
  };
  [[nodiscard]] Expected<Crossing, DropReason> leave(Instant now, LinkIndex at,
                                                     const OnLink& on_link, std::uint8_t hops);
  [[nodiscard]] std::optional<DropReason> enter(Instant now, PortEnd at, const OnLink& on_link);
  /// kNoLaneFor if there is none.
  [[nodiscard]] std::uint8_t lane_for(std::uint8_t ingress, LinkIndex at,
                                      const PacketHeader& packet);
  [[nodiscard]] Expected<std::uint8_t, DropReason> way_out(PortEnd ingress, wire::Lid destination);
  [[nodiscard]] Expected<PortSet, DropReason> ways_out(PortEnd ingress, wire::Lid group);
  [[nodiscard]] bool keeps_out(Instant now, PortEnd end, const PacketHeader& packet,
                               wire::PortCounter errors);
  [[nodiscard]] bool is_lost(PortEnd out, const PacketHeader& packet, std::uint8_t hops);
  void count_lost(PortEnd out, const PacketHeader& packet);

  // taps/machine_taps.cc
  void tap(Instant now, PortEnd end, TappedPacket::Direction direction, const OnLink& on_link);

  // faults/machine_faults.cc
  [[nodiscard]] Expected<Crossing, DropReason> cross_faulty(Instant now, PortEnd out,
                                                            const PacketHeader& packet);
  [[nodiscard]] DropReason take_damaged(Instant now, PortEnd at, const OnLink& packet);
  void arrive_late(Instant now);

  // machine_delivery.cc
  void deliver(Instant now, PortEnd at, ManagementPacket& packet);
  void deliver_subnet(Instant now, PortEnd at, ManagementPacket& packet);
  void deliver_general(Instant now, PortEnd at, ManagementPacket& packet);
  [[nodiscard]] bool has_right_keys(Instant now, PortEnd at, const ManagementPacket& packet);
  void count_bad_keys(Instant now, PortEnd end, const BadKeyReport& report);
  void answer_subnet(Instant now, PortEnd at, ManagementPacket& packet);
  void follow_up(Instant now, PortEnd at, const SmpOutcome& outcome);
  void hand_to_program(Instant now, PortEnd at, ManagementPacket& packet);
  void answer(Instant now, PortEnd at, ManagementPacket& packet);
  void send_traps(Instant now, std::uint32_t node);
  void arm_traps(std::uint32_t node);

  // data/machine_data.cc
  [[nodiscard]] std::optional<DropReason> refusal_of(PortEnd from,
                                                     const PacketHeader& packet) const noexcept;
  [[nodiscard]] bool is_paced(Instant now, PortEnd from, const DataPacket& packet,
                              JourneyId journey);
  void begin_data(Instant now, PortEnd from, JourneyId journey);
  void originate_data(Instant now, PortEnd from, JourneyId journey);
  void arrive_data(Instant now, const DataFlight& flight);
  void relay_data(Instant now, LinkIndex at, DataTransit& transit);
  void spread_data(Instant now, LinkIndex at, DataTransit& transit);
  void transmit_data(Instant now, LinkIndex at, DataTransit& transit);
  void send_data(Instant now, LinkIndex at, std::uint8_t lane, const DataTransit& transit);
  void note_arrival(PortEnd at, JourneyId journey, const Hold& hold);
  void end_copy(JourneyId journey);

  // lanes/machine_lanes.cc
  void connect_links();
  void refresh_lanes(Instant now, PortEnd end);
  void refresh_digest(PortEnd end) noexcept;
  void discard_unusable(Instant now, PortEnd end);
  void settle(Instant now);
  void depart(Instant now, LinkIndex at, const LinkLayer::Departure& departure);
  void wait_data(Instant now, LinkIndex at, std::uint8_t lane, DataTransit& transit);
  void await_turn(Instant now, LinkIndex at, std::uint8_t lane, const Parcel& parcel);
  void wait_datagram(Instant now, LinkIndex at, std::uint8_t lane, const Transit& transit);
  void send_datagram(Instant now, LinkIndex at, std::uint8_t lane, const ManagementPacket& packet,
                     std::uint8_t hops);
  [[nodiscard]] bool take_room(Instant now, const Flight& flight, Hold& hold);
  [[nodiscard]] ManagementPacket take_datagram(std::uint32_t index);
  void discard(Instant now, LinkIndex at, DropReason reason, const Parcel& parcel);
  void note_room(LinkIndex at);

  // lanes/machine_lifetimes.cc
  [[nodiscard]] Lifetimes lifetimes_of(PortEnd end) const noexcept;
  void begin_lifetime(Instant now, LinkIndex at);
  void end_lifetimes(Instant now, LinkIndex at);
  [[nodiscard]] Instant end_lifetimes_in(Instant now, LinkIndex at, std::uint8_t lane);
  void stall(Instant now, LinkIndex at, std::uint8_t lane);
  [[nodiscard]] Instant end_stalls(Instant now, LinkIndex at);
  [[nodiscard]] bool is_stalled(LinkIndex at, std::uint8_t lane) const noexcept;

  // machine_links.cc
  void obey(Instant now, std::uint32_t node, const LinkOrder& order);
  void bring_up(Instant now, PortEnd end);
  void take_down(Instant now, PortEnd end);
  [[nodiscard]] bool can_link(PortEnd end) const noexcept;
  void change_link_state(Instant now, PortEnd end, wire::PortState state);

  Topology topology_;
  FabricOptions options_;
  std::vector<Place> places_;                      // by node
  std::vector<Jack> jacks_;                        // by node and port
  OctetBudget message_octets_{kMessageOctetsMax};  // of all MAD ports
  std::deque<MadPort> mad_ports_;
  std::vector<PortEnd> mad_ends_;  // by MAD port
  RingQueue<Flight> flights_;
  Journeys journeys_;
  RingQueue<DataFlight> data_flights_;  // empty between two calls if links take no time
  RingQueue<DataOutcome> data_outcomes_;
  LinkLayer links_;
  Pacer pacer_;
  std::vector<PortEnd> ends_;        // by link
  std::vector<PortDigest> digests_;  // likewise
  std::vector<WaitingDatagram> datagrams_;
  std::uint32_t free_datagram_ = kNoDatagram;
  std::size_t datagrams_waiting_ = 0;
  AlarmHeap lifetimes_{0};                  // one per port in which packets wait
  std::vector<std::uint8_t> has_lifetime_;  // by link: it has an alarm in lifetimes_
  std::vector<std::uint8_t> life_drops_;    // by link and lane, one after the other
  std::vector<Stall> stalls_;               // of all ports
  std::vector<std::uint32_t> room_wanted_;  // by link: packets; or kNoRoomWanted
  RingQueue<PortEnd> rooms_;                // of adapters, to be polled
  RingQueue<TappedPacket> tapped_;
  LateFlights late_flights_;
  Instant time_{};                       // the last one that has passed
  AlarmHeap alarms_{0};                  // one per MAD port, then one per node for its traps
  std::vector<std::size_t> deliverers_;  // MAD ports that may have deliveries
  std::vector<bool> is_deliverer_;       // by MAD port: it is in deliverers_
  std::vector<PortEnd> changes_;         // ports to be polled
  DropBook drops_;
  Prng prng_;
};

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/adapter_role.h"
#include "base/slot_numbers.h"
#include "base/time.h"
#include "link/packet_burst.h"
#include "loop/agenda.h"
#include "loop/late_receive.h"
#include "loop/multicast_table.h"
#include "loop/network_header.h"
#include "loop/packet_counters.h"
#include "loop/queue_pair_table.h"
#include "loop/waiting_room.h"
#include "transport/queue_pair_machine.h"
#include "wire/cm/cm_ids.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"

namespace verbatim::loop {

/// How a packet has arrived at this process.
enum class ArrivedBy : std::uint8_t {
  kLink,
  kForwarding,  // through another process of this host, whose socket received it
};

/// Decides what happens to a packet that has arrived: it goes to the queue pair that it names, to
/// all members of its multicast group, to the general services interface, or to the process whose
/// queue pair it names. A packet of an unreliable service that finds no receive waits a moment for
/// one (LateReceive), and all later requests for its queue pair wait behind it: no request
/// overtakes another one. A queue pair that has got a packet is listed for a turn in the agenda.
/// Nothing is sent here.
///
/// The class reads no clock and has no socket. It is used with the adapter's lock held.
///
/// `Qp` is a queue pair: device::QueuePair, sim::EndpointQueuePair, or one of a unit test.
/// `Outside` is the device around the loop: device::Surroundings, sim::Surroundings. Dispatch needs
/// of it:
///   PacketCounters& counters()            of packets that reach no queue pair
///   bool guarded(work)                    runs work(), which reads or writes registered memory;
///                                         false: the memory is not there, and the work has ended
///   void expect_faults()                  before the first guarded() of a burst
///   void forward(slot, incoming)          sends the packet to the process in this slot
///   bool is_own_address(gid)              whether this process has the address
///   void handle_management(incoming, packet, seed, arrived_by)   a packet for queue pair 1
///   void handle_first_data(communication)                        the first packet of a new
///                                                                connection
///   void handle_key_violation(violation, arrival)   a queue pair has dropped the packet because of
///                                                   one of its keys
template <typename Qp, typename Outside>
class Dispatch {
 public:
  /// The parts outlive the dispatch.
  struct Parts {
    const QueuePairTable<Qp>& queue_pairs;
    const MulticastTable<Qp>& groups;
    Agenda<Qp>& agenda;
    Outside& outside;
  };
  explicit Dispatch(const Parts& parts) noexcept : parts_(parts) {}
  Dispatch(const Dispatch&) = delete;
  Dispatch& operator=(const Dispatch&) = delete;

  /// The slot of this process. Packets for queue pairs of other slots are forwarded.
  void open(std::uint32_t slot) noexcept { slot_ = slot; }

  /// Handles a packet, or a train of packets.
  void handle(const link::Incoming& incoming, ArrivedBy arrived_by, Instant at) noexcept
      VB_REQUIRES(adapter_role);

  /// Whether packets wait for receives.
  [[nodiscard]] bool has_waiting() const noexcept VB_REQUIRES(adapter_role) {
    return !room_.is_empty();
  }
  /// Delivers the packets whose receives have been posted, and those that have waited long enough,
  /// unless an earlier packet for the same queue pair still waits.
  void look_at_waiting(Instant at) noexcept VB_REQUIRES(adapter_role);
  /// When to call look_at_waiting() again.
  [[nodiscard]] Instant next_look() const noexcept VB_REQUIRES(adapter_role) { return next_look_; }

 private:
  // Runs consist of packets that are longer than this.
  static constexpr std::size_t kShortestMtu = 256;

  /// What the packets of a train have in common.
  struct Origin {
    const wire::IcrcSeed& seed;
    Instant at;
    ArrivedBy arrived_by;
    std::uint16_t identification;  // IPv4's, of the next packet, if the kernel numbered the train
  };
  struct Flow {
    wire::Gid source{};
    wire::Gid destination{};
    std::uint16_t source_port = 0;
    wire::LocalRoute local{};
    friend bool operator==(const Flow&, const Flow&) = default;
  };

  [[nodiscard]] const wire::IcrcSeed& seed_of(const link::Incoming& incoming) noexcept
      VB_REQUIRES(adapter_role);
  [[nodiscard]] std::size_t handle_run(const link::Incoming& incoming, std::size_t packet_octets,
                                       const Origin& origin) noexcept VB_REQUIRES(adapter_role);
  void handle_packet(const link::Incoming& incoming, const Origin& origin) noexcept
      VB_REQUIRES(adapter_role);
  /// Keeps the packet if it has to wait, or delivers it. The caller has verified the ICRC.
  void offer(Qp& qp, const link::Incoming& incoming, const wire::PacketView& packet,
             Instant at) noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] bool is_refused(Qp& qp, const transport::Arrival& arrival) const noexcept
      VB_REQUIRES(adapter_role);
  void deliver(Qp& qp, const link::Incoming& incoming, const wire::PacketView& packet,
               Instant at) noexcept VB_REQUIRES(adapter_role);
  void deliver_to_group(const link::Incoming& incoming, const wire::PacketView& packet,
                        const Origin& origin) noexcept VB_REQUIRES(adapter_role);
  /// Acknowledgements and congestion notifications are not requests: they wait for nothing.
  [[nodiscard]] static bool is_request(const wire::PacketView& packet) noexcept {
    return !packet.info().is_response && packet.opcode() != wire::Opcode::kCnp;
  }
  void count(wire::WireError error) noexcept {
    ++parts_.outside.counters().malformed[static_cast<std::size_t>(error)];
  }
  [[nodiscard]] transport::Arrival arrival_of(const link::Incoming& incoming,
                                              const wire::PacketView& packet) const noexcept {
    return {.packet = packet,
            .source = incoming.source,
            .destination = incoming.destination,
            .local = incoming.local,
            .network_header = network_header_};
  }

  Parts parts_;
  std::uint32_t slot_ = 0;
  WaitingRoom room_ VB_GUARDED_BY(adapter_role);
  Instant next_look_ VB_GUARDED_BY(adapter_role) = Instant::never();  // into the room
  std::uint64_t looks_ VB_GUARDED_BY(adapter_role) = 0;               // into the room, until now
  Flow last_flow_ VB_GUARDED_BY(adapter_role);                        // of the last packet
  wire::IcrcSeed last_seed_ VB_GUARDED_BY(adapter_role) = wire::IcrcSeed::roce_v2({}, {}, 0);
  std::array<std::byte, 40> network_header_{};
};

/// Most packets are of the same flow as the packet before, so the seed of the last flow is kept.
template <typename Qp, typename Outside>
const wire::IcrcSeed& Dispatch<Qp, Outside>::seed_of(const link::Incoming& incoming) noexcept {
  const Flow flow{incoming.source, incoming.destination, incoming.source_port, incoming.local};
  if (flow != last_flow_) {
    last_flow_ = flow;
    last_seed_ = wire::IcrcSeed::of(flow.local, flow.source, flow.destination, flow.source_port);
  }
  return last_seed_;
}

/// All packets of a train have the same headers in front of the BTH, but for the IPv4
/// identification: there the kernel has numbered them.
template <typename Qp, typename Outside>
[[gnu::flatten]] void Dispatch<Qp, Outside>::handle(const link::Incoming& incoming,
                                                    ArrivedBy arrived_by, Instant at) noexcept {
  Origin origin{.seed = seed_of(incoming), .at = at, .arrived_by = arrived_by, .identification = 0};
  link::Incoming packet = incoming;
  packet.segment_octets = 0;
  const std::size_t each =
      incoming.segment_octets != 0 ? incoming.segment_octets : incoming.octets.size();
  auto left = incoming.octets;
  do {  // an empty datagram counts as a packet as well
    packet.octets = left;
    const bool may_be_run = each > kShortestMtu && left.size() >= 2 * each;
    std::size_t taken = may_be_run ? handle_run(packet, each, origin) : 0;
    if (taken == 0) {
      packet.octets = left.first(std::min(each, left.size()));
      handle_packet(packet, origin);
      taken = 1;
    }
    origin.identification = static_cast<std::uint16_t>(origin.identification + taken);
    left = left.subspan(std::min(taken * each, left.size()));
  } while (!left.empty());
}

/// Handles the packets at the front that continue a message which a queue pair is receiving.
/// Returns how many packets that were.
template <typename Qp, typename Outside>
std::size_t Dispatch<Qp, Outside>::handle_run(const link::Incoming& incoming,
                                              std::size_t packet_octets,
                                              const Origin& origin) noexcept {
  const auto bth = wire::BthView::parse(incoming.octets);
  if (!bth || wire::transport_of(bth->opcode()) != wire::Transport::kRc) return 0;
  const wire::Operation operation = wire::operation_of(bth->opcode());
  const bool goes_on =
      operation == wire::Operation::kWriteMiddle || operation == wire::Operation::kSendMiddle;
  Qp* qp = parts_.queue_pairs.find(bth->dest_qp());
  if (!goes_on || qp == nullptr) return 0;
  if (!qp->takes_packets()) return 0;
  const transport::TrainArrival train{.octets = incoming.octets,
                                      .packet_octets = packet_octets,
                                      .identification = origin.identification,
                                      .seed = &origin.seed,
                                      .source = incoming.source,
                                      .destination = incoming.destination};
  std::size_t taken = 0;
  const auto held = qp->hold();
  if (!parts_.outside.guarded([&] { taken = qp->machine().handle_train(train); })) {
    ++parts_.outside.counters().memory_faults;
    qp->machine().handle_memory_fault();
    taken = 0;
  }
  parts_.agenda.list(*qp);
  return taken;
}

template <typename Qp, typename Outside>
void Dispatch<Qp, Outside>::handle_packet(const link::Incoming& incoming,
                                          const Origin& origin) noexcept {
  auto packet = wire::PacketView::parse(incoming.octets);
  if (!packet) return count(packet.error());
  const wire::QpNumber number = packet->bth().dest_qp();
  if (number == wire::QpNumber::kGsi) {
    return parts_.outside.handle_management(incoming, *packet, origin.seed, origin.arrived_by);
  }
  if (number == wire::QpNumber::kMulticast) return deliver_to_group(incoming, *packet, origin);
  const std::uint32_t slot = static_cast<std::uint32_t>(number) / kNumbersPerSlot;
  if (slot != slot_ && origin.arrived_by == ArrivedBy::kLink)
    return parts_.outside.forward(slot, incoming);
  Qp* qp = parts_.queue_pairs.find(number);
  if (qp == nullptr) {
    ++parts_.outside.counters().unknown_qp;
    return;
  }
  if (!wire::verify_icrc(origin.seed, incoming.octets, origin.identification)) {
    return count(wire::WireError::kBadChecksum);
  }
  offer(*qp, incoming, *packet, origin.at);
}

template <typename Qp, typename Outside>
void Dispatch<Qp, Outside>::offer(Qp& qp, const link::Incoming& incoming,
                                  const wire::PacketView& packet, Instant at) noexcept {
  const transport::Arrival arrival = arrival_of(incoming, packet);
  if (is_refused(qp, arrival)) {
    ++parts_.outside.counters().unexpected;
    return;
  }
  WaitingPackets& waiting = qp.waiting_packets();
  const bool is_behind_others =
      waiting.count > 0 && is_request(packet) && qp.machine().is_addressed_by(arrival);
  if (is_behind_others || qp.lets_wait(arrival, at)) [[unlikely]] {
    if (!room_.admit(qp.number(), incoming)) return;  // no place is left: the packet is lost
    ++waiting.count;
    return;
  }
  deliver(qp, incoming, packet, at);
}

/// A request of the peer that the receiving half does not take in packets. The queue pair itself
/// counts and drops a packet that does not come from its peer.
template <typename Qp, typename Outside>
bool Dispatch<Qp, Outside>::is_refused(Qp& qp, const transport::Arrival& arrival) const noexcept {
  return !arrival.packet.info().is_response && !qp.takes_packets() &&
         qp.machine().is_addressed_by(arrival);
}

template <typename Qp, typename Outside>
void Dispatch<Qp, Outside>::look_at_waiting(Instant at) noexcept {
  parts_.outside.expect_faults();
  ++looks_;
  room_.let_go([&](wire::QpNumber number, const link::Incoming& incoming) {
    assume_adapter_role();
    const auto packet = wire::PacketView::parse(incoming.octets);
    Qp* qp = packet ? parts_.queue_pairs.find(number) : nullptr;
    if (qp == nullptr) return true;
    const transport::Arrival arrival = arrival_of(incoming, *packet);
    WaitingPackets& waiting = qp->waiting_packets();
    const bool is_behind_others = waiting.stayed_in_look == looks_;
    if (is_behind_others || qp->lets_wait(arrival, at)) {
      waiting.stayed_in_look = looks_;
      return false;
    }
    --waiting.count;
    if (is_refused(*qp, arrival)) {  // the connection is another one than when the packet came
      ++parts_.outside.counters().unexpected;
    } else {
      deliver(*qp, incoming, *packet, at);
    }
    return true;
  });
  next_look_ = room_.is_empty() ? Instant::never() : at + LateReceive::kNextLook;
}

/// The caller has verified the ICRC.
template <typename Qp, typename Outside>
void Dispatch<Qp, Outside>::deliver(Qp& qp, const link::Incoming& incoming,
                                    const wire::PacketView& packet, Instant at) noexcept {
  if (qp.is_datagram()) fill_network_header(incoming, network_header_);
  const transport::Arrival arrival = arrival_of(incoming, packet);
  if (qp.awaited() != wire::CommId{} && qp.machine().is_addressed_by(arrival)) {
    parts_.outside.handle_first_data(qp.awaited());
    qp.set_awaited({});
  }
  {
    const auto held = qp.hold();
    if (packet.operation() == wire::Operation::kAcknowledge) {  // touches no registered memory
      qp.handle_packet(at, arrival);
    } else if (!parts_.outside.guarded([&] { qp.handle_packet(at, arrival); })) {
      ++parts_.outside.counters().memory_faults;
      qp.machine().handle_memory_fault();
    }
  }
  if (const auto violation = qp.machine().take_key_violation()) [[unlikely]] {
    parts_.outside.handle_key_violation(*violation, arrival);
  }
  // Its turn comes after the whole burst, so that one answer acknowledges all of the burst.
  parts_.agenda.list(qp);
}

/// Each member of the group gets a copy, except the queue pair that sent the packet. Of each member
/// the copy may wait for a receive.
template <typename Qp, typename Outside>
void Dispatch<Qp, Outside>::deliver_to_group(const link::Incoming& incoming,
                                             const wire::PacketView& packet,
                                             const Origin& origin) noexcept {
  const auto members = parts_.groups.members(incoming.destination);
  const bool is_datagram = packet.info().has(wire::OpcodeInfo::kDeth);
  if (members.empty() || !is_datagram) {
    ++parts_.outside.counters().unknown_qp;
    return;
  }
  if (!wire::verify_icrc(origin.seed, incoming.octets, origin.identification)) {
    return count(wire::WireError::kBadChecksum);
  }
  const wire::QpNumber sender = packet.deth().source_qp;
  const bool is_from_here = parts_.outside.is_own_address(incoming.source);
  for (Qp* qp : members) {
    if (!is_from_here || qp->number() != sender) offer(*qp, incoming, packet, origin.at);
  }
}

}  // namespace verbatim::loop

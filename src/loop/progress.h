// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/adapter_role.h"
#include "base/slot_numbers.h"
#include "base/time.h"
#include "link/link.h"
#include "loop/agenda.h"
#include "loop/dispatch.h"
#include "loop/packet_counters.h"
#include "transport/queue_pair_machine.h"

namespace verbatim::loop {

/// Decides which queue pair of an adapter runs when, and when packets leave. The loop has these
/// steps:
///   receive()     takes the packets that have arrived, and runs the timers that are due. Queue
///                 pairs with something to send are listed in the agenda; nothing is sent yet.
///                 A timer expires only when all that had arrived is taken: the answer that it
///                 waits for may be there, and a retry that is counted in vain may be the last.
///   serve()       gives each listed queue pair one turn, and sends what they have written.
///   serve_owed()  is serve(), if something is to be sent at all.
///   keep()        replaces serve() for a moment: answers wait for the program's next request.
/// A thread of the program takes these steps when it posts or polls; the engine takes them when no
/// thread of the program does.
///
/// The class reads no clock and has no socket. It is used with the adapter's lock held, except for
/// has_work() and has_packet_users().
///
/// `Qp` is a queue pair and `Packets` a Dispatch. `Outside` is the device around the loop. Progress
/// needs of it:
///   PacketCounters& counters();  bool guarded(work);  void expect_faults()    as for Dispatch
///   using Uncancelled                 while one exists, the thread is not cancelled
///   using Room                        how unreliable services wait for their receiver, see
///                                     Backpressure: Receiver, kUnlimited, kNextLook, charge()
///   Room::Receiver receiver_at(gid, slot);  std::size_t room_at(receiver, at)
///   std::optional<Forwarded> take_forwarded()     a packet that another process received
///   void note_deadline(Instant)       the engine must be awake by then
///   void note_kept_answers(Instant)   the engine should send them by then, if it is awake
///   void note_caller(Instant)         a thread of the program looks for packets now
///   Instant next_chore();  void do_chores(Instant)   other work that has a time
template <typename Qp, typename Packets, typename Outside>
class Progress {
 public:
  Progress(Agenda<Qp>& agenda, Packets& packets, Outside& outside) noexcept
      : agenda_(agenda), packets_(packets), outside_(outside) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The link that packets use from now on. To be called before all other functions.
  void use(link::Link& link) noexcept { link_ = &link; }
  /// In a forked child: nothing is sent or received any more.
  void abandon_in_child() noexcept VB_REQUIRES(adapter_role) { is_abandoned_ = true; }

  using Look = link::Link::Look;
  /// Returns whether anything arrived.
  bool receive(Look look, Instant at) noexcept VB_REQUIRES(adapter_role);
  /// receive() for a thread that polls. Some of its calls look at all addresses. If no queue pair
  /// uses packets, it runs only the timers and returns false.
  bool receive_for_caller(Instant at) noexcept VB_REQUIRES(adapter_role);
  /// Only the timers; if one is due, packets are taken first, from everywhere. Returns whether
  /// anything arrived.
  bool run_timers(Instant at) noexcept VB_REQUIRES(adapter_role);
  /// receive() everywhere, and serve(). Returns whether anything arrived.
  bool run(Instant at) noexcept VB_REQUIRES(adapter_role) {
    const bool has_arrived = receive(Look::kAtAllAddresses, at);
    serve(at);
    return has_arrived;
  }

  /// A queue pair that has more to send than a turn allows is listed again for the next round.
  /// Completion events, records for viewers and timers are updated after the packets have left.
  void serve(Instant at) noexcept VB_REQUIRES(adapter_role);
  /// serve(), this queue pair first.
  void serve(Qp& qp, Instant at) noexcept VB_REQUIRES(adapter_role) {
    agenda_.list_first(qp);
    serve(at);
  }
  /// The queue pair gets a turn in the next round.
  void list(Qp& qp) VB_REQUIRES(adapter_role) { agenda_.list(qp); }
  /// The queue pair is about to go.
  void forget(Qp& qp) noexcept VB_REQUIRES(adapter_role) { agenda_.remove(qp); }
  /// serve(), if anything waits to be sent. For a call that found nothing, and before the end of an
  /// object that owes answers to peers.
  void serve_owed(Instant at) noexcept VB_REQUIRES(adapter_role) {
    if (owes_answers()) serve(at);
  }
  /// For a call that gave completions to the program, which acts on them first. Answers, mostly
  /// acknowledgements, leave with the program's next request, with its next call that finds
  /// nothing, or through the engine.
  void keep(Instant at) noexcept VB_REQUIRES(adapter_role);
  /// Whether a queue pair is listed, or a packet is written and has not left.
  [[nodiscard]] bool owes_answers() const noexcept VB_REQUIRES(adapter_role) {
    return !agenda_.listed().empty() || link_->has_packets_to_send();
  }
  /// Sends the packets that the link has held back, if their time has come.
  void flush_due(Instant at) noexcept VB_REQUIRES(adapter_role) {
    if (link_->next_due() <= at) flush(at);
  }
  /// When the loop has something to do next, though no packet arrives.
  [[nodiscard]] Instant next_deadline() const noexcept VB_REQUIRES(adapter_role) {
    const Instant timer = link_->is_held() ? Instant::never() : agenda_.next_timer();
    return std::min({timer, link_->next_due(), packets_.next_look(), outside_.next_chore()});
  }

  /// The number of queue pairs that use packets has changed.
  void count_packet_users(int change) noexcept {
    packet_users_.fetch_add(static_cast<std::uint32_t>(change), std::memory_order_relaxed);
  }
  /// Whether a caller that found nothing should look for packets. Any thread, without the lock.
  [[nodiscard]] bool has_packet_users() const noexcept {
    return packet_users_.load(std::memory_order_relaxed) != 0;
  }
  /// Whether a queue pair waits for a turn, or for a receive. Any thread, without the lock.
  [[nodiscard]] bool has_work() const noexcept { return agenda_.has_any(); }

 private:
  // Packets that one queue pair sends before the next has its turn: more than a train has, so that
  // a train can continue over the end of a message. A run is not cut at this limit.
  static constexpr std::uint32_t kTurnPackets = 96;
  // A caller that polls looks at the address of the last packet; every so many calls everywhere.
  static constexpr std::uint32_t kCallsPerRound = 32;
  // How often packets are looked for before a timer expires, while each look finds some. All that
  // a socket holds is taken in fewer looks; the limit is for a flood.
  static constexpr int kLooksBeforeTimers = 64;
  // Forwarded packets that one look takes.
  static constexpr int kForwardedPerLook = 32;
  // How long answers may wait for company when the caller does not come back: longer than the
  // engine sleeps while callers poll, so that the engine need not be woken for them.
  static constexpr Duration kAnswerPatience = std::chrono::microseconds(200);

  using Room = typename Outside::Room;
  using Uncancelled = typename Outside::Uncancelled;
  /// How much an unreliable queue pair may send to one receiver before the next room_at().
  struct Allowance {
    typename Room::Receiver receiver{};
    std::size_t octets = 0;  // as Room charges
  };

  bool take_packets(Look look, Instant at) noexcept VB_REQUIRES(adapter_role);
  bool take_all_packets(Instant at) noexcept VB_REQUIRES(adapter_role);
  bool take_forwarded(Instant at) noexcept VB_REQUIRES(adapter_role);
  void transmit(Qp& qp, Instant at) noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] bool may_send_next(Qp& qp, Allowance& allowance, Instant at) noexcept
      VB_REQUIRES(adapter_role);
  void conclude(Qp& qp) noexcept VB_REQUIRES(adapter_role);
  void flush(Instant at) noexcept VB_REQUIRES(adapter_role);

  Agenda<Qp>& agenda_;
  Packets& packets_;
  Outside& outside_;
  link::Link* link_ = nullptr;
  std::atomic<std::uint32_t> packet_users_{0};
  std::uint32_t calls_ VB_GUARDED_BY(adapter_role) =
      0;  // of receive_for_caller() that looked for packets
  Instant kept_since_ VB_GUARDED_BY(adapter_role) =
      Instant::never();  // when the oldest answers began to wait
  bool is_abandoned_ VB_GUARDED_BY(adapter_role) = false;
};

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::receive(Look look, Instant at) noexcept {
  const bool has_arrived = take_packets(look, at);
  return run_timers(at) || has_arrived;
}

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::take_packets(Look look, Instant at) noexcept {
  if (is_abandoned_) return false;
  const bool everywhere = look == Look::kAtAllAddresses;
  const auto burst = link_->receive(at, look);
  if (burst.empty() && !everywhere && !packets_.has_waiting()) [[likely]]
    return false;
  [[maybe_unused]] const Uncancelled uncancelled;  // not earlier: most looks find nothing
  if (!burst.empty()) outside_.expect_faults();
  for (const link::Incoming& incoming : burst) packets_.handle(incoming, ArrivedBy::kLink, at);
  const bool has_forwarded = everywhere && take_forwarded(at);
  if (packets_.has_waiting()) {
    packets_.look_at_waiting(at);
    outside_.note_deadline(packets_.next_look());
  }
  return !burst.empty() || has_forwarded;
}

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::take_all_packets(Instant at) noexcept {
  int looks = 0;
  while (looks < kLooksBeforeTimers && take_packets(Look::kAtAllAddresses, at)) ++looks;
  return looks > 0;
}

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::receive_for_caller(Instant at) noexcept {
  // A queue pair that waits for a receive of its peer looks for it without waiting for the bell.
  agenda_.look_at_waiting([](Qp& qp) {
    assume_adapter_role();
    const auto held = qp.hold();
    return qp.waits_for_receive() && !qp.finds_receive();
  });
  if (!has_packet_users()) return run_timers(at);
  outside_.note_caller(at);
  return receive(calls_++ % kCallsPerRound == 0 ? Look::kAtAllAddresses : Look::kAtTheLastAddress,
                 at);
}

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::take_forwarded(Instant at) noexcept {
  int count = 0;
  for (; count < kForwardedPerLook; ++count) {
    const auto forwarded = outside_.take_forwarded();
    if (!forwarded) break;
    if (count == 0) outside_.expect_faults();
    if (!link_->admit_forwarded(at, forwarded->incoming, forwarded->octets)) continue;
    packets_.handle(forwarded->incoming, ArrivedBy::kForwarding, at);
  }
  return count > 0;
}

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::run_timers(Instant at) noexcept {
  const bool has_chores = at >= outside_.next_chore();
  const bool has_due = at >= agenda_.next_timer() && !link_->is_held();
  if (!has_due && !has_chores) [[likely]]
    return false;
  [[maybe_unused]] const Uncancelled uncancelled;
  if (has_chores) [[unlikely]]
    outside_.do_chores(at);
  const bool has_arrived = has_due && take_all_packets(at);
  // What waits for a timer could not leave now, and some timers stay due until it does.
  while (has_due && !link_->is_held()) {
    Qp* const qp = agenda_.take_due(at);
    if (qp == nullptr) break;
    const auto held = qp->hold();
    if (qp->machine().next_timeout() <= at) qp->machine().handle_timeout(at);
    transmit(*qp, at);
    conclude(*qp);
  }
  return has_arrived;
}

template <typename Qp, typename Packets, typename Outside>
[[gnu::flatten]] void Progress<Qp, Packets, Outside>::serve(Instant at) noexcept {
  [[maybe_unused]] const Uncancelled uncancelled;
  kept_since_ = Instant::never();
  const auto round = agenda_.begin_round();
  for (Qp* qp : round) {
    const auto held = qp->hold();
    transmit(*qp, at);
  }
  flush(at);
  for (Qp* qp : round) {
    const auto held = qp->hold();
    conclude(*qp);
  }
  agenda_.end_round();
  if (!agenda_.listed().empty()) {
    outside_.note_deadline(link_->is_held() ? link_->next_due() : at);
  }
}

template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::keep(Instant at) noexcept {
  if (!owes_answers()) return;
  // If every call finds something, no other call would send the answers.
  if (at - kept_since_ > kAnswerPatience) return serve(at);
  kept_since_ = std::min(kept_since_, at);
  for (Qp* qp : agenda_.listed()) {
    if (!qp->is_waited_for()) continue;
    const auto held = qp->hold();
    qp->announce();
  }
  outside_.note_kept_answers(at + kAnswerPatience);
}

/// Writes the packets of a queue pair into frames of the link, as many as one turn allows.
template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::transmit(Qp& qp, Instant at) noexcept {
  if (is_abandoned_) return;
  if (!qp.run_directly()) agenda_.list(qp);
  Allowance allowance;
  for (std::uint32_t packets = 0; packets < kTurnPackets && !link_->is_held();) {
    if (!qp.machine().is_reliable() && !may_send_next(qp, allowance, at)) return;
    const auto frame = link_->next_frame();
    const transport::TrainRoom room{.frame = frame.octets,
                                    .identification = frame.identification,
                                    .packet_octets = frame.packet_octets,
                                    .packets_left = frame.packets_left,
                                    .packets_max = frame.packets_max,
                                    .octets_max = frame.octets_max};
    transport::QueuePairMachine::Transmit sent;
    if (qp.machine().only_acknowledges()) {  // touches no registered memory
      sent = qp.machine().poll_train(at, room);
    } else if (!outside_.guarded([&] { sent = qp.machine().poll_train(at, room); })) {
      ++outside_.counters().memory_faults;
      qp.machine().handle_memory_fault();
      ++packets;
      continue;
    }
    if (sent.octets == 0) return;
    packets += sent.packets;
    allowance.octets -=
        std::min(allowance.octets, Room::charge({.packets = sent.packets, .octets = sent.octets}));
    link_->commit(
        at,
        {.source = sent.path->source,
         .destination = sent.path->destination,
         .source_port = sent.path->source_port,
         .traffic_class = sent.path->traffic_class,
         .hop_limit = sent.path->hop_limit,
         .local = sent.path->local,
         .flow_label = sent.path->flow_label},
        {.octets = sent.octets, .packets = sent.packets, .identification = sent.identification});
    if (!qp.machine().may_have_more()) return;
  }
  agenda_.list(qp);  // it has more to send, after the turns of the others
}

/// An unreliable queue pair waits while its receiver, if that is a process of this host, has no
/// room: a loss there would be reported to no program. Its timer makes it try again. Other queue
/// pairs are not delayed.
template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::may_send_next(Qp& qp, Allowance& allowance,
                                                   Instant at) noexcept {
  const auto next = qp.machine().next_unreliable_destination(at);
  if (!next || next->number == wire::QpNumber::kMulticast) return true;
  const auto receiver = outside_.receiver_at(
      next->path->destination, static_cast<std::uint32_t>(next->number) / kNumbersPerSlot);
  if (receiver == allowance.receiver && allowance.octets > 0) return true;
  allowance.receiver = receiver;
  allowance.octets = outside_.room_at(receiver, at);
  // Packets in the burst are not yet in the receiver's buffer.
  const std::size_t on_the_way = Room::charge(link_->load_to_send());
  if (allowance.octets <= on_the_way && on_the_way > 0) {
    link_->flush(at);
    allowance.octets = outside_.room_at(receiver, at);
  } else if (allowance.octets != Room::kUnlimited) {
    allowance.octets -= on_the_way;
  }
  if (allowance.octets > 0) return true;
  qp.machine().hold_until(at + Room::kNextLook);
  return false;
}

/// To be called after transmit(): tells the program and viewers what has changed, and sets the
/// timer.
template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::conclude(Qp& qp) noexcept {
  if (qp.waits_for_receive()) agenda_.note_waiting(qp);
  qp.announce();
  qp.show();
  const Instant timeout = qp.next_timeout();
  if (agenda_.set_timer(qp, timeout)) outside_.note_deadline(timeout);
}

/// The engine must be awake when the link has something to do later.
template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::flush(Instant at) noexcept {
  link_->flush(at);
  if (const Instant due = link_->next_due(); due != Instant::never()) outside_.note_deadline(due);
}

}  // namespace verbatim::loop

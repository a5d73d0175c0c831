// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/time.h"
#include "base/uncancelled.h"
#include "device/adapter_record.h"
#include "device/agenda.h"
#include "device/dispatch.h"
#include "device/fault_guard.h"
#include "host/slot.h"
#include "link/link.h"
#include "transport/queue_pair_machine.h"

namespace verbatim::device {

/// Which queue pair of an adapter runs when, and what leaves when. One loop, in four steps:
///   receive()   takes the packets that have arrived, and runs the timers that are due. Queue pairs
///               with something to send are listed in the agenda; nothing is sent yet.
///   serve()     gives each listed queue pair one turn, and sends what they have written.
///   serve_owed() the same, if something is to be sent at all.
///   keep()      instead of serve(): answers wait for the next request of the program, a little.
/// A program's thread takes these steps when it posts or polls; the engine takes them when no
/// thread of the program does.
///
/// The class reads no clock and has no socket. `Packets` is a Dispatch. `Outside` is the device
/// around it:
///   AdapterCounters& counters()
///   using Room                        how unreliable services wait for their receiver, see
///                                     Backpressure: Receiver, kUnlimited, kNextLook, charge()
///   Room::Receiver receiver_at(gid, slot);  std::size_t room_at(receiver, at)
///   std::optional<Forwarded> take_forwarded()     a packet that another process has got for us
///   void note_deadline(Instant)       the engine is to be awake by then
///   void note_caller(Instant)         a thread of the program looks for packets now
///   Instant next_chore();  void do_chores(Instant)   what else has a time
///
/// With the adapter's lock held, but for has_work() and has_packet_users().
template <typename Qp, typename Packets, typename Outside>
class Progress {
 public:
  Progress(Agenda<Qp>& agenda, Packets& packets, Outside& outside) noexcept
      : agenda_(agenda), packets_(packets), outside_(outside) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What packets go through from now on. Before anything else here.
  void use(link::Link& link) noexcept { link_ = &link; }
  /// In a forked child: nothing moves any more.
  void abandon_in_child() noexcept { is_abandoned_ = true; }

  enum class Look : std::uint8_t { kEverywhere, kWhereItCameFromLast };
  /// Returns whether anything arrived.
  bool receive(Look look, Instant at) noexcept;
  /// The same for a thread that polls. It looks everywhere from time to time. Where no queue pair
  /// uses packets, only the timers are run; false then.
  bool receive_for_caller(Instant at) noexcept;
  void run_timers(Instant at) noexcept;
  /// receive() everywhere, and serve(). Returns whether anything arrived.
  bool run(Instant at) noexcept {
    const bool has_arrived = receive(Look::kEverywhere, at);
    serve(at);
    return has_arrived;
  }

  /// A queue pair that has more to send than a turn allows comes again with the next round. What
  /// can wait until the packets have left does: completion events, records for viewers, timers.
  void serve(Instant at) noexcept;
  /// The same, this one first.
  void serve(Qp& qp, Instant at) noexcept {
    agenda_.list_first(qp);
    serve(at);
  }
  /// The queue pair gets a turn in the next round.
  void list(Qp& qp) { agenda_.list(qp); }
  /// The queue pair is about to go.
  void forget(Qp& qp) noexcept { agenda_.remove(qp); }
  /// After a call that found nothing, and before anything ends that peers wait for an answer of.
  void serve_owed(Instant at) noexcept {
    if (owes_answers()) serve(at);
  }
  /// A program that has got something acts on it first; answers, acknowledgements above all, leave
  /// with its next request, with the next call that finds nothing, or by the engine.
  void keep(Instant at) noexcept;
  /// Whether something waits to be sent.
  [[nodiscard]] bool owes_answers() const noexcept {
    return !agenda_.listed().empty() || link_->has_packets_to_send();
  }
  /// Sends what the link has held back until now, if its time has come.
  void flush_due(Instant at) noexcept {
    if (link_->next_due() <= at) flush(at);
  }
  /// When the engine must be awake for all of this.
  [[nodiscard]] Instant next_deadline() const noexcept {
    return std::min(
        {agenda_.next_timer(), link_->next_due(), packets_.next_look(), outside_.next_chore()});
  }

  /// A queue pair uses packets, or no longer.
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
  // one goes on over the end of a message; and it is not cut for that.
  static constexpr std::uint32_t kTurnPackets = 96;
  // A caller that polls looks where packets came from last; every so many calls everywhere.
  static constexpr std::uint32_t kCallsPerRound = 32;
  // Packets of other processes that one look takes.
  static constexpr int kForwardedPerLook = 32;
  // How long answers may wait for company when the caller does not come back: longer than the
  // engine's naps while callers are there, so that it need not be woken up for them.
  static constexpr Duration kAnswerPatience = std::chrono::microseconds(200);

  using Room = typename Outside::Room;
  /// What an unreliable queue pair may send to one receiver before the next look at it.
  struct Allowance {
    typename Room::Receiver receiver{};
    std::size_t octets = 0;  // as Room charges
  };

  void take_forwarded(Instant at) noexcept;
  void transmit(Qp& qp, Instant at) noexcept;
  [[nodiscard]] bool may_send_next(Qp& qp, Allowance& allowance, Instant at) noexcept;
  void conclude(Qp& qp) noexcept;
  void flush(Instant at) noexcept;

  Agenda<Qp>& agenda_;
  Packets& packets_;
  Outside& outside_;
  link::Link* link_ = nullptr;
  std::atomic<std::uint32_t> packet_users_{0};
  std::uint32_t calls_ = 0;                // that looked for packets
  Instant kept_since_ = Instant::never();  // the oldest answers that wait
  bool is_abandoned_ = false;
};

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::receive(Look look, Instant at) noexcept {
  if (is_abandoned_) return false;
  const bool everywhere = look == Look::kEverywhere;
  const auto burst = link_->receive(
      at, everywhere ? link::Link::Look::kAtAllAddresses : link::Link::Look::kAtTheLastAddress);
  if (burst.empty() && !everywhere && !packets_.has_waiting()) [[likely]] {
    run_timers(at);
    return false;
  }
  const Uncancelled uncancelled;  // not before: most looks find nothing, and cost a system call
  if (!burst.empty()) let_faults_through_for_burst();
  for (const link::Incoming& incoming : burst) packets_.handle(incoming, Came::kByWire, at);
  if (everywhere) take_forwarded(at);
  if (packets_.has_waiting()) {
    packets_.look_at_waiting(at);
    outside_.note_deadline(packets_.next_look());
  }
  run_timers(at);
  return !burst.empty();
}

template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::receive_for_caller(Instant at) noexcept {
  // A caller need not wait for a bell to go on with what waits for a receive.
  agenda_.look_at_waiting([](Qp& qp) {
    const auto held = qp.hold();
    return qp.waits_for_receive() && !qp.finds_receive();
  });
  if (!has_packet_users()) {
    run_timers(at);
    return false;
  }
  outside_.note_caller(at);
  return receive(calls_++ % kCallsPerRound == 0 ? Look::kEverywhere : Look::kWhereItCameFromLast,
                 at);
}

template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::take_forwarded(Instant at) noexcept {
  for (int count = 0; count < kForwardedPerLook; ++count) {
    const auto forwarded = outside_.take_forwarded();
    if (!forwarded) return;
    if (count == 0) let_faults_through_for_burst();
    if (!link_->admit_forwarded(at, forwarded->incoming, forwarded->octets)) continue;
    packets_.handle(forwarded->incoming, Came::kForwarded, at);
  }
}

template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::run_timers(Instant at) noexcept {
  const bool has_chores = at >= outside_.next_chore();
  if (at < agenda_.next_timer() && !has_chores) [[likely]]
    return;
  const Uncancelled uncancelled;
  if (has_chores) [[unlikely]]
    outside_.do_chores(at);
  while (Qp* qp = agenda_.take_due(at)) {
    const auto held = qp->hold();
    if (qp->machine().next_timeout() <= at) qp->machine().handle_timeout(at);
    transmit(*qp, at);
    conclude(*qp);
  }
}

template <typename Qp, typename Packets, typename Outside>
[[gnu::flatten]] void Progress<Qp, Packets, Outside>::serve(Instant at) noexcept {
  const Uncancelled uncancelled;
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
  if (!agenda_.listed().empty()) outside_.note_deadline(at);
}

template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::keep(Instant at) noexcept {
  if (!owes_answers()) return;
  // Where every call finds something, none would send it.
  if (at - kept_since_ > kAnswerPatience) return serve(at);
  kept_since_ = std::min(kept_since_, at);
  for (Qp* qp : agenda_.listed()) {
    if (!qp->is_waited_for()) continue;
    const auto held = qp->hold();
    qp->announce();
  }
  outside_.note_deadline(at + kAnswerPatience);
}

/// Writes what a queue pair has to send into frames of the link, as much as one turn allows.
template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::transmit(Qp& qp, Instant at) noexcept {
  if (is_abandoned_) return;
  if (!qp.run_directly()) agenda_.list(qp);
  Allowance allowance;
  for (std::uint32_t packets = 0; packets < kTurnPackets;) {
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
    } else if (!guarded([&] { sent = qp.machine().poll_train(at, room); })) {
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
         .hop_limit = sent.path->hop_limit},
        {.octets = sent.octets, .packets = sent.packets, .identification = sent.identification});
    if (!qp.machine().may_have_more()) return;
  }
  agenda_.list(qp);  // there is more; others first
}

/// Unreliable services wait while their receiver, if it is one of this host, has no room: a loss
/// there would be reported to no program. Their timer comes back to it, and others are not delayed.
template <typename Qp, typename Packets, typename Outside>
bool Progress<Qp, Packets, Outside>::may_send_next(Qp& qp, Allowance& allowance,
                                                   Instant at) noexcept {
  const auto next = qp.machine().next_unreliable_destination(at);
  if (!next || next->number == wire::QpNumber::kMulticast) return true;
  const auto receiver = outside_.receiver_at(
      next->path->destination, static_cast<std::uint32_t>(next->number) / host::kNumbersPerSlot);
  if (receiver == allowance.receiver && allowance.octets > 0) return true;
  allowance.receiver = receiver;
  allowance.octets = outside_.room_at(receiver, at);
  // What is on its way is in no buffer yet.
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

/// After transmit().
template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::conclude(Qp& qp) noexcept {
  if (qp.waits_for_receive()) agenda_.note_waiting(qp);
  qp.announce();
  qp.show();
  const Instant timeout = qp.next_timeout();
  if (agenda_.set_timer(qp, timeout)) outside_.note_deadline(timeout);
}

/// What the link does later on its own, the engine must be awake for.
template <typename Qp, typename Packets, typename Outside>
void Progress<Qp, Packets, Outside>::flush(Instant at) noexcept {
  link_->flush(at);
  if (const Instant due = link_->next_due(); due != Instant::never()) outside_.note_deadline(due);
}

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#include "device/queue_pair.h"

#include <algorithm>

#include "base/pointer.h"
#include "device/async_event.h"
#include "device/clock.h"
#include "device/limits.h"

namespace verbatim::device {
namespace {

// The most that may be in flight: some trains of packets, which fit into a peer's socket buffer
// while its program is busy. Every fourth part of it, which is whole trains, asks for an
// acknowledgement.
constexpr std::uint32_t kWindowOctets = 480 * 1024;
constexpr std::uint32_t kWindowPackets = 512;
// Unreliable services do not learn of losses. They send a train at a time, at a rate that fills a
// socket buffer like that of this adapter in kReceiverMayPause, the time for which a receiver may
// have to wait for a CPU. Where buffers are large, the rate is one that a receiver keeps up with.
constexpr std::uint32_t kUnreliableTrainOctets = 64 * 1024;
constexpr Duration kReceiverMayPause = std::chrono::microseconds(1600);
constexpr Duration kUnreliableTrainTakes = std::chrono::microseconds(64);
}  // namespace

Expected<std::unique_ptr<QueuePair>> QueuePair::create(std::shared_ptr<Adapter> adapter,
                                                       const Setup& setup) {
  const bool receives = setup.shared == nullptr && setup.type != transport::QpType::kXrcTarget;
  if (setup.send_depth > kMaxQueueDepth || setup.send_sges > kMaxSges ||
      setup.inline_octets > kMaxInlineOctets ||
      (receives && (setup.receive_depth > kMaxQueueDepth || setup.receive_sges > kMaxSges))) {
    return Errc::kInvalidArgument;
  }
  std::unique_ptr<QueuePair> qp(new QueuePair(adapter, setup));
  if (qp == nullptr) return Errc::kNoMemory;
  Status built = Ok{};
  {
    const host::AdapterGuard lock(adapter->mutex());
    built = qp->build();
  }
  if (!built) return built.error();  // what was built is taken down by the destructor
  return qp;
}

Status QueuePair::build() {
  using transport::CompletionLane;
  if (auto added = adapter_->domains().add_user(setup_.domain); !added) return added;
  in_domain_ = true;
  transport::QueuePairMachine::Parts parts;
  parts.keys = adapter_->keys().table();

  const bool is_datagram = setup_.type == transport::QpType::kUd;
  const transport::SendQueue::Limits send_limits{.depth = setup_.send_depth,
                                                 .sge_limit = std::max(setup_.send_sges, 1U),
                                                 .inline_limit = setup_.inline_octets,
                                                 .carries_paths = is_datagram,
                                                 .carries_binds = !is_datagram};
  const std::size_t send_octets = transport::SendQueue::octets_for(send_limits);
  send_block_.reset(new (std::nothrow) std::byte[send_octets + 64]);
  if (send_block_ == nullptr) return Errc::kNoMemory;
  void* aligned = send_block_.get();
  std::size_t room = send_octets + 64;
  std::align(64, send_octets, aligned, room);
  parts.send_queue =
      transport::SendQueue(std::span(static_cast<std::byte*>(aligned), send_octets), send_limits);

  send_lane_ = adapter_->segment().take(CompletionLane::octets_for(setup_.send_depth));
  if (send_lane_.empty()) return Errc::kNoMemory;
  auto send_port = setup_.send_cq->attach(CompletionLane::create(send_lane_, setup_.send_depth));
  if (!send_port) return send_port.error();
  send_port_ = *send_port;
  parts.send_port = *send_port_;
  if (auto built = receiving_.build(parts); !built) return built;
  if (setup_.type == transport::QpType::kRc) {
    constexpr std::size_t kOctets = transport::kMaxReadAtomic * sizeof(transport::ReplayEntry);
    replay_block_.reset(new (std::nothrow) std::byte[kOctets]);  // not touched before it is used
    if (replay_block_ == nullptr) return Errc::kNoMemory;
    parts.replay = pointer_as<transport::ReplayEntry>(replay_block_.get());
  }

  auto number = adapter_->queue_pairs().add(*this);
  if (!number) return number.error();
  number_ = *number;
  numbered_ = true;
  if (is_datagram) adapter_->link().tell_headers();
  direct::QueuePairRecord& record = adapter_->layout().queue_pair(number_);
  record = {.number = number_, .incarnation = record.incarnation + 1, .type = setup_.type};
  receiving_.publish(number_);
  // An earlier queue pair with this number may have chosen packets.
  if (receiving_.exists()) visiting().choose_packets({});
  recount();
  machine_.emplace(
      transport::QueuePairMachine::Config{
          .type = setup_.type,
          .number = number_,
          .domain = setup_.domain,
          .signal_all = setup_.signal_all,
          .port_mtu = adapter_->port().active_mtu,
          .window_packets = kWindowPackets,
          .window_octets = kWindowOctets,
          .read_chunk_packets = kWindowPackets / 4,
          .read_chunk_octets = kWindowOctets / 4,
          .unreliable_rate = {.octets = kUnreliableTrainOctets,
                              .period =
                                  std::max<Duration>(kUnreliableTrainTakes,
                                                     kReceiverMayPause * kUnreliableTrainOctets /
                                                         adapter_->receive_buffer_octets())}},
      parts);
  receiving_.set_machine(*machine_);
  show();
  return Ok{};
}

QueuePair::~QueuePair() {
  const MovesAtEnd moves(adapter_->homes());
  const host::AdapterGuard lock(adapter_->mutex());
  adapter_->work().serve_owed(now());
  receiving_.end();
  if (machine_) set_data_path(DataPath::kPackets);
  if (numbered_) {
    adapter_->layout().queue_pair(number_).number = {};
    adapter_->queue_pairs().remove(number_);
    adapter_->work().forget(*this);
  }
  numbered_ = false;
  recount();
  if (send_port_) setup_.send_cq->detach(*send_port_);
  receiving_.release();
  if (in_domain_) adapter_->domains().drop_user(setup_.domain);
  if (!send_lane_.empty()) adapter_->visitors().give_back(send_lane_);
}

Status QueuePair::modify(transport::QpMask mask, const transport::QpAttributes& attributes,
                         const Adapter::Destination* to) noexcept {
  const MovesAtEnd moves(adapter_->homes());
  const NearEnd near_end = find_near_end(mask, attributes, to);
  if (near_end.is_near) share_memory();
  const bool connects = receiving_.exists() && names(mask, transport::QpMask::kState) &&
                        attributes.state == transport::QpState::kReadyToReceive;
  const bool is_direct_or_nothing = adapter_->path_policy() == DataPathPolicy::kDirect;
  if (connects && is_direct_or_nothing && !near_end.is_near) return Errc::kNotSupported;
  const host::AdapterGuard lock(adapter_->mutex());
  adapter_->work().serve_owed(now());  // the new state may not allow to send answers
  transport::Path path;
  if (names(mask, transport::QpMask::kAddress)) {
    if (to == nullptr) return Errc::kInvalidArgument;
    auto found = adapter_->path_to(*to);
    if (!found) return found.error();
    path = *found;
  }
  // From RTR on receives may be posted with the queue pair's lock alone.
  auto held = connects ? std::unique_lock(lock_) : hold();
  const bool disturbs = receiving_.exists() && receiving_.is_disturbed_by(mask, attributes);
  if (disturbs) {
    const bool ends =
        names(mask, transport::QpMask::kState) && !transport::takes_requests(attributes.state);
    bar_half(ends ? ReceivingHalf::Then::kEnds : ReceivingHalf::Then::kGoesOn);
  }
  const transport::QpState from = machine_->state();
  auto modified = machine_->modify(mask, attributes, &path);
  dest_qp_ = machine_->attributes().dest_qp;
  if (receiving_.exists() && modified) follow(from, near_end);
  if (disturbs) reopen_half();
  if (held.owns_lock()) held.unlock();
  adapter_->work().serve(*this, now());
  held = hold();
  if (modified && machine_->attributes().state == transport::QpState::kReset) {
    discard_completions();
  }
  return modified;
}

void QueuePair::use_pkeys(std::span<const wire::PKey> pkeys) noexcept {
  const std::size_t index = machine_->attributes().pkey_index;
  const auto held = hold();
  machine_->use_pkey(index < pkeys.size() ? pkeys[index] : wire::PKey{});
}

/// The queue pair starts anew: the program must not poll completions of earlier requests.
void QueuePair::discard_completions() noexcept {
  if (send_port_) setup_.send_cq->discard(*send_port_);
  receiving_.discard_completions();
}

QueuePair::Present QueuePair::query() noexcept {
  const host::AdapterGuard lock(adapter_->mutex());
  catch_up();
  const auto held = hold();
  Present present{.attributes = machine_->attributes(),
                  .is_draining = transport::is_draining(*machine_)};
  if (data_path_ == DataPath::kDirect) present.attributes.send_psn = direct_->next_psn();
  return present;
}

/// A thread that executes a request directly, in this process or in the peer, publishes the error
/// completion before a thread with the adapter's lock has changed the state. A program that has
/// polled the completion and queries the state must see the new state.
void QueuePair::catch_up() noexcept {
  {
    const auto held = hold();
    const bool sends_have_failed =
        direct_ && direct_->has_failed() && transport::is_sending(machine_->state());
    if (!sends_have_failed && !(receiving_.exists() && receiving_.has_failed())) return;
    handle_bell();
  }
  adapter_->work().serve(*this, now());
}

Status QueuePair::Posting::send(const transport::SendRequest& request) noexcept {
  sends_ = Sends::kQueued;
  return qp_.machine_->post_send(request);
}

/// `alone` may change while this waits for one of the two locks.
bool QueuePair::lock_for_any_posting(const std::atomic<bool>& alone) noexcept {
  for (;;) {
    if (alone.load(std::memory_order_relaxed)) {
      lock_.lock();
      if (alone.load(std::memory_order_relaxed)) return true;
      lock_.unlock();
    } else {
      adapter_->mutex().lock();
      if (!alone.load(std::memory_order_relaxed)) return false;
      adapter_->mutex().unlock();
    }
  }
}

std::unique_lock<host::QueueLock> QueuePair::hold() noexcept {
  std::unique_lock lock(lock_, std::defer_lock);
  if (direct_) lock.lock();  // also while the data path is undecided: a thread may decide it
  return lock;
}

void QueuePair::end_packet_posting(Sends sends) noexcept {
  const host::AdapterGuard lock(adapter_->mutex(), std::adopt_lock);
  if (sends != Sends::kNone) {
    adapter_->work().serve(*this, now());
  } else if (machine_->state() == transport::QpState::kError) {
    announce();  // a receive that was flushed at once
  }
}

/// What needs the adapter's lock. The calling thread holds no lock.
void QueuePair::finish(Rest rest) noexcept {
  const host::AdapterGuard lock(adapter_->mutex());
  const bool is_quiet = rest == Rest::kAnnounce && !send_cq_->announce();
  if (!is_quiet) adapter_->work().serve(*this, now());
}

void QueuePair::show() noexcept {
  direct::QueuePairRecord& record = adapter_->layout().queue_pair(number_);
  const transport::Path& path = machine_->path();
  record.state = machine_->state();
  record.data_path = data_path_;
  record.dest_qp = dest_qp_;
  record.local = path.source;
  record.remote = path.destination;
  const transport::Traffic in_packets = transport::traffic_of(*machine_);
  if (data_path_ != DataPath::kDirect) {
    record.traffic = in_packets;
  } else {  // the requester counts the rest in the record
    record.traffic.served_messages = in_packets.served_messages;
    record.traffic.served_octets = in_packets.served_octets;
  }
}

void QueuePair::announce() noexcept {
  while (auto event = machine_->poll_event()) {
    report(setup_.async, async_event_of(*event), setup_.user_tag);
  }
  const bool send_overrun = setup_.send_cq->announce();
  const bool receive_overrun = setup_.receive_cq != setup_.send_cq && setup_.receive_cq->announce();
  if (setup_.shared != nullptr) setup_.shared->announce();
  if (send_overrun || receive_overrun) {
    bar_half(ReceivingHalf::Then::kEnds);
    machine_->handle(transport::QueuePairMachine::OwnerEvent::kCompletionOverrun);
    reopen_half();
    while (auto event = machine_->poll_event()) {
      report(setup_.async, async_event_of(*event), setup_.user_tag);
    }
  }
}

}  // namespace verbatim::device

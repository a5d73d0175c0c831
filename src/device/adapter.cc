// SPDX-License-Identifier: Apache-2.0
#include "device/adapter.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/uncancelled.h"
#include "capture/capturing_link.h"
#include "device/adapter_registry.h"
#include "device/async_event.h"
#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/forwarded_packet.h"
#include "device/limits.h"
#include "device/port_watch.h"
#include "device/process.h"
#include "device/queue_pair.h"
#include "host/own_descriptor.h"
#include "host/peer_calls.h"
#include "link/faulty_link.h"
#include "wire/icrc.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/packet.h"
#include "wire/udp.h"

namespace verbatim::device {
namespace {

// Address space for what peers may see; pages are only there once touched.
// Less will do where the process may not have so much of it (RLIMIT_AS, RLIMIT_FSIZE).
constexpr std::size_t kSegmentOctets = std::size_t{16} << 30;
constexpr std::size_t kSegmentOctetsMin = std::size_t{64} << 20;
// Packets that one queue pair sends before the next has its turn: more than a train has, so that
// one goes on over the end of a message; and it is not cut for that.
constexpr std::uint32_t kTurnPackets = 96;
// Packets of a run are longer.
constexpr std::size_t kShortestMtu = 256;
// A caller that polls looks where packets came from last; every so many calls everywhere.
constexpr std::uint32_t kCallsPerRound = 32;
// How long answers may wait for company when the caller does not come back: longer than the
// engine's naps while callers are there, so that it need not be woken up for them.
constexpr Duration kAnswerPatience = std::chrono::microseconds(200);
constexpr std::uint64_t kPortNumber = 1;  // the verbs count from one

/// What a datagram's receive buffer gets in front of the payload: the IPv6 header, or 20 zero
/// octets and the IPv4 header (annex A17.4.5). The socket shows neither, so they are made again.
void fill_network_header(const link::Incoming& incoming, std::span<std::byte, 40> to) noexcept {
  const auto udp_octets = static_cast<std::uint16_t>(incoming.octets.size() + wire::Udp::kSize);
  if (!incoming.source.is_ipv4_mapped()) {
    wire::Ipv6 header;
    header.traffic_class = incoming.traffic_class;
    header.payload_octets = udp_octets;
    header.hop_limit = incoming.hop_limit;
    header.source = incoming.source;
    header.destination = incoming.destination;
    header.emit(to);
    return;
  }
  wire::Ipv4 header;
  header.traffic_class = incoming.traffic_class;
  header.total_octets = static_cast<std::uint16_t>(udp_octets + wire::Ipv4::kSize);
  header.time_to_live = incoming.hop_limit;
  header.source = wire::ipv4_of(incoming.source);
  header.destination = wire::ipv4_of(incoming.destination);
  std::ranges::fill(to.first<20>(), std::byte{0});
  header.emit(to.last<wire::Ipv4::kSize>());
}

}  // namespace

// ---- Opening and closing ----

Adapter::Adapter(const PortInfo& port)
    : port_(port),
      domain_entries_(kMaxDomains),
      domains_(domain_entries_),
      free_keys_(kMaxKeys),
      forwarded_(sizeof(ForwardHeader) + link::kFrameOctets) {}

Adapter::~Adapter() {
  // Not while forks wait: it may wait for the watch, which may wait for other locks.
  if (!abandoned_) PortWatch::of_process().remove(*this);
  const ForkPause pause;
  if (engine_ != nullptr) engine_->stop();  // its thread still finds all that is here
  engine_.reset();
  homes_.reset();  // other threads may look for regions in all adapters
  if (gsi_ != nullptr && !abandoned_) gsi_->leave();
  host_peers_.close();
  link_->close();
  shared_port_.leave();  // and only now the slot: whoever gets it reads its sockets
  slot_ = host::Slot{};
  forget_adapter(*this);
}

void Adapter::abandon_in_child() noexcept {
  abandoned_ = true;
  engine_->abandon_in_child();
  host_peers_.abandon_in_child();
  gsi_->abandon_in_child();
  link_->close();
  shared_port_.abandon_in_child();
  slot_ = host::Slot{};
  segment_.privatize();
  quarantine_.forget();
  strays_.clear();
  next_look_ = Instant::never();
  queue_pairs_.for_each([](QueuePair& qp) { qp.abandon_in_child(); });
  renew(port_mutex_);  // another thread may have been reading
}

void Adapter::forget_in_child() noexcept {
  abandoned_ = true;
  segment_.privatize();
  queue_pairs_.for_each([](QueuePair& qp) { qp.forget_in_child(); });
  renew(port_mutex_);
  mutex_.reset();
}

Status Adapter::open(std::string& message) {
  host::Membarrier::enlist();  // before our first thread
  install_fault_guard();
  const auto link_config = read_link_config(message);
  if (!link_config) return link_config.error();
  std::vector<link::LocalAddress> addresses;
  for (const GidEntry& entry : port_.gids) {
    addresses.push_back({.gid = entry.gid, .scope = entry.interface_index});
  }
  link::SharedPort::Options options;
  options.lends = link_config->lends_sockets;
  auto place = shared_port_.join(addresses, message, options);
  if (!place) {
    message = port_.interface + ": " + message;
    return place.error();
  }
  slot_ = std::move(place->slot);
  Status has_segment = Errc::kNoMemory;
  for (std::size_t octets = kSegmentOctets; !has_segment && octets >= kSegmentOctetsMin;) {
    has_segment = segment_.open(octets);
    octets /= 4;
  }
  if (!has_segment) {
    message = "the system gives no shared memory (memfd_create); check `ulimit -v` and `ulimit -f`";
    return has_segment;
  }
  path_policy_ = link_config->path;
  if (auto laid_out = lay_out_segment(link_config->path_cause); !laid_out) return laid_out;
  has_peer_calls_ = link_config->has_peer_calls;

  if (auto opened = udp_.open(std::move(place->receivers), slot_.number(), link_config->trains);
      !opened) {
    message = port_.interface + ": no UDP ports are left to send from; end other programs";
    return opened;
  }
  gsi_ = std::make_unique<Gsi>(*this);
  if (auto opened = gsi_->open(); !opened) return opened;
  if (auto fitted = fit_link(*link_config, message); !fitted) return fitted;
  receive_buffer_octets_ = udp_.receive_buffer_octets();
  engine_ = std::make_unique<Engine>(*this);
  if (auto started = engine_->start(); !started) return started;
  PortWatch::of_process().add(*this);
  return Ok{};
}

// ---- Changes of the port ----

void Adapter::handle_interfaces(const std::vector<Interface>& interfaces) {
  PortChange change = change_of(port(), interfaces);
  if (removed_ || !change.is_any()) return;
  take_addresses(change);
  if (!change.is_any()) return;
  const std::lock_guard lock(mutex_);
  if (!abandoned_) apply(change, interfaces);
}

/// Nothing is sent or received any more: the numbers of the sockets may be those of the program's
/// own files by now.
void Adapter::handle_loss() {
  const std::lock_guard lock(mutex_);
  if (abandoned_ || removed_) return;
  link_->close();
  apply({.is_gone = true}, {});
}

/// Sockets for the addresses that have come. Those for which there are none do not count, until the
/// next change: somebody else may have the port there.
void Adapter::take_addresses(PortChange& change) {
  std::vector<link::LocalAddress> wanted;
  {
    const std::lock_guard lock(mutex_);
    for (const wire::Gid& gid : change.gained) {
      const bool is_there = udp_.source_port(gid, 0) != 0;  // an address that comes back
      if (!is_there) wanted.push_back({.gid = gid, .scope = port_.interface_index});
    }
  }
  for (const link::LocalAddress& address : wanted) {
    const ForkPause pause;  // a child must not keep the lock that all processes open under
    std::string message;
    auto receivers = shared_port_.extend({&address, 1}, slot_.number(), message);
    const std::lock_guard lock(mutex_);
    if (receivers && !receivers->empty() && udp_.add(std::move(receivers->front()))) {
      engine_->watch_link();
      gsi_->open_at(address.gid);
    } else {
      std::erase(change.gained, address.gid);
    }
  }
}

void Adapter::apply(const PortChange& change, const std::vector<Interface>& interfaces) {
  {
    const std::lock_guard lock(port_mutex_);
    port_ = changed(port_, change, interfaces);
  }
  const auto tell = [&](AsyncEvent event) {
    for (EventPipe* events : events_) report(events, event, kPortNumber);
  };
  if (change.is_gone) {
    removed_ = true;
    tell(AsyncEvent::kDeviceFatal);
    queue_pairs_.for_each([&](QueuePair& qp) {
      {
        const auto held = qp.hold();
        qp.enter_error();
      }
      settle(qp);
    });
  }
  if (change.went_down) tell(AsyncEvent::kPortError);
  if (change.went_up) tell(AsyncEvent::kPortActive);
  if (change.has_new_gids()) tell(AsyncEvent::kGidChange);
  gsi_->handle_port_change(change);
}

Status Adapter::lay_out_segment(PathCause cause) {
  auto laid_out = layout_.lay_out(segment_, {.slot = slot_.number(),
                                             .device = port_.name,
                                             .interface = port_.interface,
                                             .addresses = port_.gids,
                                             .path = path_policy_,
                                             .path_cause = cause,
                                             .opened_at = now()});
  if (!laid_out) return laid_out;
  const auto seed = static_cast<std::uint64_t>(now().since_start().count()) ^
                    (static_cast<std::uint64_t>(::getpid()) << 32);
  registry_ = std::make_unique<memory::KeyRegistry>(layout_.keys(), free_keys_, seed);
  homes_ = std::make_unique<RegionHomes>(
      *registry_, RegionHomes::Owner{.lock = &mutex_, .adapter = this, .await_peers = [](void* us) {
                                       (void)static_cast<Adapter*>(us)->wait_for_peers();
                                     }});
  queue_pairs_.open(slot_.number(), seed);
  return Ok{};
}

Status Adapter::open_door(int epoll, int bell) noexcept {
  has_door_ = true;
  if (!goes_directly()) {
    return host_peers_.open(slot_.number(), epoll,
                            {.segment = segment_.descriptor(), .admits_peers = false});
  }
  host_peers_.set_listener([this](std::span<const std::byte> saying, int connection) {
    std::vector<std::byte> copy(saying.begin(), saying.end());
    handle_saying(copy, connection);
  });
  // Peers that attach get the arena with the rest, so it is there before anything moves.
  prepare_process_rehoming();
  return host_peers_.open(slot_.number(), epoll,
                          {.segment = segment_.descriptor(),
                           .bell = bell,
                           .arena = process_rehoming().arena().descriptor(),
                           .lends_memory = has_peer_calls_ && host::may_lend_memory()});
}

/// Capture and faults, where the environment asks for them. The capture lies between the faults and
/// the network.
Status Adapter::fit_link(const LinkConfig& config, std::string& message) {
  if (!config.capture.empty()) {
    auto capture = link::Capture::for_process(config.capture, message);
    if (!capture) return capture.error();
    const std::uint32_t interface = (*capture)->add_interface(port_.name);
    wrap_link(std::make_unique<link::CapturingLink>(*link_, **capture, interface));
  }
  if (!config.faults.rules.empty()) {
    const link::FaultInjector::OwnNumbers own{.first = slot_.number() * host::kNumbersPerSlot,
                                              .count = host::kNumbersPerSlot};
    wrap_link(std::make_unique<link::FaultyLink>(*link_, config.faults, own));
  }
  return Ok{};
}

void Adapter::wrap_link(std::unique_ptr<link::Link> wrapper) {
  link_ = wrapper.get();
  wrappers_.push_back(std::move(wrapper));
}

// ---- Numbers and paths ----

Expected<wire::QpNumber> Adapter::add(QueuePair& qp) {
  auto number = queue_pairs_.add(qp);
  if (number && qp.setup().type == transport::QpType::kUd) link_->tell_headers();
  return number;
}

void Adapter::remove(QueuePair& qp) noexcept {
  queue_pairs_.remove(qp.number());
  if (qp.timer_at() != Instant::never()) timers_.erase({qp.timer_at(), &qp});
  std::erase(ready_, &qp);
  std::erase(waiting_, &qp);
}

// ---- Multicast ----

Status Adapter::attach(QueuePair& qp, const wire::Gid& group) {
  const wire::Gid address = group_address(group);
  if (!address.is_multicast() || qp.setup().type != transport::QpType::kUd) {
    return Errc::kInvalidArgument;
  }
  if (abandoned_) return Errc::kNoDevice;
  if (multicast_.members(address).empty()) {
    if (!multicast_.has_room_for_a_group()) return Errc::kNoMemory;
    auto joined = udp_.join({.gid = address, .scope = port_.interface_index});
    if (!joined) return joined;
    engine_->watch_link();
  }
  return multicast_.add(address, qp);
}

Status Adapter::detach(QueuePair& qp, const wire::Gid& group) {
  const wire::Gid address = group_address(group);
  auto removed = multicast_.remove(address, qp);
  if (!removed || !multicast_.members(address).empty() || abandoned_) return removed;
  (void)udp_.leave({.gid = address, .scope = port_.interface_index});  // it had joined
  engine_->watch_link();
  return Ok{};
}

Expected<transport::Path> Adapter::path_to(const Destination& to) const noexcept {
  if (to.gid_index >= port_.gids.size()) return Errc::kInvalidArgument;
  if (port_.gids[to.gid_index].gid == wire::Gid{}) return Errc::kInvalidArgument;  // has gone
  transport::Path path;
  path.source = port_.gids[to.gid_index].gid;
  path.destination = group_address(to.gid);
  if (path.source.is_ipv4_mapped() != path.destination.is_ipv4_mapped()) {
    return Errc::kInvalidArgument;
  }
  if (to.gid == wire::Gid{}) return Errc::kInvalidArgument;
  path.source_port = udp_.source_port(path.source, to.entropy);
  path.traffic_class = to.traffic_class;
  path.hop_limit = to.hop_limit == 0 ? 64 : to.hop_limit;
  path.flow_label = to.flow_label;
  path.refresh_seed();
  return path;
}

// ---- Progress ----

void Adapter::transmit(QueuePair& qp, Instant at) noexcept {
  if (abandoned_) return;
  if (!qp.run_directly()) list_ready(qp);
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
    transport::QueuePair::Transmit sent;
    if (qp.machine().only_acknowledges()) {  // touches nobody's memory
      sent = qp.machine().poll_train(at, room);
    } else if (!guarded([&] { sent = qp.machine().poll_train(at, room); })) {
      ++layout_.adapter().counters.memory_faults;
      qp.machine().handle_memory_fault();
      ++packets;
      continue;
    }
    if (sent.octets == 0) return;
    packets += sent.packets;
    allowance.octets -=
        std::min(allowance.octets,
                 link::Backpressure::charge({.packets = sent.packets, .octets = sent.octets}));
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
  list_ready(qp);  // there is more; others first
}

/// Unreliable services wait while their receiver, if it is one of this host, has no room: nobody
/// would hear of what is lost there. Their timer comes back to it, and others are not delayed.
bool Adapter::may_send_next(QueuePair& qp, Allowance& allowance, Instant at) noexcept {
  const auto next = qp.machine().next_unreliable_destination(at);
  if (!next || next->number == wire::QpNumber::kMulticast) return true;
  const link::Backpressure::Receiver receiver{
      .address = {.gid = next->path->destination, .scope = port_.interface_index},
      .slot = static_cast<std::uint32_t>(next->number) / host::kNumbersPerSlot};
  if (receiver == allowance.receiver && allowance.octets > 0) return true;
  allowance.receiver = receiver;
  allowance.octets = backpressure_.room_at(receiver, at);
  // What is on its way is not in anybody's buffer yet.
  const std::size_t on_the_way = link::Backpressure::charge(link_->load_to_send());
  if (allowance.octets <= on_the_way && on_the_way > 0) {
    link_->flush(at);
    allowance.octets = backpressure_.room_at(receiver, at);
  } else if (allowance.octets != link::Backpressure::kUnlimited) {
    allowance.octets -= on_the_way;
  }
  if (allowance.octets > 0) return true;
  qp.machine().hold_until(at + link::Backpressure::kNextLook);
  return false;
}

void Adapter::list_ready(QueuePair& qp) noexcept {
  if (qp.is_ready_listed()) return;
  qp.set_ready_listed(true);
  ready_.push_back(&qp);
  has_ready_.store(true, std::memory_order_relaxed);
}

/// After anything that may have changed a queue pair.
void Adapter::settle(QueuePair& qp) noexcept {
  const auto held = qp.hold();
  transmit(qp, now());
  conclude(qp);
}

/// After transmit().
void Adapter::conclude(QueuePair& qp) noexcept {
  if (qp.waits_for_receive() && std::ranges::find(waiting_, &qp) == waiting_.end()) {
    waiting_.push_back(&qp);
    has_ready_.store(true, std::memory_order_relaxed);
  }
  qp.announce();
  qp.show();
  arm_timer(qp);
}

void Adapter::serve(QueuePair& qp) noexcept {
  if (!qp.is_ready_listed()) {
    qp.set_ready_listed(true);
    ready_.insert(ready_.begin(), &qp);  // what was asked for just now goes first
  }
  serve_ready();
}

/// Each has one more turn; who still has more comes again with the next progress. What can wait
/// until the packets are on their way does.
[[gnu::flatten]] void Adapter::serve_ready() noexcept {
  const Uncancelled uncancelled;
  kept_since_ = Instant::never();
  serving_.swap(ready_);
  const Instant at = now();
  for (QueuePair* qp : serving_) {
    qp->set_ready_listed(false);
    const auto held = qp->hold();
    transmit(*qp, at);
  }
  flush_link(at);
  for (QueuePair* qp : serving_) {
    const auto held = qp->hold();
    conclude(*qp);
  }
  serving_.clear();
  has_ready_.store(!ready_.empty() || !waiting_.empty(), std::memory_order_relaxed);
  if (!ready_.empty()) engine_->note_deadline(now());
}

/// A timer that is set stays set until it fires; only an earlier one moves it. So a connection that
/// makes progress all the time costs one look per timeout, not one per packet.
void Adapter::arm_timer(QueuePair& qp) noexcept {
  const Instant wanted = qp.next_timeout();
  if (wanted >= qp.timer_at()) return;
  if (qp.timer_at() != Instant::never()) timers_.erase({qp.timer_at(), &qp});
  qp.set_timer_at(wanted);
  timers_.insert({wanted, &qp});
  engine_->note_deadline(wanted);
}

void Adapter::run_timers(Instant at) noexcept {
  const bool is_due = !timers_.empty() && timers_.begin()->first <= at;
  if (!is_due && at < next_look_) [[likely]]
    return;
  const Uncancelled uncancelled;
  if (at >= next_look_) [[unlikely]]
    look_after_strays(at);
  while (!timers_.empty() && timers_.begin()->first <= at) {
    QueuePair& qp = *timers_.begin()->second;
    timers_.erase(timers_.begin());
    qp.set_timer_at(Instant::never());
    {
      const auto held = qp.hold();
      if (qp.machine().next_timeout() <= at) qp.machine().handle_timeout(at);
    }
    settle(qp);
  }
}

Instant Adapter::next_deadline() const noexcept {
  return std::min({timers_.empty() ? Instant::never() : timers_.begin()->first,
                   gsi_->next_deadline(), link_->next_due(), look_into_room_at_, next_look_});
}

/// Sends what is there. What the link does later on its own, the engine must be there for.
void Adapter::flush_link(Instant at) noexcept {
  link_->flush(at);
  if (const Instant due = link_->next_due(); due != Instant::never()) engine_->note_deadline(due);
}

bool Adapter::progress() noexcept {
  const bool arrived = advance(Look::kEverywhere, now());
  serve_ready();
  return arrived;
}

/// Progress without sending. Whoever has got packets is listed to be served.
bool Adapter::advance(Look look, Instant at) noexcept {
  if (abandoned_) return false;
  const bool everywhere = look == Look::kEverywhere;
  const auto burst = link_->receive(
      at, everywhere ? link::Link::Look::kAtAllAddresses : link::Link::Look::kAtTheLastAddress);
  if (burst.empty() && !everywhere && waiting_room_.is_empty()) [[likely]] {
    run_timers(at);
    return false;
  }
  const Uncancelled uncancelled;  // not before: most looks find nothing, and cost a system call
  if (!burst.empty()) let_faults_through_for_burst();
  for (const link::Incoming& incoming : burst) handle(incoming, Came::kByWire, at);
  if (everywhere) take_forwarded(at);
  if (!waiting_room_.is_empty()) look_into_waiting_room(at);
  run_timers(at);
  return !burst.empty();
}

Instant Adapter::progress_for_caller() noexcept {
  const Instant at = now();
  look_after_waiting();
  if (!has_packet_users()) {
    run_timers(at);
    return at;
  }
  engine_->note_caller(at);
  (void)advance(calls_++ % kCallsPerRound == 0 ? Look::kEverywhere : Look::kWhereItCameFromLast,
                at);
  return at;
}

void Adapter::send_what_is_owed() noexcept {
  if (owes_answers()) serve_ready();
}

void Adapter::keep_for_company(Instant at) noexcept {
  if (!owes_answers()) return;
  // Where every call finds something, none would send it.
  if (at - kept_since_ > kAnswerPatience) return serve_ready();
  kept_since_ = std::min(kept_since_, at);
  for (QueuePair* qp : ready_) {
    if (!qp->is_waited_for()) continue;
    const auto held = qp->hold();
    qp->announce();
  }
  engine_->note_deadline(at + kAnswerPatience);
}

/// Most packets come from where the last one came from.
const wire::IcrcSeed& Adapter::seed_of(const link::Incoming& incoming) noexcept {
  const Flow flow{incoming.source, incoming.destination, incoming.source_port};
  if (flow != last_flow_) {
    last_flow_ = flow;
    last_seed_ = wire::IcrcSeed::roce_v2(flow.source, flow.destination, flow.source_port);
  }
  return last_seed_;
}

/// Everything in front of the BTH is the same for all packets of a train, and the kernel has
/// numbered them.
[[gnu::flatten]] void Adapter::handle(const link::Incoming& incoming, Came came,
                                      Instant at) noexcept {
  Origin origin{.seed = seed_of(incoming), .at = at, .came = came, .identification = 0};
  link::Incoming packet = incoming;
  packet.segment_octets = 0;
  const std::size_t each =
      incoming.segment_octets != 0 ? incoming.segment_octets : incoming.octets.size();
  auto left = incoming.octets;
  do {  // an empty datagram is one packet, too
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

/// The packets at the front that go on with a message which is arriving at one of our queue pairs:
/// how many were taken.
std::size_t Adapter::handle_run(const link::Incoming& incoming, std::size_t packet_octets,
                                const Origin& origin) noexcept {
  const auto bth = wire::BthView::parse(incoming.octets);
  if (!bth || wire::transport_of(bth->opcode()) != wire::Transport::kRc) return 0;
  const wire::Operation operation = wire::operation_of(bth->opcode());
  const bool goes_on =
      operation == wire::Operation::kWriteMiddle || operation == wire::Operation::kSendMiddle;
  QueuePair* qp = queue_pairs_.find(bth->dest_qp());
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
  if (!guarded([&] { taken = qp->machine().handle_train(train); })) {
    ++layout_.adapter().counters.memory_faults;
    qp->machine().handle_memory_fault();
    taken = 0;
  }
  list_ready(*qp);
  return taken;
}

void Adapter::handle_packet(const link::Incoming& incoming, const Origin& origin) noexcept {
  const auto count = [&](wire::WireError error) {
    ++layout_.adapter().counters.malformed[static_cast<std::size_t>(error)];
  };
  auto packet = wire::PacketView::parse(incoming.octets);
  if (!packet) return count(packet.error());
  const std::uint32_t slot =
      static_cast<std::uint32_t>(packet->bth().dest_qp()) / host::kNumbersPerSlot;
  if (packet->bth().dest_qp() == wire::QpNumber::kGsi) {
    return gsi_->handle({.incoming = incoming,
                         .packet = *packet,
                         .seed = origin.seed,
                         .was_forwarded = origin.came == Came::kForwarded});
  }
  if (packet->bth().dest_qp() == wire::QpNumber::kMulticast) {
    return deliver_to_group(incoming, *packet, origin);
  }
  if (slot != slot_.number() && origin.came == Came::kByWire) {
    return forward(slot, incoming);
  }
  QueuePair* qp = queue_pairs_.find(packet->bth().dest_qp());
  if (qp == nullptr) {
    ++layout_.adapter().counters.unknown_qp;
    return;
  }
  if (!wire::verify_icrc(origin.seed, incoming.octets, origin.identification)) {
    return count(wire::WireError::kBadChecksum);
  }
  const transport::Arrival arrival = arrival_of(incoming, *packet);
  const bool is_request = !packet->info().is_response;
  // What is not for it anyway, the queue pair counts and drops.
  if (is_request && !qp->takes_packets() && qp->machine().is_addressed_by(arrival)) {
    ++layout_.adapter().counters.unexpected;
    return;
  }
  const bool is_behind_others = qp->has_guests() && qp->machine().is_addressed_by(arrival);
  if (is_behind_others || qp->lets_wait(arrival, origin.at)) [[unlikely]] {
    if (!waiting_room_.admit(incoming)) return;  // lost, for want of room
    qp->count_guests(+1);
    return;
  }
  deliver(*qp, incoming, *packet, origin.at);
}

/// Those go in whose receives have been posted, and those that need not hope for any.
void Adapter::look_into_waiting_room(Instant at) noexcept {
  let_faults_through_for_burst();
  waiting_room_.let_go([&](const link::Incoming& guest) {
    const auto packet = wire::PacketView::parse(guest.octets);
    QueuePair* qp = packet ? queue_pairs_.find(packet->bth().dest_qp()) : nullptr;
    if (qp == nullptr) return true;
    if (qp->lets_wait(arrival_of(guest, *packet), at)) return false;
    qp->count_guests(-1);
    deliver(*qp, guest, *packet, at);
    return true;
  });
  look_into_room_at_ = waiting_room_.is_empty() ? Instant::never() : at + LateReceive::kNextLook;
  engine_->note_deadline(look_into_room_at_);
}

transport::Arrival Adapter::arrival_of(const link::Incoming& incoming,
                                       const wire::PacketView& packet) const noexcept {
  return {.packet = packet,
          .source = incoming.source,
          .destination = incoming.destination,
          .network_header = network_header_};
}

/// The ICRC is right.
void Adapter::deliver(QueuePair& qp, const link::Incoming& incoming, const wire::PacketView& packet,
                      Instant at) noexcept {
  if (qp.setup().type == transport::QpType::kUd) {
    fill_network_header(incoming, network_header_);
  }
  const transport::Arrival arrival = arrival_of(incoming, packet);
  if (qp.awaited() != wire::CommId{} && qp.machine().is_addressed_by(arrival)) {
    gsi_->handle_first_data(qp.awaited());
    qp.set_awaited({});
  }
  {
    const auto held = qp.hold();
    if (packet.operation() == wire::Operation::kAcknowledge) {  // touches nobody's memory
      qp.machine().handle_packet(at, arrival);
    } else if (!guarded([&] { qp.machine().handle_packet(at, arrival); })) {
      ++layout_.adapter().counters.memory_faults;
      qp.machine().handle_memory_fault();
    }
  }
  list_ready(qp);  // served when the whole burst is in, so that one answer acknowledges all of it
}

/// Each member gets a copy, but not the one that sent it.
void Adapter::deliver_to_group(const link::Incoming& incoming, const wire::PacketView& packet,
                               const Origin& origin) noexcept {
  const auto members = multicast_.members(incoming.destination);
  const bool is_datagram = packet.info().has(wire::OpcodeInfo::kDeth);
  if (members.empty() || !is_datagram) {
    ++layout_.adapter().counters.unknown_qp;
    return;
  }
  if (!wire::verify_icrc(origin.seed, incoming.octets, origin.identification)) {
    ++layout_.adapter().counters.malformed[static_cast<std::size_t>(wire::WireError::kBadChecksum)];
    return;
  }
  const wire::QpNumber sender = packet.deth().source_qp;
  const bool is_ours = udp_.source_port(incoming.source, 0) != 0;
  for (QueuePair* qp : members) {
    if (!is_ours || qp->number() != sender) deliver(*qp, incoming, packet, origin.at);
  }
}

void Adapter::forward(std::uint32_t slot, const link::Incoming& incoming) noexcept {
  const std::size_t octets = pack_forwarded(incoming, forwarded_);
  ++layout_.adapter().counters.forwarded;
  // Whoever has gone since is a dead host: the packet is lost, and the sender finds out by itself.
  (void)slot_.forward(slot, std::span(forwarded_).first(octets));
}

void Adapter::take_forwarded(Instant at) noexcept {
  for (int count = 0; count < 32; ++count) {
    const std::size_t octets = slot_.take_forwarded(forwarded_);
    const auto incoming = unpack_forwarded(std::span(forwarded_).first(octets));
    if (!incoming) return;
    if (count == 0) let_faults_through_for_burst();
    const auto packet = std::span(forwarded_).first(octets).subspan(sizeof(ForwardHeader));
    if (link_->admit_forwarded(at, *incoming, packet)) handle(*incoming, Came::kForwarded, at);
  }
}

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/fabric_load.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/prng.h"
#include "fabric/alarm_heap.h"
#include "fabric/routing/wiring.h"
#include "fabric/topology/link_rate.h"

namespace verbatim::sim {
namespace {

using fabric::DataOutcome;
using fabric::PortEnd;

/// What a packet has besides its payload: LRH 8, BTH 12, ICRC 4 octets, and on a link VCRC 2.
constexpr std::uint32_t kHeaderOctets = 24;
constexpr std::uint32_t kLinkOctets = kHeaderOctets + 2;
constexpr wire::QpNumber kQueuePair{0x100};
/// Packets that wait in an adapter: enough that its link does not wait for the next one.
constexpr std::uint32_t kWaitingMax = 4;
constexpr std::uint32_t kRefill = 1;
/// How often deadlocks are looked for.
constexpr std::int64_t kLooks = 100;
constexpr Duration kLookMin = std::chrono::microseconds(1);
/// The handle of a packet is the number of its message, with this bit in that of the last packet.
constexpr std::uint32_t kLastPacket = 0x8000'0000;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

struct Sender {
  PortEnd port{};
  wire::Lid lid{};
  std::uint32_t packet_octets = 0;  // payload of all packets of a message but the last
  Duration interval{};              // between two messages
  Instant next_message{};
  std::uint64_t ready = 0;           // messages that no packet of has been posted
  std::uint32_t message = kNone;     // the one that is being posted
  std::uint32_t octets_to_post = 0;  // of it
  bool awaits_room = false;
};

/// A message of which packets are under way.
struct Message {
  Instant start{};
  std::uint32_t from = 0;  // sender
  std::uint32_t to = 0;
  std::uint32_t octets_due = 0;   // payload that has not arrived
  std::uint32_t last_octets = 0;  // payload of the last packet
  std::uint32_t packets = 0;      // that the fabric has not done with, and that are not posted
};

std::uint64_t mix(std::uint64_t trace, std::uint64_t value) noexcept {
  return Prng(trace ^ value).next();
}

class LoadRun {
 public:
  LoadRun(fabric::Fabric& fabric, const FabricLoad& load)
      : fabric_(fabric), load_(load), prng_(load.seed) {}

  [[nodiscard]] bool open(std::string& message);
  [[nodiscard]] LoadResult run();

 private:
  void add_sender(PortEnd port, const fabric::PortStatus& status);
  [[nodiscard]] Duration interval_of(const fabric::LinkRate& rate) const noexcept;
  void handle_ready(std::uint32_t sender);
  void post(std::uint32_t sender);
  void begin_message(std::uint32_t sender);
  [[nodiscard]] std::uint32_t free_message();
  void post_packet(Sender& sender);
  void drain();
  void handle_outcome(const DataOutcome& outcome);
  void end_message(std::uint32_t number);
  void look_for_deadlock();
  void note_drops();

  fabric::Fabric& fabric_;
  const FabricLoad& load_;
  Prng prng_;
  std::vector<Sender> senders_{};
  std::vector<std::uint32_t> sender_at_{};  // by port, as Wiring numbers them
  std::optional<fabric::Wiring> wiring_{};
  std::optional<Destinations> destinations_{};
  fabric::AlarmHeap ready_{0};  // by sender
  std::vector<Message> messages_{};
  std::vector<std::uint32_t> free_messages_{};
  std::array<std::uint64_t, fabric::kDropReasonCount> drops_before_{};
  LoadResult result_{};
  Instant now_{};
};

bool LoadRun::open(std::string& message) {
  const fabric::Topology& topology = fabric_.topology();
  wiring_.emplace(topology);
  sender_at_.resize(wiring_->port_count(), kNone);
  for (std::uint32_t index = 0; index < wiring_->port_count(); ++index) {
    const PortEnd port = wiring_->end_of(index);
    if (wiring_->is_switch(port.node) || port.port == 0) continue;
    const fabric::PortStatus status = fabric_.port_status(port);
    const bool is_there =
        status.state == wire::PortState::kActive && status.lid != wire::Lid::kReserved;
    if (is_there) add_sender(port, status);
  }
  auto destinations = Destinations::open(load_.pattern, static_cast<std::uint32_t>(senders_.size()),
                                         prng_.next(), message);
  if (!destinations) return false;
  destinations_ = std::move(*destinations);
  ready_ = fabric::AlarmHeap(senders_.size());
  for (std::uint32_t at = 0; at < senders_.size(); ++at) {
    Sender& sender = senders_[at];
    result_.hosts.push_back({.port = sender.port, .sends = destinations_->sends(at)});
    if (!destinations_->sends(at)) continue;
    const auto phase = static_cast<std::uint64_t>(sender.interval.count());
    sender.next_message =
        Instant{} +
        Duration(static_cast<std::int64_t>(prng_.below(std::max<std::uint64_t>(1, phase))));
    ready_.set(at, sender.next_message);
  }
  return true;
}

void LoadRun::add_sender(PortEnd port, const fabric::PortStatus& status) {
  sender_at_[wiring_->index_of(port)] = static_cast<std::uint32_t>(senders_.size());
  senders_.push_back(
      {.port = port, .lid = status.lid, .packet_octets = wire::octets_of(status.mtu)});
  senders_.back().interval = interval_of(status.rate);
}

/// So long that messages with the headers of their packets are the share of the link's rate that
/// the load asks for.
Duration LoadRun::interval_of(const fabric::LinkRate& rate) const noexcept {
  const std::uint32_t packet = senders_.back().packet_octets;
  const std::uint64_t packets = (std::uint64_t{load_.message_octets} + packet - 1) / packet;
  const std::uint64_t octets = load_.message_octets + packets * kLinkOctets;
  const std::uint64_t megabits = fabric::data_megabits_of(rate);
  return Duration(
      static_cast<std::int64_t>(octets * 8 * 1000 * 100 / (megabits * load_.load_percent)));
}

LoadResult LoadRun::run() {
  const Instant end = Instant{} + load_.duration;
  const Duration look = std::max(kLookMin, load_.duration / kLooks);
  for (std::size_t reason = 0; reason < fabric::kDropReasonCount; ++reason) {
    drops_before_[reason] =
        fabric_.drop_count(fabric::DropReason{static_cast<std::uint8_t>(reason)});
  }
  Instant next_look = Instant{} + look;
  while (now_ < end) {
    fabric_.advance(now_);
    drain();
    while (ready_.next_due() && *ready_.next_due() <= now_) handle_ready(ready_.next_owner());
    if (now_ >= next_look) {
      if (!result_.deadlock) look_for_deadlock();
      next_look = now_ + look;
    }
    now_ = std::max(now_, std::min({fabric_.next_due().value_or(Instant::never()),
                                    ready_.next_due().value_or(Instant::never()), next_look, end}));
  }
  fabric_.advance(now_);
  drain();
  look_for_deadlock();
  note_drops();
  return std::move(result_);
}

void LoadRun::handle_ready(std::uint32_t at) {
  Sender& sender = senders_[at];
  ++sender.ready;
  sender.next_message = sender.next_message + sender.interval;
  ready_.set(at, sender.next_message);
  if (!sender.awaits_room && sender.message == kNone) post(at);
}

/// Fills the adapter, and asks to be called again when it is nearly empty.
void LoadRun::post(std::uint32_t at) {
  Sender& sender = senders_[at];
  for (std::uint32_t count = 0; count < kWaitingMax; ++count) {
    if (sender.message == kNone) {
      if (sender.ready == 0) return;
      begin_message(at);
    }
    post_packet(sender);
  }
  sender.awaits_room = true;
  fabric_.await_room(sender.port, kRefill);
}

void LoadRun::begin_message(std::uint32_t at) {
  Sender& sender = senders_[at];
  --sender.ready;
  sender.message = free_message();
  sender.octets_to_post = load_.message_octets;
  const std::uint32_t packets =
      (load_.message_octets + sender.packet_octets - 1) / sender.packet_octets;
  messages_[sender.message] = {
      .start = now_,
      .from = at,
      .to = destinations_->next(at),
      .octets_due = load_.message_octets,
      .last_octets = load_.message_octets - (packets - 1) * sender.packet_octets,
      .packets = packets};
  result_.hosts[messages_[sender.message].to].is_sent_to = true;
}

std::uint32_t LoadRun::free_message() {
  if (free_messages_.empty()) {
    messages_.emplace_back();
    return static_cast<std::uint32_t>(messages_.size() - 1);
  }
  const std::uint32_t number = free_messages_.back();
  free_messages_.pop_back();
  return number;
}

void LoadRun::post_packet(Sender& sender) {
  const std::uint32_t number = sender.message;
  const std::uint32_t octets = std::min(sender.octets_to_post, sender.packet_octets);
  sender.octets_to_post -= octets;
  const bool is_last = sender.octets_to_post == 0;
  if (is_last) sender.message = kNone;
  ++result_.posted_packets;
  fabric_.post_data(now_, sender.port,
                    {.handle = is_last ? number | kLastPacket : number,
                     .source = sender.lid,
                     .destination = senders_[messages_[number].to].lid,
                     .level = load_.level,
                     .dest_qp = kQueuePair,
                     .words = static_cast<std::uint16_t>((octets + 3 + kHeaderOctets) / 4)});
}

void LoadRun::drain() {
  for (;;) {
    while (const auto outcome = fabric_.poll_data()) handle_outcome(*outcome);
    const auto room = fabric_.poll_room();
    if (!room) break;
    const std::uint32_t at = sender_at_[wiring_->index_of(*room)];
    senders_[at].awaits_room = false;
    post(at);
  }
  while (fabric_.poll_change()) {
  }
  while (fabric_.poll_delivery()) {
  }
}

void LoadRun::handle_outcome(const DataOutcome& outcome) {
  const std::uint32_t number = outcome.handle & ~kLastPacket;
  Message& message = messages_[number];
  if (outcome.kind == DataOutcome::Kind::kDone) {
    if (--message.packets == 0) end_message(number);
    return;
  }
  const bool is_last = (outcome.handle & kLastPacket) != 0;
  const std::uint32_t octets = is_last ? message.last_octets : senders_[message.from].packet_octets;
  message.octets_due -= octets;
  ++result_.delivered_packets;
  result_.hosts[message.from].delivered_octets += octets;
  result_.hosts[message.to].received_octets += octets;
  result_.trace = mix(result_.trace, static_cast<std::uint64_t>(now_.since_start().count()) ^
                                         std::uint64_t{message.to} << 40);
}

/// A message of which packets were discarded has not arrived.
void LoadRun::end_message(std::uint32_t number) {
  const Message& message = messages_[number];
  if (message.octets_due == 0) {
    ++result_.delivered_messages;
    result_.latencies.add(now_ - message.start);
  }
  free_messages_.push_back(number);
}

void LoadRun::look_for_deadlock() {
  const auto deadlocks = fabric::find_deadlocks(fabric_.waiting_lanes());
  if (!result_.deadlock) {
    if (deadlocks.empty()) return;
    const auto first = std::ranges::min_element(deadlocks, {}, &fabric::Deadlock::since);
    result_.deadlock = FoundDeadlock{.deadlock = *first, .found = now_};
  }
  result_.deadlock->lasts = std::ranges::any_of(deadlocks, [&](const fabric::Deadlock& each) {
    return each.cycle == result_.deadlock->deadlock.cycle &&
           each.since == result_.deadlock->deadlock.since;
  });
}

void LoadRun::note_drops() {
  for (std::size_t reason = 0; reason < fabric::kDropReasonCount; ++reason) {
    const auto count = fabric_.drop_count(fabric::DropReason{static_cast<std::uint8_t>(reason)});
    result_.drops[reason] = count - drops_before_[reason];
    result_.dropped_packets += result_.drops[reason];
  }
}

}  // namespace

Expected<LoadResult> run_load(fabric::Fabric& fabric, const FabricLoad& load,
                              std::string& message) {
  LoadRun run(fabric, load);
  if (!run.open(message)) return Errc::kInvalidArgument;
  return run.run();
}

}  // namespace verbatim::sim

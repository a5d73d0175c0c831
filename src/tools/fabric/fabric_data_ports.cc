// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_data_ports.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "tools/fabric/data_headers.h"

namespace verbatim::tools {
namespace {

constexpr int kBellsPerTurn = 64;
constexpr std::uint32_t kBufferBits = 8;  // of a handle
static_assert(host::FabricDataArea::kBuffers == 1U << kBufferBits);

constexpr std::uint32_t sender_of(std::uint32_t handle) noexcept { return handle >> kBufferBits; }
constexpr std::uint32_t buffer_of(std::uint32_t handle) noexcept {
  return handle & (host::FabricDataArea::kBuffers - 1);
}

fabric::BadKeyReport report_of(fabric::BadKeyReport::Key key,
                               const host::FabricDataServerPort::Violations& told) noexcept {
  const host::FabricKeyViolation& last = told.last;
  return {.key = key,
          .count = told.count,
          .last = {.source = wire::Lid{last.source_lid},
                   .destination = wire::Lid{last.destination_lid},
                   .key = last.key,
                   .level = wire::ServiceLevel{static_cast<std::uint8_t>(last.service_level & 0xf)},
                   .source_qp = wire::QpNumber{last.source_qp & wire::kQpNumberMask},
                   .dest_qp = wire::QpNumber{last.dest_qp & wire::kQpNumberMask},
                   .source_gid = {.octets = last.source_gid},
                   .destination_gid = {.octets = last.destination_gid}}};
}

}  // namespace

FabricDataPorts::FabricDataPorts(fabric::Fabric& fabric, host::FabricServer& server)
    : fabric_(fabric), server_(server), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

// ---- Processes ----

/// Why the process cannot have the slot; empty: it can.
std::string FabricDataPorts::objection_to(const Arrival& arrival, const std::string& name) const {
  const auto seats = seats_.find(key_of(arrival.port));
  if (seats == seats_.end() || seats->second.by_slot[arrival.slot] == kNone) return {};
  return "another process with slot " + std::to_string(arrival.slot) + " uses " + name +
         "; processes of different network namespaces need different nodes";
}

FabricDataPorts::Index FabricDataPorts::free_index() {
  const auto free = std::ranges::find_if(members_, [](const auto& each) { return !each; });
  if (free != members_.end()) return static_cast<Index>(free - members_.begin());
  members_.emplace_back();
  return static_cast<Index>(members_.size() - 1);
}

FabricDataPorts::Seats& FabricDataPorts::seats_of(fabric::PortEnd port) {
  const auto [place, is_new] = seats_.try_emplace(key_of(port));
  if (is_new) place->second.by_slot.fill(kNone);
  return place->second;
}

void FabricDataPorts::attach(const Arrival& arrival, const host::FabricNodeState& state,
                             const std::string& name) {
  if (arrival.slot >= kSlotCount) {
    return server_.refuse(arrival.client, EINVAL, "there is no such slot");
  }
  if (const std::string why = objection_to(arrival, name); !why.empty()) {
    return server_.refuse(arrival.client, EADDRINUSE, why);
  }
  const Index index = free_index();
  auto member = std::make_unique<Member>();
  member->about = arrival;
  epoll_event bell{.events = EPOLLIN | EPOLLET, .data = {.u32 = index}};
  const bool is_open = member->port.open() && ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD,
                                                          member->port.fabric_bell(), &bell) == 0;
  if (!is_open) {
    return server_.refuse(arrival.client, ENOMEM,
                          "the fabric's process has no memory or no descriptor left; end other "
                          "programs, or start the fabric with a higher `ulimit -n`");
  }
  (void)member->port.begin_rest(0);  // nothing is posted yet
  if (!server_.accept_data(arrival.client, arrival.port.node, state, member->port)) return;
  member->port.close_file();
  seats_of(arrival.port).by_slot[arrival.slot] = index;
  by_client_[arrival.client] = index;
  members_[index] = std::move(member);
}

void FabricDataPorts::set_service(host::FabricClientId client, std::uint32_t service,
                                  bool listens) {
  const auto found = by_client_.find(client);
  if (found == by_client_.end()) return;
  const Arrival& about = members_[found->second]->about;
  seats_of(about.port).services.set(service, about.slot, listens);
}

std::optional<FabricDataPorts::Arrival> FabricDataPorts::seat_of(
    host::FabricClientId client) const {
  const auto found = by_client_.find(client);
  if (found == by_client_.end()) return std::nullopt;
  return members_[found->second]->about;
}

bool FabricDataPorts::detach(Instant now, host::FabricClientId client) {
  const auto found = by_client_.find(client);
  if (found == by_client_.end()) return false;
  const Index index = found->second;
  by_client_.erase(found);
  Member& member = *members_[index];
  for (std::size_t packets = 0; packets < host::FabricDataArea::kBuffers;) {
    const std::size_t taken = take_posted(now, index);
    if (taken == 0) break;
    packets += taken;
  }
  take_violations(now, member);
  Seats& seats = seats_of(member.about.port);
  seats.by_slot[member.about.slot] = kNone;
  seats.services.remove(member.about.slot);
  discard_waiting(now, member);
  take_outcomes(now);
  std::erase(looked_at_, index);
  std::erase(waited_for_, index);
  std::erase(to_ring_, index);
  (void)::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, member.port.fabric_bell(), nullptr);
  member.port.close_bells();
  member.is_attached = false;
  if (member.port.taken_count() == 0) {
    members_[index].reset();
  } else {
    departed_.push_back({.index = index, .withdraws = now + kLingering});
  }
  ring_all();
  return true;
}

// ---- Turns ----

void FabricDataPorts::handle_bells(Instant now) {
  std::array<epoll_event, kBellsPerTurn> rung;
  const int count = ::epoll_wait(epoll_.number(), rung.data(), kBellsPerTurn, 0);
  for (int at = 0; at < count; ++at) look_at(now, rung[static_cast<std::size_t>(at)].data.u32);
}

void FabricDataPorts::look_at(Instant now, Index index) {
  Member& member = *members_[index];
  member.moved = now;
  if (std::exchange(member.is_looked_at, true)) return;
  looked_at_.push_back(index);
  member.port.end_rest();
}

/// The next turn begins where this one has stopped. Members that are looked at only since this turn
/// stand at the end, and wait for the next one.
std::size_t FabricDataPorts::turn(Instant now) {
  take_outcomes(now);
  serve_waiting(now);
  take_outcomes(now);
  withdraw_departed(now);
  const std::size_t count = looked_at_.size();
  std::size_t packets = 0;
  for (std::size_t looks = 0; looks < count && packets < kTurnPackets; ++looks) {
    if (next_looked_at_ >= count) next_looked_at_ = 0;
    const Index index = looked_at_[next_looked_at_++];
    packets += take_posted(now, index);
    ring_all();
    Member& member = *members_[index];
    if (now >= member.next_report && member.port.has_violations()) take_violations(now, member);
  }
  rest_idle(now);
  return packets;
}

std::size_t FabricDataPorts::take_posted(Instant now, Index index) {
  Member& member = *members_[index];
  const std::uint64_t nonsense = member.port.nonsense_count();
  std::size_t count = 0;
  for (; count < kBurstPackets; ++count) {
    const auto posted = member.port.take_posted();
    if (!posted) break;
    auto packet = data_packet_of(posted->start(), posted->octets);
    if (!packet) {
      ++counters_.malformed;
      member.port.free_buffer(posted->buffer);
      continue;
    }
    packet->rate = posted->rate;
    packet->handle = index << kBufferBits | posted->buffer;
    member.passages[posted->buffer] = {.packet = *packet, .users = 1};
    fabric_.post_data(now, member.about.port, *packet);
    take_outcomes(now);
  }
  counters_.malformed += member.port.nonsense_count() - nonsense;
  if (count > 0) member.moved = now;
  return count;
}

void FabricDataPorts::take_violations(Instant now, Member& member) {
  using Key = fabric::BadKeyReport::Key;
  member.next_report = now + kReportsEvery;
  for (const Key key : {Key::kPKey, Key::kQKey}) {
    const auto told = member.port.take_violations(key == Key::kPKey ? host::FabricKey::kPKey
                                                                    : host::FabricKey::kQKey);
    if (told.count == 0) continue;
    fabric_.report_bad_keys(now, member.about.port, report_of(key, told));
  }
}

void FabricDataPorts::rest_idle(Instant now) {
  std::erase_if(looked_at_, [&](Index index) {
    Member& member = *members_[index];
    if (now - member.moved < kLooking) return false;
    const std::size_t wanted =
        member.waiting.empty() ? 0 : packet_of(member.waiting.front().handle).size();
    member.is_looked_at = !member.port.begin_rest(static_cast<std::uint32_t>(wanted));
    return !member.is_looked_at;
  });
}

void FabricDataPorts::ring_all() {
  for (const Index index : to_ring_) {
    members_[index]->wants_ring = false;
    members_[index]->port.ring();
  }
  to_ring_.clear();
}

// ---- Packets ----

/// Before the outcomes: with the last one the buffer of a packet is free for another one.
void FabricDataPorts::take_tapped() {
  while (const auto tapped = fabric_.poll_tapped()) {
    if (tap_ == nullptr) continue;
    tap_->take(*tapped,
               tapped->datagram ? std::span<const std::byte>{} : packet_of(tapped->handle));
  }
}

void FabricDataPorts::take_outcomes(Instant now) {
  for (;;) {
    take_tapped();  // each time: an arrival that is taken may let other packets go on
    const auto outcome = fabric_.poll_data();
    if (!outcome) return;
    switch (outcome->kind) {
      case fabric::DataOutcome::Kind::kArrived:
        arrive(now, *outcome);
        break;
      case fabric::DataOutcome::Kind::kDone:
        let_go(outcome->handle);
        break;
    }
  }
}

/// The packet leaves the receive buffer when all processes that it is for have got it.
void FabricDataPorts::arrive(Instant now, const fabric::DataOutcome& arrival) {
  const std::uint32_t held = hold(arrival);
  const auto found = seats_.find(key_of(arrival.port));
  if (found == seats_.end()) {
    discard(now, arrival, fabric::DropReason::kUnclaimed);
    return let_go_held(now, held);
  }
  const Seats& seats = found->second;
  const auto is_taken = [](Index index) { return index != kNone; };
  const Handle handle = arrival.handle;
  const wire::QpNumber dest_qp =
      members_[sender_of(handle)]->passages[buffer_of(handle)].packet.dest_qp;
  if (dest_qp == wire::QpNumber::kMulticast) {
    for (const Index to : seats.by_slot) {
      if (is_taken(to)) hand_over(now, to, held);
    }
    return let_go_held(now, held);
  }
  const Index to = dest_qp == wire::QpNumber::kGsi
                       ? general_services_of(seats, handle)
                       : seats.by_slot[static_cast<std::uint32_t>(dest_qp) / kNumbersPerSlot];
  if (is_taken(to)) {
    hand_over(now, to, held);
  } else {
    discard(now, arrival, fabric::DropReason::kUnclaimed);
  }
  let_go_held(now, held);
}

FabricDataPorts::Index FabricDataPorts::general_services_of(const Seats& seats,
                                                            Handle handle) const {
  std::uint32_t slot = kSlotCount;
  const wire::Addressee to = addressee_of_packet(packet_of(handle));
  if (const auto* id = std::get_if<wire::CommId>(&to)) slot = wire::slot_of(*id);
  if (const auto* service = std::get_if<wire::ServiceId>(&to)) {
    slot = seats.services.slot_of(static_cast<std::uint32_t>(*service), kSlotCount);
  }
  if (slot < kSlotCount && seats.by_slot[slot] != kNone) return seats.by_slot[slot];
  const auto lowest =
      std::ranges::find_if(seats.by_slot, [](Index index) { return index != kNone; });
  return lowest != seats.by_slot.end() ? *lowest : kNone;
}

/// The caller itself is its first user.
std::uint32_t FabricDataPorts::hold(const fabric::DataOutcome& arrival) {
  if (free_held_.empty()) {
    held_.push_back({.arrival = arrival, .users = 1});
    return static_cast<std::uint32_t>(held_.size() - 1);
  }
  const std::uint32_t held = free_held_.back();
  free_held_.pop_back();
  held_[held] = {.arrival = arrival, .users = 1};
  return held;
}

void FabricDataPorts::let_go_held(Instant now, std::uint32_t held) {
  if (--held_[held].users > 0) return;
  free_held_.push_back(held);
  fabric_.take_arrival(now, held_[held].arrival);
}

std::span<const std::byte> FabricDataPorts::packet_of(Handle handle) const noexcept {
  return members_[sender_of(handle)]->port.packet(buffer_of(handle));
}

void FabricDataPorts::hand_over(Instant now, Index to, std::uint32_t held) {
  Member& member = *members_[to];
  if (!member.waiting.empty() || !member.port.put(packet_of(held_[held].arrival.handle))) {
    return await_room(now, to, held);
  }
  look_at(now, to);  // it may answer
  if (!std::exchange(member.wants_ring, true)) to_ring_.push_back(to);
}

void FabricDataPorts::let_go(Handle handle) {
  Member& sender = *members_[sender_of(handle)];
  if (--sender.passages[buffer_of(handle)].users > 0) return;
  sender.port.free_buffer(buffer_of(handle));
  if (sender.is_attached || sender.port.taken_count() != 0) return;
  const Index index = sender_of(handle);
  std::erase_if(departed_, [index](const Departed& each) { return each.index == index; });
  members_[index].reset();
}

/// A port that is not served, or lanes that wait for each other, may hold packets for ever.
void FabricDataPorts::withdraw_departed(Instant now) {
  while (!departed_.empty() && departed_.front().withdraws <= now) {
    Departed late = departed_.front();
    departed_.erase(departed_.begin());
    late.withdraws = now + kLingering;
    departed_.push_back(late);
    const Handle first = late.index << kBufferBits;
    fabric_.withdraw(now, members_[late.index]->about.port, first,
                     first + host::FabricDataArea::kBuffers - 1);
    take_outcomes(now);
  }
}

// ---- Full arrival rings ----

bool FabricDataPorts::is_given_up(Member& member) const noexcept {
  if (member.is_given_up) member.is_given_up = member.port.released() == member.released;
  return member.is_given_up;
}

void FabricDataPorts::await_room(Instant now, Index to, std::uint32_t held) {
  Member& member = *members_[to];
  if (is_given_up(member)) {
    return discard(now, held_[held].arrival, fabric::DropReason::kNoRoom);
  }
  if (member.waiting.empty()) {
    member.released = member.port.released();
    member.is_excused = false;
    member.released_changed = member.put = now;
    waited_for_.push_back(to);
  }
  const Handle handle = held_[held].arrival.handle;
  member.waiting.push_back({.handle = handle, .held = held});
  ++held_[held].users;
  ++members_[sender_of(handle)]->passages[buffer_of(handle)].users;
}

void FabricDataPorts::serve_waiting(Instant now) {
  for (const Index index : waited_for_) put_waiting(now, index);
  std::erase_if(waited_for_, [&](Index index) { return members_[index]->waiting.empty(); });
  ring_all();
}

void FabricDataPorts::put_waiting(Instant now, Index to) {
  Member& member = *members_[to];
  if (const std::uint32_t released = member.port.released(); released != member.released) {
    member.released = released;
    member.released_changed = now;
  }
  while (!member.waiting.empty() && member.port.put(packet_of(member.waiting.front().handle))) {
    const Waiting got = member.waiting.front();
    member.waiting.pop_front();
    let_go(got.handle);
    let_go_held(now, got.held);
    member.put = now;
    member.is_excused = false;
    look_at(now, to);
    if (!std::exchange(member.wants_ring, true)) to_ring_.push_back(to);
  }
  const Instant due = due_of(member);
  if (member.waiting.empty() || now < due) return;
  if (now - due >= kPatience && !member.is_excused) {
    // This process was stopped, or had no processor: the other one has had no chance.
    member.is_excused = true;
    member.released_changed = member.put = now;
    return;
  }
  member.is_given_up = true;
  discard_waiting(now, member);
}

/// When what waits for the process is discarded.
Instant FabricDataPorts::due_of(const Member& member) noexcept {
  return std::min(member.released_changed + kPatience, member.put + kPatienceMax);
}

void FabricDataPorts::discard(Instant now, const fabric::DataOutcome& arrival,
                              fabric::DropReason reason) {
  const Handle handle = arrival.handle;
  const fabric::DataPacket& packet =
      members_[sender_of(handle)]->passages[buffer_of(handle)].packet;
  fabric_.report_discard(now, arrival.port, reason, packet);
  ++(reason == fabric::DropReason::kNoRoom ? counters_.undelivered : counters_.unclaimed);
}

void FabricDataPorts::discard_waiting(Instant now, Member& member) {
  for (const Waiting& each : std::exchange(member.waiting, {})) {
    discard(now, held_[each.held].arrival, fabric::DropReason::kNoRoom);
    let_go(each.handle);
    let_go_held(now, each.held);
  }
}

Instant FabricDataPorts::next_due() const noexcept {
  Instant due = departed_.empty() ? Instant::never() : departed_.front().withdraws;
  for (const Index index : waited_for_) {
    due = std::min(due, due_of(*members_[index]));
  }
  return due;
}

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#include "device/gsi.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/process_wide.h"
#include "cm/addressee.h"
#include "device/adapter_work.h"
#include "device/clock.h"
#include "device/engine.h"
#include "device/forwarded_packet.h"
#include "device/process.h"
#include "wire/headers/flow_entropy.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::device {
namespace {

// Forwarded requests that one turn takes from each service.
constexpr int kRequestsPerTurn = 32;
// How long a request for a service that nobody has waits before it is refused: looked at again
// after 1 ms, 2 ms, and so on to the last, 127 ms in all. 2 s where a connection with this port
// stands: programs that listen once for each connection may have to repeat a packet of the last one
// before they listen again.
constexpr Duration kFirstLook = std::chrono::milliseconds(1);
constexpr Duration kLastLook = std::chrono::milliseconds(64);
constexpr Duration kLastLookOfFriends = std::chrono::milliseconds(1024);
// How many messages that name no process are passed on to all of them.
constexpr int kTellsPerPeriod = 64;
constexpr Duration kTellPeriod = std::chrono::seconds(1);
constexpr int kSteeringTries = 8;       // while others come and go
constexpr std::size_t kEarlyMax = 256;  // requests that wait at a time

host::Service service_at(const wire::Gid& address, wire::ServiceId id) noexcept {
  return {.address = address.octets, .id = static_cast<std::uint64_t>(id)};
}

wire::Guid guid_of(const std::array<std::uint8_t, 8>& octets) noexcept {
  std::uint64_t value = 0;
  for (const std::uint8_t octet : octets) value = value << 8 | octet;
  return wire::Guid{value};
}

wire::PacketHeaders headers_of(wire::Psn psn) noexcept {
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
  headers.bth.migrated = true;
  headers.bth.dest_qp = wire::QpNumber::kGsi;
  headers.bth.psn = psn;
  headers.deth = {.qkey = wire::QKey::kGsi, .source_qp = wire::QpNumber::kGsi};
  return headers;
}

/// The user that has the port sends to a RequestBox, and says from which address each packet came.
/// Only a request for the box's own service is taken from it.
bool is_request_for(const host::Service& service, const link::Incoming& incoming) noexcept {
  const auto packet = wire::PacketView::parse(incoming.octets);
  if (!packet || packet->bth().dest_qp() != wire::QpNumber::kGsi) return false;
  const cm::Addressee to = cm::addressee_of(packet->payload());
  const auto* id = std::get_if<wire::ServiceId>(&to);
  return id != nullptr && service_at(incoming.destination, *id) == service;
}

bool is_datagram_for_gsi(const wire::PacketView& packet) noexcept {
  return packet.opcode() == wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly) &&
         packet.deth().qkey == wire::QKey::kGsi &&
         wire::pkeys_match(packet.bth().pkey(), wire::PKey::kDefault);
}

}  // namespace

host::PortBlocks& given_ports() {
  return process_wide([] { return new host::PortBlocks; });
}

namespace {

const TakesPartInForks kPortsInForks({.rank = ForkRank::kGivenPorts,
                                      .prepare = [] { given_ports().mutex().lock_for_fork(); },
                                      .parent = [] { given_ports().mutex().unlock_after_fork(); },
                                      .child = [] { given_ports().abandon_in_child(); },
                                      .forget = [] { renew(given_ports()); }});

}  // namespace

Gsi::Gsi(const Parts& parts)
    : parts_(parts), message_(sizeof(ForwardHeader) + link::kFrameOctets) {}

Gsi::~Gsi() = default;

Status Gsi::open() noexcept {
  epoll_ = host::OwnDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return Errc::kNoMemory;
  const auto seed = static_cast<std::uint64_t>(now().since_start().count()) ^
                    (static_cast<std::uint64_t>(::getpid()) << 40);
  agent_ = std::make_unique<cm::Agent>(
      cm::Agent::Config{.slot = static_cast<std::uint8_t>(parts_.slot.number()),
                        .ca_guid = guid_of(parts_.port.guid),
                        .seed = seed,
                        .communications_max = cm::Agent::kCommunicationsMax});
  for (const GidEntry& entry : parts_.port.gids) steer(entry.gid);
  if (watch_.open(parts_.slot.number(),
                  epoll_.number())) {  // without it deaths go unnoticed for a while
    if (const auto directory = read_directory({})) {
      for (const std::uint32_t slot : directory->slots) watch_.watch(slot);
    }
  }
  return Ok{};
}

void Gsi::abandon_in_child() noexcept {
  watch_.close();
  claims_.clear();
  reader_ = nullptr;
  epoll_.close();
}

Status Gsi::claim(const wire::Gid& address, wire::ServiceId service) noexcept {
  const host::Service wanted = service_at(address, service);
  auto name = host::ServiceName::claim(wanted, parts_.slot.descriptor());
  if (!name) return name.error();
  Claim claim{.service = wanted, .name = std::move(*name)};
  // The box's name is exclusive among all users. Where the port is another user's, requests come to
  // that user's process, which hands them over.
  auto box = host::RequestBox::open(wanted, parts_.udp.lender_at(address).value_or(::geteuid()));
  if (!box && box.error() == Errc::kAddressInUse) return box.error();
  if (box) claim.box = std::move(*box);
  for (const int socket : {claim.name.descriptor(), claim.box.descriptor()}) {
    epoll_event readable{.events = EPOLLIN, .data = {.fd = socket}};
    if (socket >= 0) ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket, &readable);
  }
  claims_.push_back(std::move(claim));
  return Ok{};
}

void Gsi::release(const wire::Gid& address, wire::ServiceId service) noexcept {
  const host::Service gone = service_at(address, service);
  bool was_attracted = false;
  std::erase_if(claims_, [&](const Claim& claim) {
    was_attracted |= claim.service == gone && claim.advertisement.descriptor() >= 0;
    return claim.service == gone;
  });
  if (was_attracted) steer(address);
}

void Gsi::attract(const wire::Gid& address, wire::ServiceId service) noexcept {
  const host::Service wanted = service_at(address, service);
  for (Claim& claim : claims_) {
    if (claim.service != wanted) continue;
    auto name =
        host::ServiceName::advertise(wanted, parts_.slot.number(), parts_.slot.descriptor());
    if (name) claim.advertisement = std::move(*name);  // else requests are forwarded
    steer(address);
  }
}

void Gsi::leave() noexcept {
  has_left_ = true;
  claims_.clear();
  for (const GidEntry& entry : parts_.port.gids) steer(entry.gid);
}

std::optional<host::ServiceDirectory> Gsi::read_directory(
    const std::array<std::uint8_t, 16>& address) const {
  return host::ServiceDirectory::read(parts_.slot.descriptor(), address);
}

/// Writes the program of an address anew, from what all processes say. Whoever does it last looks
/// once more whether that has changed: so nobody's word is lost.
void Gsi::steer(const wire::Gid& address) noexcept {
  for (int tries = 0; tries < kSteeringTries; ++tries) {
    const auto directory = read_directory(address.octets);
    if (!directory) return;  // what the others have said stays
    std::vector<link::ServiceRoute> routes;
    for (const host::ServicePlace& place : directory->services) {
      routes.push_back({.service = static_cast<std::uint32_t>(place.service), .slot = place.slot});
    }
    std::uint32_t fallback = parts_.slot.number();
    for (const std::uint32_t slot : directory->slots) {
      if (has_left_ && slot != parts_.slot.number()) fallback = slot;
    }
    parts_.udp.steer(address, routes, fallback);
    if (read_directory(address.octets) == directory) return;
  }
}

// ---- In ----

void Gsi::handle(const Arrival& arrival) noexcept {
  if (agent_ == nullptr || !is_datagram_for_gsi(arrival.packet)) return;
  if (!wire::verify_icrc(arrival.seed, arrival.incoming.octets)) return;
  const Whose whose = arrival.was_forwarded ? whose_forwarded(arrival) : forward_elsewhere(arrival);
  if (whose == Whose::kOthers) return;
  if (whose == Whose::kNobodys && keep_early(arrival)) return;
  take(arrival);
}

void Gsi::take(const Arrival& arrival) noexcept {
  if (has_news()) note_deaths();  // before somebody in the slot of a dead process is heard
  (void)agent_->handle_mad(
      now(), {.local = arrival.incoming.destination, .remote = arrival.incoming.source},
      arrival.packet.payload());  // counted there
  serve();
}

/// What others send on to us is ours, but for a request that has come between rdma_bind_addr, which
/// gives us the name, and rdma_listen.
Gsi::Whose Gsi::whose_forwarded(const Arrival& arrival) const noexcept {
  const cm::Addressee to = cm::addressee_of(arrival.packet.payload());
  const auto* service = std::get_if<wire::ServiceId>(&to);
  const bool is_early =
      service != nullptr && !agent_->listens_for(*service, arrival.incoming.destination);
  return is_early ? Whose::kNobodys : Whose::kOurs;
}

/// What is for others has gone there. What is nobody's is ours to refuse.
Gsi::Whose Gsi::forward_elsewhere(const Arrival& arrival) noexcept {
  const cm::Addressee to = cm::addressee_of(arrival.packet.payload());
  const auto octets = pack_forwarded(arrival.incoming, message_);
  const auto message = std::span<const std::byte>(message_).first(octets);
  if (const auto* id = std::get_if<wire::CommId>(&to)) {
    const std::uint32_t slot = cm::slot_of(*id);
    if (slot == parts_.slot.number()) return Whose::kOurs;
    using Slot = link::SharedPort::Whose;
    const Slot whose = whose_slot(slot, arrival.incoming.destination);
    // Lost; the sender repeats it.
    if (whose == Slot::kAnotherUsers || whose == Slot::kBusy) return Whose::kOthers;
    // Where nobody is there any more, we answer: a disconnect wants to be acknowledged.
    return parts_.slot.forward(slot, message) ? Whose::kOthers : Whose::kOurs;
  }
  if (const auto* service = std::get_if<wire::ServiceId>(&to)) {
    const wire::Gid& at = arrival.incoming.destination;
    if (agent_->listens_for(*service, at)) return Whose::kOurs;
    const host::Service wanted = service_at(at, *service);
    const bool is_claimed = std::any_of(claims_.begin(), claims_.end(), [&](const Claim& claim) {
      return claim.service == wanted;
    });
    const int through = parts_.slot.descriptor();
    const bool has_gone =
        !is_claimed &&
        (host::ServiceName::forward(through, wanted, message) ||
         (!parts_.udp.lender_at(at) && host::RequestBox::hand_over(through, wanted, message)));
    return has_gone ? Whose::kOthers : Whose::kNobodys;
  }
  if (std::holds_alternative<cm::EveryAgent>(to) && may_tell_all(now())) {
    for (const std::uint32_t slot : watch_.living()) (void)parts_.slot.forward(slot, message);
  }
  return Whose::kOurs;
}

/// One packet from anywhere costs a system call for each process of this user. What is not passed
/// on any more, the other processes learn by their own timeouts.
bool Gsi::may_tell_all(Instant at) noexcept {
  if (at - tells_since_ >= kTellPeriod) {
    tells_since_ = at;
    tells_ = 0;
  }
  return tells_++ < kTellsPerPeriod;
}

bool Gsi::keep_early(const Arrival& arrival) noexcept {
  if (early_.size() >= kEarlyMax) return false;
  const auto octets = static_cast<std::ptrdiff_t>(pack_forwarded(arrival.incoming, message_));
  early_.push_back({.message = {message_.begin(), message_.begin() + octets},
                    .look_again = now() + kFirstLook,
                    .wait = kFirstLook});
  parts_.engine.note_deadline(early_.back().look_again);
  return true;
}

Duration Gsi::patience_with(const Arrival& arrival) const noexcept {
  const cm::Addressee to = cm::addressee_of(arrival.packet.payload());
  const auto* service = std::get_if<wire::ServiceId>(&to);
  const bool is_friend =
      service != nullptr && agent_->has_connection(*service, {.local = arrival.incoming.destination,
                                                              .remote = arrival.incoming.source});
  return is_friend ? kLastLookOfFriends : kLastLook;
}

/// Those for whom there is somebody now go there; those who have waited long enough are refused.
void Gsi::look_at_early(Instant at) noexcept {
  std::vector<Early> all;
  all.swap(early_);
  for (Early& early : all) {
    const auto incoming = unpack_forwarded(early.message);
    const auto packet = wire::PacketView::parse(incoming->octets);
    const auto seed =
        wire::IcrcSeed::roce_v2(incoming->source, incoming->destination, incoming->source_port);
    const Arrival arrival{
        .incoming = *incoming, .packet = *packet, .seed = seed, .was_forwarded = true};
    if (early.look_again > at) {
      early_.push_back(std::move(early));
      continue;
    }
    const Whose whose = forward_elsewhere(arrival);
    if (whose == Whose::kNobodys && early.wait < patience_with(arrival)) {
      early.wait *= 2;
      early.look_again = at + early.wait;
      early_.push_back(std::move(early));
    } else if (whose != Whose::kOthers) {
      take(arrival);
    }
  }
}

/// Something has come over a socket that we watch.
bool Gsi::has_news() const noexcept {
  pollfd readable{.fd = epoll_.number(), .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 1;
}

void Gsi::note_deaths() noexcept {
  const Instant at = now();
  for (const std::uint32_t slot : watch_.take_deaths()) {
    deaths_.push_back({.slot = slot,
                       .communications = communications_with(slot),
                       .look_again = at,
                       .wait = kFirstLook});
  }
}

/// The number of the other end's queue pair says whose it is; at our own addresses all numbers are
/// given that way.
std::vector<wire::CommId> Gsi::communications_with(std::uint32_t slot) const {
  return agent_->find_all([&](const cm::QpSettings& settings) {
    return slot_of(settings.remote_qpn) == slot && parts_.port.has(settings.address.remote) &&
           whose_slot(slot, settings.address.remote) != link::SharedPort::Whose::kAnotherUsers;
  });
}

/// One of those who are left steers what went to the dead; all of them end what stood between them
/// and the dead, once nothing that is sent to it can get lost in a socket that is about to be
/// closed: the disconnect finds nobody and is acknowledged here. Where somebody has got the slot
/// meanwhile, what he has begun since is his.
void Gsi::look_at_deaths(Instant at) noexcept {
  if (deaths_.empty()) return;
  const auto living = read_directory({}).value_or(host::ServiceDirectory{}).slots;
  std::vector<Death> all;
  all.swap(deaths_);
  for (Death& death : all) {
    const bool is_listed = std::find(living.begin(), living.end(), death.slot) != living.end();
    if (death.look_again > at) {
      deaths_.push_back(std::move(death));
    } else if (is_listed && death.wait < kLastLook) {
      death.wait *= 2;
      death.look_again = at + death.wait;
      deaths_.push_back(std::move(death));
    } else {
      if (!living.empty() && living.front() == parts_.slot.number()) {
        for (const GidEntry& entry : parts_.port.gids) steer(entry.gid);
      }
      for (const wire::CommId id :
           is_listed ? death.communications : communications_with(death.slot)) {
        (void)agent_->disconnect(at, id);  // refused where there is nothing to end
      }
    }
  }
  serve();
}

void Gsi::take_forwarded() noexcept {
  note_deaths();
  look_at_deaths(now());
  for (std::size_t i = 0; i < claims_.size(); ++i) {
    for (int count = 0; count < kRequestsPerTurn && i < claims_.size(); ++count) {
      std::size_t octets = claims_[i].name.take_forwarded(message_);
      const bool is_of_box = octets == 0;
      if (is_of_box) octets = claims_[i].box.take(message_);
      if (octets == 0) break;
      // The message is handled from a copy: answers are put together in the same room.
      const std::vector<std::byte> request(message_.begin(),
                                           message_.begin() + static_cast<std::ptrdiff_t>(octets));
      const auto incoming = unpack_forwarded(request);
      if (!incoming || (is_of_box && !is_request_for(claims_[i].service, *incoming))) continue;
      parts_.dispatch.handle(*incoming, loop::Came::kForwarded, now());
    }
  }
}

void Gsi::handle_first_data(wire::CommId communication) noexcept {
  (void)agent_->handle_first_data(now(), communication);  // it may have ended since
  serve();
}

// ---- Out ----

void Gsi::send() noexcept {
  while (auto datagram = agent_->poll_transmit()) transmit(*datagram);
  parts_.link->flush(now());
  parts_.engine.note_deadline(next_deadline());
}

void Gsi::serve() noexcept {
  send();
  if (reader_ != nullptr && agent_->has_events()) parts_.engine.note_connection_events();
}

void Gsi::handle_port_change(const PortChange& change) noexcept {
  if (reader_ == nullptr) return;
  port_changes_.push_back(change);
  parts_.engine.note_connection_events();
}

std::optional<PortChange> Gsi::poll_port_change() noexcept {
  if (port_changes_.empty()) return std::nullopt;
  PortChange change = std::move(port_changes_.front());
  port_changes_.pop_front();
  return change;
}

void Gsi::run_timer(Instant at) noexcept {
  if (next_deadline() > at) return;
  look_at_early(at);
  look_at_deaths(at);
  agent_->handle_timeout(at);
  serve();
}

Instant Gsi::next_deadline() const noexcept {
  if (agent_ == nullptr) return Instant::never();
  Instant earliest = agent_->next_timeout().value_or(Instant::never());
  for (const Early& early : early_) earliest = std::min(earliest, early.look_again);
  for (const Death& death : deaths_) earliest = std::min(earliest, death.look_again);
  return earliest;
}

void Gsi::transmit(const cm::Datagram& datagram) noexcept {
  const cm::Address& address = datagram.address;
  const std::uint16_t source_port =
      parts_.udp.source_port(address.local, wire::source_port_of_datagrams(wire::QpNumber::kGsi));
  const auto seed = wire::IcrcSeed::roce_v2(address.local, address.remote, source_port);
  auto headers = headers_of(next_psn_);
  next_psn_ = next_psn_ + 1;

  link::Incoming as_received;
  as_received.source = address.local;
  as_received.destination = address.remote;
  as_received.source_port = source_port;
  as_received.hop_limit = 64;
  std::array<std::byte, 512> packet{};
  wire::PacketBuilder builder(packet, headers, datagram.octets.size(), {.seed = &seed});
  builder.append(datagram.octets);
  as_received.octets = std::span(packet).first(builder.finish());
  if (hand_over(datagram, as_received)) return;

  const auto frame = parts_.link->next_frame();
  if (frame.octets.size() < packet.size()) return;
  wire::PacketBuilder framed(frame.octets, headers, datagram.octets.size(),
                             {.seed = &seed, .ipv4_identification = frame.identification});
  framed.append(datagram.octets);
  parts_.link->commit(
      now(), {.source = address.local, .destination = address.remote, .source_port = source_port},
      framed.finish());
}

link::SharedPort::Whose Gsi::whose_slot(std::uint32_t slot,
                                        const wire::Gid& address) const noexcept {
  return parts_.shared_port.whose({.gid = address, .scope = parts_.port.interface_index}, slot);
}

/// To a process of the same address, without the network. Where there is none, it is as if the
/// datagram had come to us. False when the network may try: the other end cannot take more now.
bool Gsi::hand_over(const cm::Datagram& datagram, const link::Incoming& as_received) noexcept {
  const auto& gids = parts_.port.gids;
  const bool is_here = std::any_of(gids.begin(), gids.end(), [&](const GidEntry& entry) {
    return entry.gid == datagram.address.remote;
  });
  if (!is_here) return false;
  const auto octets = pack_forwarded(as_received, message_);
  const auto message = std::span<const std::byte>(message_).first(octets);
  const cm::Addressee to = cm::addressee_of(datagram.octets);
  bool has_gone = false;
  if (const auto* id = std::get_if<wire::CommId>(&to)) {
    const std::uint32_t slot = cm::slot_of(*id);
    const bool is_this_users =
        whose_slot(slot, datagram.address.remote) == link::SharedPort::Whose::kThisUsers;
    if (!is_this_users) return false;  // the kernel steers it
    has_gone = parts_.slot.forward(slot, message);
  } else if (const auto* service = std::get_if<wire::ServiceId>(&to)) {
    has_gone = host::ServiceName::forward(parts_.slot.descriptor(),
                                          service_at(datagram.address.remote, *service), message);
  } else {
    return false;
  }
  if (has_gone || errno != ECONNREFUSED) return has_gone;
  // A request goes to a process of the user that has the port, which hands it over.
  const bool is_request = std::holds_alternative<wire::ServiceId>(to);
  if (is_request && parts_.udp.lender_at(datagram.address.remote)) return false;
  parts_.dispatch.handle(as_received, loop::Came::kByWire, now());
  return true;
}

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#include "connect/general_services.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "connect/device.h"
#include "device/adapter_work.h"
#include "device/clock.h"
#include "device/engine.h"
#include "device/forwarded_packet.h"
#include "device/process.h"
#include "device/slot_of.h"
#include "loop/dispatch.h"
#include "wire/crc/icrc.h"

namespace verbatim::connect {
namespace {

// Forwarded requests that one turn takes from each service.
constexpr int kRequestsPerTurn = 32;
// How long a request for a service that no process holds waits before it is refused: it is looked
// at again after 1 ms, 2 ms, and so on up to kLastLook, 127 ms in all. It is 2 s if there is a
// connection with this port: programs that listen once for each connection may have to repeat a
// packet of the last connection before they listen again.
constexpr Duration kFirstLook = std::chrono::milliseconds(1);
constexpr Duration kLastLook = std::chrono::milliseconds(64);
constexpr Duration kLastLookOfConnected = std::chrono::milliseconds(1024);
// How many messages that name no process are forwarded to all processes.
constexpr int kTellsPerPeriod = 64;
constexpr Duration kTellPeriod = std::chrono::seconds(1);
constexpr std::size_t kEarlyMax = 256;  // requests that wait at a time

wire::Guid guid_of(const std::array<std::uint8_t, 8>& octets) noexcept {
  std::uint64_t value = 0;
  for (const std::uint8_t octet : octets) value = value << 8 | octet;
  return wire::Guid{value};
}

}  // namespace

std::unique_ptr<device::ManagementPort> GeneralServices::make(const Parts& parts) {
  return std::make_unique<GeneralServices>(parts);
}

GeneralServices::GeneralServices(const Parts& parts)
    : ManagementPort(&GeneralServices::make),
      parts_(parts),
      claims_({.port = parts.port, .slot = parts.slot, .network = parts.network}),
      message_(sizeof(device::ForwardHeader) + link::kFrameOctets) {}

Status GeneralServices::open() noexcept {
  const SoleUser unknown;  // to other threads, until the engine runs
  epoll_ = host::OwnDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return Errc::kNoMemory;
  const auto seed = static_cast<std::uint64_t>(device::now().since_start().count()) ^
                    (static_cast<std::uint64_t>(::getpid()) << 40);
  agent_ = std::make_unique<cm::Agent>(
      cm::Agent::Config{.slot = static_cast<std::uint8_t>(parts_.slot.number()),
                        .ca_guid = guid_of(parts_.port.guid),
                        .seed = seed,
                        .communications_max = cm::Agent::kCommunicationsMax});
  claims_.steer_all();
  // Without the watch the end of another process is noticed later, by timeouts.
  if (watch_.open(parts_.slot.number(), epoll_.number())) {
    if (const auto directory = claims_.read_directory()) {
      for (const std::uint32_t slot : directory->slots) watch_.watch(slot);
    }
  }
  return Ok{};
}

void GeneralServices::abandon_in_child() noexcept {
  subnet_ = SubnetClient();
  watch_.close();
  claims_.abandon_in_child();
  reader_ = nullptr;
  epoll_.close();
}

void GeneralServices::leave() noexcept {
  if (agent_ != nullptr) claims_.leave();
}

// ---- In ----

void GeneralServices::handle(const Arrival& arrival) noexcept {
  if (agent_ == nullptr || !is_datagram_for_gsi(arrival.packet)) return;
  if (!wire::verify_icrc(arrival.seed, arrival.incoming.octets)) return;
  const Recipient recipient =
      arrival.was_forwarded ? recipient_of_forwarded(arrival) : forward_elsewhere(arrival);
  if (recipient == Recipient::kAnother) return;
  if (recipient == Recipient::kNone && keep_early(arrival)) return;
  take(arrival);
}

bool GeneralServices::is_datagram_for_gsi(const wire::PacketView& packet) const noexcept {
  const auto keys = parts_.port.pkeys();
  return packet.opcode() == wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly) &&
         packet.deth().qkey == wire::QKey::kGsi && std::ranges::any_of(keys, [&](wire::PKey key) {
           return wire::pkeys_match(packet.bth().pkey(), key);
         });
}

wire::Gid GeneralServices::local_of(const link::Incoming& incoming) const noexcept {
  const auto& gids = parts_.port.gids;
  return incoming.local.exists() && !gids.empty() ? gids.front().gid : incoming.destination;
}

cm::Address GeneralServices::address_of(const link::Incoming& incoming) const noexcept {
  cm::Address address{.local = local_of(incoming), .remote = incoming.source};
  if (incoming.local.exists()) {
    address.route = {.source = incoming.local.destination,
                     .destination = incoming.local.source,
                     .level = incoming.local.level};
  }
  return address;
}

void GeneralServices::take(const Arrival& arrival) noexcept {
  if (has_news()) note_deaths();  // before a new process in the slot of a dead one is answered
  (void)agent_->handle_mad(device::now(), address_of(arrival.incoming),
                           arrival.packet.payload());  // counted there
  serve();
}

/// A datagram that another process has forwarded is for this process, except a request that has
/// come between rdma_bind_addr, which gives this process the name of the service, and rdma_listen.
GeneralServices::Recipient GeneralServices::recipient_of_forwarded(
    const Arrival& arrival) const noexcept {
  const wire::Addressee to = wire::addressee_of(arrival.packet.payload());
  const auto* service = std::get_if<wire::ServiceId>(&to);
  const bool is_early =
      service != nullptr && !agent_->listens_for(*service, local_of(arrival.incoming));
  return is_early ? Recipient::kNone : Recipient::kThisProcess;
}

/// Forwards a datagram that is for another process. This process refuses a request for a service
/// that no process holds.
GeneralServices::Recipient GeneralServices::forward_elsewhere(const Arrival& arrival) noexcept {
  const wire::Addressee to = wire::addressee_of(arrival.packet.payload());
  const auto octets = device::pack_forwarded(arrival.incoming, message_);
  const auto message = std::span<const std::byte>(message_).first(octets);
  if (const auto* id = std::get_if<wire::CommId>(&to)) {
    const std::uint32_t slot = wire::slot_of(*id);
    if (slot == parts_.slot.number()) return Recipient::kThisProcess;
    using SlotUser = link::SharedPort::SlotUser;
    const SlotUser user = user_of_slot(slot, local_of(arrival.incoming));
    // The datagram is lost, and the sender repeats it.
    if (user == SlotUser::kAnotherUser || user == SlotUser::kBusy) return Recipient::kAnother;
    // If that process has ended, this one answers: a disconnect must be acknowledged.
    return parts_.slot.forward(slot, message) ? Recipient::kAnother : Recipient::kThisProcess;
  }
  if (const auto* service = std::get_if<wire::ServiceId>(&to)) {
    const wire::Gid at = local_of(arrival.incoming);
    if (agent_->listens_for(*service, at)) return Recipient::kThisProcess;
    const host::Service wanted = service_at(at, *service);
    const int through = parts_.slot.descriptor();
    const bool has_gone =
        !claims_.holds(wanted) &&
        (host::ServiceName::forward(through, wanted, message).ok() ||
         (!parts_.network.lender_at(at) && host::RequestBox::hand_over(through, wanted, message)));
    return has_gone ? Recipient::kAnother : Recipient::kNone;
  }
  if (std::holds_alternative<wire::EveryAgent>(to) && may_tell_all(device::now())) {
    for (const std::uint32_t slot : watch_.living()) (void)parts_.slot.forward(slot, message);
  }
  return Recipient::kThisProcess;
}

/// One packet from anywhere costs a system call for each process of this user. If it is not
/// forwarded, the other processes notice by their own timeouts.
bool GeneralServices::may_tell_all(Instant at) noexcept {
  if (at - tells_since_ >= kTellPeriod) {
    tells_since_ = at;
    tells_ = 0;
  }
  return tells_++ < kTellsPerPeriod;
}

bool GeneralServices::keep_early(const Arrival& arrival) noexcept {
  if (early_.size() >= kEarlyMax) return false;
  const auto octets =
      static_cast<std::ptrdiff_t>(device::pack_forwarded(arrival.incoming, message_));
  early_.push_back({.message = {message_.begin(), message_.begin() + octets},
                    .look_again = device::now() + kFirstLook,
                    .wait = kFirstLook});
  parts_.engine.note_deadline(early_.back().look_again);
  return true;
}

Duration GeneralServices::patience_with(const Arrival& arrival) const noexcept {
  const wire::Addressee to = wire::addressee_of(arrival.packet.payload());
  const auto* service = std::get_if<wire::ServiceId>(&to);
  const bool is_connected =
      service != nullptr && agent_->has_connection(*service, address_of(arrival.incoming));
  return is_connected ? kLastLookOfConnected : kLastLook;
}

/// Forwards the requests for which there is a listener now, and refuses those that have waited long
/// enough.
void GeneralServices::look_at_early(Instant at) noexcept {
  std::vector<EarlyRequest> all;
  all.swap(early_);
  for (EarlyRequest& early : all) {
    const auto incoming = device::unpack_forwarded(early.message);
    const auto packet = wire::PacketView::parse(incoming->octets);
    const auto seed = wire::IcrcSeed::of(incoming->local, incoming->source, incoming->destination,
                                         incoming->source_port);
    const Arrival arrival{
        .incoming = *incoming, .packet = *packet, .seed = seed, .was_forwarded = true};
    if (early.look_again > at) {
      early_.push_back(std::move(early));
      continue;
    }
    const Recipient recipient = forward_elsewhere(arrival);
    if (recipient == Recipient::kNone && early.wait < patience_with(arrival)) {
      early.wait *= 2;
      early.look_again = at + early.wait;
      early_.push_back(std::move(early));
    } else if (recipient != Recipient::kAnother) {
      take(arrival);
    }
  }
}

/// Whether a socket of the claims or of the watch is readable.
bool GeneralServices::has_news() const noexcept {
  pollfd readable{.fd = epoll_.number(), .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 1;
}

void GeneralServices::note_deaths() noexcept {
  const Instant at = device::now();
  for (const std::uint32_t slot : watch_.take_deaths()) {
    deaths_.push_back({.slot = slot,
                       .communications = communications_with(slot),
                       .look_again = at,
                       .wait = kFirstLook});
  }
}

/// The number of the queue pair at the other end contains the slot of its process: at the addresses
/// of this host all numbers do.
std::vector<wire::CommId> GeneralServices::communications_with(std::uint32_t slot) const {
  return agent_->find_all([&](const cm::QpSettings& settings) {
    return device::slot_of(settings.remote_qpn) == slot &&
           parts_.port.has(settings.address.remote) &&
           user_of_slot(slot, settings.address.remote) != link::SharedPort::SlotUser::kAnotherUser;
  });
}

/// After the end of a process one of the others steers its traffic anew. Each of the others ends
/// its communications with it, once a datagram to it cannot be lost in a socket that is about to be
/// closed: the disconnect then finds no process and is acknowledged here. If a new process has got
/// the slot, only the communications that are older than its start are ended.
void GeneralServices::look_at_deaths(Instant at) noexcept {
  if (deaths_.empty()) return;
  const auto living = claims_.read_directory().value_or(host::ServiceDirectory{}).slots;
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
      if (!living.empty() && living.front() == parts_.slot.number()) claims_.steer_all();
      for (const wire::CommId id :
           is_listed ? death.communications : communications_with(death.slot)) {
        (void)agent_->disconnect(at, id);  // refused where there is nothing to end
      }
    }
  }
  serve();
}

/// The descriptor of a connection that has ended would stay readable.
void GeneralServices::take_subnet_answers() noexcept {
  if (!subnet_.is_open()) return;
  const bool had_ended = subnet_.has_ended();
  subnet_.receive();
  if (!had_ended && subnet_.has_ended()) {
    (void)::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, subnet_.descriptor(), nullptr);
  }
  while (const auto departure = subnet_.poll_departure()) handle_departure(*departure);
  serve();
}

/// On another host the kernel would send disconnect requests for a process that was killed. The
/// communications with the process are those with queue pairs of its slot.
void GeneralServices::handle_departure(const host::FabricDeparture& departure) noexcept {
  const unsigned last = departure.lid + (1U << departure.lmc) - 1;
  const auto ended = agent_->find_all([&](const cm::QpSettings& settings) {
    const auto lid = static_cast<unsigned>(settings.address.route.destination);
    return lid >= departure.lid && lid <= last &&
           device::slot_of(settings.remote_qpn) == departure.slot;
  });
  for (const wire::CommId id : ended) {
    (void)agent_->handle_peer_end(device::now(), id);  // the user may have destroyed it
  }
}

void GeneralServices::take_forwarded() noexcept {
  take_subnet_answers();
  note_deaths();
  look_at_deaths(device::now());
  for (std::size_t i = 0; i < claims_.count(); ++i) {
    for (int count = 0; count < kRequestsPerTurn && i < claims_.count(); ++count) {
      const auto message = claims_.take_forwarded(i, message_);
      if (!message) break;
      // The message is handled from a copy: answers are written into the same room.
      const std::vector<std::byte> request(message->begin(), message->end());
      const auto incoming = device::unpack_forwarded(request);
      if (!incoming) continue;
      parts_.dispatch.handle(*incoming, loop::ArrivedBy::kForwarding, device::now());
    }
  }
}

void GeneralServices::handle_first_data(wire::CommId communication) noexcept {
  (void)agent_->handle_first_data(device::now(), communication);  // it may have ended since
  serve();
}

// ---- Out ----

void GeneralServices::send() noexcept {
  while (auto datagram = agent_->poll_transmit()) transmit(*datagram);
  parts_.link->flush(device::now());
  parts_.engine.note_deadline(next_deadline());
}

void GeneralServices::serve() noexcept {
  send();
  const bool has_events = agent_->has_events() || subnet_.has_answers();
  if (reader_ != nullptr && has_events) parts_.engine.note_management_news();
}

void GeneralServices::deliver_news() noexcept {
  Device* reader = nullptr;
  {
    const host::AdapterGuard lock(parts_.lock);
    reader = reader_;
  }
  if (reader != nullptr) reader->handle_news();
}

void GeneralServices::handle_port_change(const device::PortChange& change) noexcept {
  if (reader_ == nullptr) return;
  port_changes_.push_back(change);
  parts_.engine.note_management_news();
}

std::optional<device::PortChange> GeneralServices::poll_port_change() noexcept {
  if (port_changes_.empty()) return std::nullopt;
  device::PortChange change = std::move(port_changes_.front());
  port_changes_.pop_front();
  return change;
}

void GeneralServices::run_timer(Instant at) noexcept {
  if (next_deadline() > at) return;
  look_at_early(at);
  look_at_deaths(at);
  agent_->handle_timeout(at);
  subnet_.handle_timeout(at);
  serve();
}

Instant GeneralServices::next_deadline() const noexcept {
  if (agent_ == nullptr) return Instant::never();
  Instant earliest =
      std::min(agent_->next_timeout().value_or(Instant::never()), subnet_.next_timeout());
  for (const EarlyRequest& early : early_) earliest = std::min(earliest, early.look_again);
  for (const Death& death : deaths_) earliest = std::min(earliest, death.look_again);
  return earliest;
}

// ---- The subnet ----

/// Two threads may connect at the same time; the second connection is closed again.
Status GeneralServices::reach_subnet() {
  std::optional<device::FabricPort> port;
  {
    const host::AdapterGuard lock(parts_.lock);
    port = parts_.port.fabric;
    if (!port) return Errc::kNoDevice;
    if (subnet_.is_open()) return Ok{};
  }
  const device::ForkPause pause;
  auto opened = SubnetClient::open(*port);
  if (!opened) return opened.error();
  const host::AdapterGuard lock(parts_.lock);
  if (subnet_.is_open()) return Ok{};
  epoll_event readable{.events = EPOLLIN, .data = {.fd = opened->descriptor()}};
  if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, opened->descriptor(), &readable) != 0) {
    return Errc::kNoMemory;
  }
  subnet_ = std::move(*opened);
  return Ok{};
}

Expected<wire::Gid> GeneralServices::find_node(std::uint32_t address) {
  int descriptor = -1;
  {
    const host::AdapterGuard lock(parts_.lock);
    if (!subnet_.has_ended()) descriptor = subnet_.descriptor();
  }
  if (descriptor < 0) return Errc::kNoDevice;
  return SubnetClient::find_node(descriptor, address);
}

Expected<SubnetToken> GeneralServices::ask_subnet(
    std::span<const std::byte, wire::Mad::kSize> octets, Duration patience) {
  if (!parts_.port.fabric) return Errc::kNoDevice;
  auto token = subnet_.post(device::now(), *parts_.port.fabric, octets, patience);
  parts_.engine.note_deadline(next_deadline());
  if (subnet_.has_answers()) serve();
  return token;
}

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#include "udp/udp_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/uncancelled.h"
#include "udp/lent_socket.h"
#include "udp/train_receiver.h"
#include "udp/train_sender.h"
#include "udp/udp_table.h"
#include "wire/headers/flow_entropy.h"

namespace verbatim::link {

namespace {

constexpr std::uint32_t kDynamicPorts = 0x4000;  // 0xc000 to 0xffff
constexpr std::uint32_t kPortTries = 256;        // per sending socket
constexpr std::uint32_t kPortStride = 61;        // apart, so that hashes of neighbours differ
constexpr std::size_t kLargestReceiveBuffer = std::size_t{1} << 30;
constexpr std::uint32_t kBurstsInARow = 16;  // from one socket before the others are looked at

/// A socket to send from. Its settings become those of the first packet, because most processes use
/// one setting only.
struct Sender {
  UdpSocket socket;
  std::uint16_t port = 0;
  bool is_used = false;
  UdpSocket::PacketSettings settings{};
};

struct LocalPort {
  LocalAddress address{};
  UdpSocket receiver;
  std::array<Sender, UdpLink::kSourcePorts> senders;
};

/// The system's list may miss a socket while other sockets change. Twice in a row is unlikely.
bool is_alone(const LocalAddress& address) {
  const auto says_one = [&] { return count_sockets(address, kRocePort) == std::size_t{1}; };
  return says_one() && says_one();
}

Status open_senders(LocalPort& local, std::uint32_t slot, std::uint32_t index) noexcept {
  for (std::uint32_t i = 0; i < UdpLink::kSourcePorts; ++i) {
    std::uint32_t candidate =
        ((slot + index) * static_cast<std::uint32_t>(UdpLink::kSourcePorts) + i) * kPortStride;
    Status last = Errc::kAddressInUse;
    for (std::uint32_t tries = 0; tries < kPortTries && !last; ++tries, ++candidate) {
      const auto port =
          static_cast<std::uint16_t>(wire::kFirstEntropyPort + candidate % kDynamicPorts);
      auto sender = UdpSocket::open_sender(local.address, port);
      if (!sender && sender.error() != Errc::kAddressInUse) return sender.error();
      if (!sender) continue;
      local.senders[i] = {.socket = std::move(*sender), .port = port};
      last = Ok{};
    }
    if (!last) return last;
  }
  return Ok{};
}

}  // namespace

struct UdpLink::State {
  std::uint32_t slot = 0;
  Trains trains = Trains::kYes;
  bool tells_headers = false;  // traffic class and hop limit come with every packet
  std::vector<LocalPort> locals;
  std::vector<int> descriptors;  // the receivers', in the order of `locals`

  Burst outgoing;                                       // the owner writes packets into it
  std::array<TrainSender::Exit, Burst::kTrains> exits;  // of the trains that are being sent
  TrainSender sender;
  TrainReceiver receiver;
  std::vector<pollfd> polled;         // the receivers
  std::size_t current = 0;            // the receiver that had a packet last
  std::uint32_t bursts_in_a_row = 0;  // from that receiver
  Outgoing last_to;                   // where a train went
  std::optional<TrainSender::Exit> last_exit;

  [[nodiscard]] Status add(ReceivingSocket added) noexcept;
  void prepare_receiving() noexcept;
  [[nodiscard]] const LocalPort* find(const wire::Gid& gid) const noexcept;
  [[nodiscard]] LocalPort* find(const wire::Gid& gid) noexcept {
    return const_cast<LocalPort*>(std::as_const(*this).find(gid));
  }
  [[nodiscard]] const TrainSender::Exit& exit_of(const Outgoing& to) noexcept;
  [[nodiscard]] TrainSender::Exit find_exit(const Outgoing& to) noexcept;
  [[nodiscard]] bool move_to_a_ready_socket() noexcept;
  [[nodiscard]] std::span<const Incoming> receive_burst(LinkCounters& counters) noexcept;
};

UdpLink::UdpLink() = default;
UdpLink::~UdpLink() = default;

Status UdpLink::open(std::span<const LocalAddress> addresses, std::uint32_t slot,
                     Trains trains) noexcept {
  if (state_ != nullptr) return Errc::kBusy;
  std::vector<ReceivingSocket> receivers;
  for (const LocalAddress& address : addresses) {
    const bool is_known = std::any_of(
        receivers.begin(), receivers.end(),
        [&](const ReceivingSocket& receiver) { return receiver.address.gid == address.gid; });
    if (is_known) continue;
    auto socket = UdpSocket::open_receiver(address, kRocePort);
    if (!socket && socket.error() == Errc::kNoDevice) continue;
    if (!socket) return socket.error();
    receivers.push_back({.address = address, .socket = std::move(*socket)});
  }
  return open(std::move(receivers), slot, trains);
}

Status UdpLink::open(std::vector<ReceivingSocket> receivers, std::uint32_t slot,
                     Trains trains) noexcept {
  if (state_ != nullptr) return Errc::kBusy;
  std::unique_ptr<State> state(new (std::nothrow) State);
  if (state == nullptr) return Errc::kNoMemory;
  state->slot = slot;
  state->trains = trains;
  for (ReceivingSocket& receiver : receivers) {
    if (auto added = state->add(std::move(receiver)); !added) return added;
  }
  if (state->locals.empty()) return Errc::kNoDevice;
  state->prepare_receiving();
  state->outgoing.use_trains(trains == Trains::kYes);
  state_ = std::move(state);
  write_to(&state_->outgoing);
  return Ok{};
}

Status UdpLink::State::add(ReceivingSocket added) noexcept {
  LocalPort local;
  local.address = added.address;
  local.receiver = std::move(added.socket);
  const auto index = static_cast<std::uint32_t>(locals.size());
  if (auto opened = open_senders(local, slot, index); !opened) return opened;
  // If the system cannot do that, trains arrive as single packets.
  if (trains == Trains::kYes) (void)local.receiver.keep_trains();
  if (tells_headers) (void)local.receiver.tell_headers(local.address, true);
  locals.push_back(std::move(local));
  return Ok{};
}

Status UdpLink::add(ReceivingSocket receiver) noexcept {
  if (state_ == nullptr) return Errc::kNoDevice;
  if (state_->find(receiver.address.gid) != nullptr) return Errc::kAlreadyExists;
  auto added = state_->add(std::move(receiver));
  state_->prepare_receiving();
  return added;
}

void UdpLink::close() noexcept {
  write_to(nullptr);
  state_.reset();
}

Status UdpLink::join(const LocalAddress& group) noexcept {
  if (state_ == nullptr || !group.gid.is_multicast()) return Errc::kInvalidArgument;
  if (state_->find(group.gid) != nullptr) return Errc::kAlreadyExists;
  auto socket = UdpSocket::open_group(group, kRocePort);
  if (!socket) return socket.error();
  LocalPort local;
  local.address = group;
  local.receiver = std::move(*socket);
  state_->locals.push_back(std::move(local));  // without senders: no packet leaves from it
  state_->prepare_receiving();
  return Ok{};
}

Status UdpLink::leave(const LocalAddress& group) noexcept {
  const LocalPort* local = state_ != nullptr ? state_->find(group.gid) : nullptr;
  if (local == nullptr || !group.gid.is_multicast()) return Errc::kNoSuchObject;
  state_->locals.erase(state_->locals.begin() + (local - state_->locals.data()));
  state_->prepare_receiving();
  return Ok{};
}

std::uint16_t UdpLink::source_port(const wire::Gid& source, std::uint16_t entropy) const noexcept {
  const LocalPort* local = state_ != nullptr ? state_->find(source) : nullptr;
  return local != nullptr ? local->senders[entropy % kSourcePorts].port : std::uint16_t{0};
}

void UdpLink::steer(const wire::Gid& local, std::span<const ServiceRoute> routes,
                    std::uint32_t fallback) noexcept {
  if (state_ == nullptr) return;
  for (LocalPort& port : state_->locals) {
    if (port.address.gid != local) continue;
    // A process that does not share the port needs no steering program, which costs time. If the
    // system takes no program, packets are forwarded.
    if (!is_alone(port.address)) (void)port.receiver.steer(routes, fallback);
  }
}

std::optional<uid_t> UdpLink::lender_at(const wire::Gid& local) const noexcept {
  const LocalPort* port = state_ != nullptr ? state_->find(local) : nullptr;
  return port != nullptr ? lender_of(port->receiver.descriptor()) : std::nullopt;
}

void UdpLink::tell_headers() noexcept {
  if (state_ == nullptr || state_->tells_headers) return;
  state_->tells_headers = true;
  for (LocalPort& port : state_->locals) (void)port.receiver.tell_headers(port.address, true);
}

[[gnu::flatten]] void UdpLink::send(Instant /*now*/, Burst& burst) noexcept {
  if (state_ == nullptr) return;
  State& state = *state_;
  std::size_t count = 0;
  for (const Burst::Train& train : burst.trains()) {
    const TrainSender::Exit& exit = state.exit_of(train.to);
    if (exit.socket < 0) counters_.send_failures += train.packets;
    state.exits[count++] = exit;
  }
  state.sender.send(burst, std::span(state.exits).first(count), counters_);
}

std::span<const Incoming> UdpLink::receive(Instant /*now*/, Look look) noexcept {
  if (state_ == nullptr) return {};
  State& state = *state_;
  std::span<const Incoming> burst;
  if (state.bursts_in_a_row < kBurstsInARow) {
    burst = state.receive_burst(counters_);
    if (look == Look::kAtTheLastAddress) return burst;
  }
  if (burst.empty() && state.move_to_a_ready_socket()) burst = state.receive_burst(counters_);
  return burst;
}

std::size_t UdpLink::receive_buffer_octets() const noexcept {
  std::size_t smallest = kLargestReceiveBuffer;
  for (const int socket : descriptors()) {
    int octets = 0;
    socklen_t size = sizeof octets;
    if (::getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &octets, &size) != 0 || octets <= 0) continue;
    smallest = std::min(smallest, static_cast<std::size_t>(octets));
  }
  return smallest;
}

std::span<const int> UdpLink::descriptors() const noexcept {
  if (state_ == nullptr) return {};
  return state_->descriptors;
}

const LocalPort* UdpLink::State::find(const wire::Gid& gid) const noexcept {
  const auto found = std::find_if(locals.begin(), locals.end(),
                                  [&](const LocalPort& local) { return local.address.gid == gid; });
  return found != locals.end() ? &*found : nullptr;
}

/// An exit without a socket when the packet cannot leave: its source is no address or port of this
/// link, or its destination is of another family. Most trains go to the destination of the last
/// one, so that exit is kept.
const TrainSender::Exit& UdpLink::State::exit_of(const Outgoing& to) noexcept {
  if (!last_exit || to != last_to) {
    last_exit = find_exit(to);
    last_to = to;
  }
  return *last_exit;
}

TrainSender::Exit UdpLink::State::find_exit(const Outgoing& to) noexcept {
  LocalPort* local = find(to.source);
  if (local == nullptr || to.destination.is_ipv4_mapped() != to.source.is_ipv4_mapped()) {
    return {};
  }
  const auto found = std::ranges::find(local->senders, to.source_port, &Sender::port);
  if (found == local->senders.end() || to.source_port == 0) return {};  // 0: the port of a group
  Sender& chosen = *found;
  if (!chosen.is_used) {
    chosen.is_used = true;
    const UdpSocket::PacketSettings settings = TrainSender::settings_of(to);
    const bool is_ipv4 = to.source.is_ipv4_mapped();
    if (chosen.socket.change_settings(settings, is_ipv4)) {
      chosen.settings = settings;
    } else {
      (void)chosen.socket.change_settings(chosen.settings,
                                          is_ipv4);  // the settings that it was opened with
    }
  }
  return TrainSender::Exit{.socket = chosen.socket.descriptor(),
                           .scope = local->address.scope,
                           .settings = chosen.settings};
}

void UdpLink::State::prepare_receiving() noexcept {
  descriptors.clear();
  polled.clear();
  current = 0;
  last_exit.reset();  // the sockets may be others
  for (const LocalPort& local : locals) {
    descriptors.push_back(local.receiver.descriptor());
    polled.push_back({.fd = local.receiver.descriptor(), .events = POLLIN, .revents = 0});
  }
}

/// Looks at all receivers in one call, and makes the next one after the current that has a packet
/// the current one.
bool UdpLink::State::move_to_a_ready_socket() noexcept {
  const bool rested = bursts_in_a_row >= kBurstsInARow;
  bursts_in_a_row = 0;
  if (locals.size() == 1) return rested;  // true: the only one has not been read since
  const Uncancelled uncancelled;
  if (::poll(polled.data(), polled.size(), 0) <= 0) return false;
  for (std::size_t step = 1; step <= polled.size(); ++step) {
    const std::size_t candidate = (current + step) % polled.size();
    if (polled[candidate].revents == 0) continue;
    current = candidate;
    return true;
  }
  return false;
}

/// Reads from the current receiver, in one system call.
std::span<const Incoming> UdpLink::State::receive_burst(LinkCounters& counters) noexcept {
  const LocalPort& local = locals[current];
  const auto burst = receiver.receive(local.receiver.descriptor(), local.address.gid, counters);
  if (!burst.empty()) ++bursts_in_a_row;
  return burst;
}

}  // namespace verbatim::link

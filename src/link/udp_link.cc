// SPDX-License-Identifier: Apache-2.0
#include "link/udp_link.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "link/socket_address.h"
#include "wire/flow_entropy.h"

namespace verbatim::link {

namespace {

constexpr std::uint32_t kDynamicPorts = 0x4000;  // 0xc000 to 0xffff
constexpr std::uint32_t kPortTries = 256;        // per sending socket
constexpr std::uint32_t kPortStride = 61;        // apart, so that hashes of neighbours differ
constexpr int kSendPatienceMs = 1;               // for a full send buffer, once per flush
constexpr std::uint32_t kBurstsInARow = 16;      // from one socket before the others get a look

/// Room for traffic class and hop limit, in either direction.
struct Control {
  alignas(cmsghdr) std::byte octets[2 * CMSG_SPACE(sizeof(int))];
};

struct LocalPort {
  LocalAddress address{};
  UdpSocket receiver;
  std::array<UdpSocket, UdpLink::kSourcePorts> senders;
  std::array<std::uint16_t, UdpLink::kSourcePorts> source_ports{};
};

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
      local.senders[i] = std::move(*sender);
      local.source_ports[i] = port;
      last = Ok{};
    }
    if (!last) return last;
  }
  return Ok{};
}

/// Appends one number to a message's control data.
void append_control(msghdr& message, int level, int type, int value) noexcept {
  auto* at = static_cast<std::byte*>(message.msg_control) + message.msg_controllen;
  cmsghdr part{};
  part.cmsg_len = CMSG_LEN(sizeof value);
  part.cmsg_level = level;
  part.cmsg_type = type;
  std::memset(at, 0, CMSG_SPACE(sizeof value));
  std::memcpy(at, &part, sizeof part);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

/// Traffic class and hop limit travel beside a packet only where the socket would do otherwise.
void store_control(msghdr& message, Control& room, const Outgoing& to, bool is_ipv4) noexcept {
  const int hop_limit = to.hop_limit != 0 ? to.hop_limit : UdpSocket::kDefaultHopLimit;
  message.msg_control = room.octets;
  message.msg_controllen = 0;
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (to.traffic_class != UdpSocket::kDefaultTrafficClass) {
    append_control(message, level, is_ipv4 ? IP_TOS : IPV6_TCLASS, to.traffic_class);
  }
  if (hop_limit != UdpSocket::kDefaultHopLimit) {
    append_control(message, level, is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, hop_limit);
  }
}

/// Reads what the kernel says beside a packet. The IPv4 traffic class is one octet, all else ints.
void read_control(msghdr& message, Incoming& packet) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const bool is_ipv4 = part->cmsg_level == IPPROTO_IP;
    if (!is_ipv4 && part->cmsg_level != IPPROTO_IPV6) continue;
    if (is_ipv4 && part->cmsg_type == IP_TOS) {
      std::memcpy(&packet.traffic_class, CMSG_DATA(part), 1);
      continue;
    }
    int value = 0;
    if (part->cmsg_len < CMSG_LEN(sizeof value)) continue;
    std::memcpy(&value, CMSG_DATA(part), sizeof value);
    if (part->cmsg_type == (is_ipv4 ? IP_TTL : IPV6_HOPLIMIT)) {
      packet.hop_limit = static_cast<std::uint8_t>(value);
    } else if (!is_ipv4 && part->cmsg_type == IPV6_TCLASS) {
      packet.traffic_class = static_cast<std::uint8_t>(value);
    }
  }
}

}  // namespace

struct UdpLink::State {
  /// The buffers of one direction; entry i of each array belongs to packet i of the burst.
  struct Burst {
    std::array<std::array<std::byte, kFrameOctets>, kBurst> frames;
    std::array<iovec, kBurst> parts{};
    std::array<SocketAddress, kBurst> names{};
    std::array<Control, kBurst> controls{};
    std::array<mmsghdr, kBurst> messages{};
  };

  std::vector<LocalPort> locals;
  std::vector<int> descriptors;  // the receivers', in the order of `locals`

  Burst outgoing;
  std::array<int, kBurst> socket_of{};     // descriptor that packet i leaves from
  std::size_t pending = 0;                 // packets committed and not yet flushed
  std::array<mmsghdr, kBurst> one_socket;  // the messages of a burst that leave from one socket

  Burst incoming;
  std::array<Incoming, kBurst> received{};
  std::vector<pollfd> polled;         // the receivers
  std::size_t current = 0;            // receiver that had something last
  std::uint32_t bursts_in_a_row = 0;  // that it gave

  void prepare_receiving() noexcept;
  [[nodiscard]] const LocalPort* find(const wire::Gid& gid) const noexcept;
  [[nodiscard]] bool move_to_a_ready_socket() noexcept;
  [[nodiscard]] std::size_t receive_burst(Counters& counters) noexcept;
  void send(int socket, std::span<mmsghdr> messages, Counters& counters) noexcept;
};

UdpLink::UdpLink() = default;
UdpLink::~UdpLink() = default;

Status UdpLink::open(std::span<const LocalAddress> addresses, std::uint32_t slot) noexcept {
  if (state_ != nullptr) return Errc::kBusy;
  std::unique_ptr<State> state(new (std::nothrow) State);
  if (state == nullptr) return Errc::kNoMemory;
  for (const LocalAddress& address : addresses) {
    if (state->find(address.gid) != nullptr) continue;
    LocalPort local;
    local.address = address;
    auto receiver = UdpSocket::open_receiver(address, kRocePort);
    if (!receiver && receiver.error() == Errc::kNoDevice) continue;
    if (!receiver) return receiver.error();
    local.receiver = std::move(*receiver);
    const auto index = static_cast<std::uint32_t>(state->locals.size());
    if (auto opened = open_senders(local, slot, index); !opened) return opened;
    state->locals.push_back(std::move(local));
  }
  if (state->locals.empty()) return Errc::kNoDevice;
  state->prepare_receiving();
  state_ = std::move(state);
  return Ok{};
}

void UdpLink::close() noexcept { state_.reset(); }

std::uint16_t UdpLink::source_port(const wire::Gid& source, std::uint16_t entropy) const noexcept {
  const LocalPort* local = state_ != nullptr ? state_->find(source) : nullptr;
  return local != nullptr ? local->source_ports[entropy % kSourcePorts] : std::uint16_t{0};
}

std::span<std::byte> UdpLink::next_frame() noexcept {
  if (state_ == nullptr) return {};
  return state_->outgoing.frames[state_->pending];
}

void UdpLink::commit(const Outgoing& to, std::size_t octets) noexcept {
  VB_ASSERT(state_ != nullptr && octets <= kFrameOctets);
  const LocalPort* local = state_->find(to.source);
  const bool is_ipv4 = to.destination.is_ipv4_mapped();
  if (local == nullptr || is_ipv4 != to.source.is_ipv4_mapped()) {
    ++counters_.send_failures;
    return;
  }
  const auto& ports = local->source_ports;
  const auto found = std::find(ports.begin(), ports.end(), to.source_port);
  if (found == ports.end()) {
    ++counters_.send_failures;
    return;
  }
  const std::size_t i = state_->pending++;
  state_->socket_of[i] =
      local->senders[static_cast<std::size_t>(found - ports.begin())].descriptor();
  auto& burst = state_->outgoing;
  burst.parts[i] = {.iov_base = burst.frames[i].data(), .iov_len = octets};
  msghdr& message = burst.messages[i].msg_hdr;
  message = {};
  message.msg_namelen =
      store_address(burst.names[i], to.destination, kRocePort, local->address.scope);
  message.msg_name = &burst.names[i];
  message.msg_iov = &burst.parts[i];
  message.msg_iovlen = 1;
  store_control(message, burst.controls[i], to, is_ipv4);
  if (state_->pending == kBurst) flush();
}

/// Packets that leave from one socket keep their order; different sockets are different flows.
void UdpLink::flush() noexcept {
  if (state_ == nullptr) return;
  State& state = *state_;
  constexpr int kSent = -1;
  for (std::size_t first = 0; first < state.pending; ++first) {
    const int socket = state.socket_of[first];
    if (socket == kSent) continue;
    std::size_t count = 0;
    for (std::size_t i = first; i < state.pending; ++i) {
      if (state.socket_of[i] != socket) continue;
      state.one_socket[count++] = state.outgoing.messages[i];
      state.socket_of[i] = kSent;
    }
    state.send(socket, std::span(state.one_socket).first(count), counters_);
  }
  state.pending = 0;
}

std::span<const Incoming> UdpLink::receive() noexcept {
  if (state_ == nullptr) return {};
  State& state = *state_;
  std::size_t count = 0;
  if (state.bursts_in_a_row < kBurstsInARow) count = state.receive_burst(counters_);
  if (count == 0 && state.move_to_a_ready_socket()) count = state.receive_burst(counters_);
  return std::span(state.received).first(count);
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

void UdpLink::State::prepare_receiving() noexcept {
  for (const LocalPort& local : locals) {
    descriptors.push_back(local.receiver.descriptor());
    polled.push_back({.fd = local.receiver.descriptor(), .events = POLLIN, .revents = 0});
  }
  for (std::size_t i = 0; i < kBurst; ++i) {
    incoming.parts[i] = {.iov_base = incoming.frames[i].data(), .iov_len = kFrameOctets};
    msghdr& message = incoming.messages[i].msg_hdr;
    message.msg_name = &incoming.names[i];
    message.msg_namelen = sizeof incoming.names[i];
    message.msg_iov = &incoming.parts[i];
    message.msg_iovlen = 1;
    message.msg_control = incoming.controls[i].octets;
    message.msg_controllen = sizeof incoming.controls[i].octets;
  }
}

/// Looks at all receivers at once, and goes on to the next behind the current one that has
/// something.
bool UdpLink::State::move_to_a_ready_socket() noexcept {
  const bool rested = bursts_in_a_row >= kBurstsInARow;
  bursts_in_a_row = 0;
  if (locals.size() == 1) return rested;  // the only one was not asked yet
  if (::poll(polled.data(), polled.size(), 0) <= 0) return false;
  for (std::size_t step = 1; step <= polled.size(); ++step) {
    const std::size_t candidate = (current + step) % polled.size();
    if (polled[candidate].revents == 0) continue;
    current = candidate;
    return true;
  }
  return false;
}

/// One system call; the packets found are the first of `received`.
std::size_t UdpLink::State::receive_burst(Counters& counters) noexcept {
  const int got =
      ::recvmmsg(descriptors[current], incoming.messages.data(), kBurst, MSG_DONTWAIT, nullptr);
  if (got <= 0) return 0;
  ++bursts_in_a_row;
  std::size_t count = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
    msghdr& message = incoming.messages[i].msg_hdr;
    if ((message.msg_flags & MSG_TRUNC) != 0) {
      ++counters.overlong;
    } else {
      Incoming& packet = received[count++];
      packet = {.source = gid_of(incoming.names[i]),
                .destination = locals[current].address.gid,
                .source_port = port_of(incoming.names[i]),
                .octets = std::span(incoming.frames[i]).first(incoming.messages[i].msg_len)};
      read_control(message, packet);
    }
    message.msg_namelen = sizeof incoming.names[i];
    message.msg_controllen = sizeof incoming.controls[i].octets;
    message.msg_flags = 0;
  }
  counters.packets_received += count;
  return count;
}

/// Every turn sends something, drops something, or uses up the one wait: so it ends.
void UdpLink::State::send(int socket, std::span<mmsghdr> messages, Counters& counters) noexcept {
  bool waited = false;
  while (!messages.empty()) {
    const int sent = ::sendmmsg(socket, messages.data(), static_cast<unsigned>(messages.size()),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      counters.packets_sent += static_cast<std::uint64_t>(sent);
      messages = messages.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    const bool is_full = errno == EAGAIN || errno == ENOBUFS || errno == EINTR;
    if (is_full && !waited) {
      pollfd writable{.fd = socket, .events = POLLOUT, .revents = 0};
      (void)::poll(&writable, 1, kSendPatienceMs);  // the next try tells
      waited = true;
    } else if (is_full) {
      counters.send_failures += messages.size();
      return;
    } else {
      ++(errno == EMSGSIZE ? counters.too_large : counters.send_failures);
      messages = messages.subspan(1);
    }
  }
}

}  // namespace verbatim::link

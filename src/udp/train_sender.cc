// SPDX-License-Identifier: Apache-2.0
#include "udp/train_sender.h"

#include <linux/udp.h>
#include <poll.h>

#include <cerrno>

#include "udp/socket_calls.h"
#include "udp/udp_link.h"
#include "wire/crc/icrc.h"

namespace verbatim::link {

namespace {

constexpr int kSendPatienceMs = 1;  // for a full send buffer, once per burst

/// Errors that mean that the kernel cannot send a train, on this route or at all. Single packets
/// may work.
bool refuses_trains(int error) noexcept {
  return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP ||
         error == ENOPROTOOPT;
}

}  // namespace

[[gnu::flatten]] void TrainSender::send(Burst& burst, std::span<Exit> exits,
                                        LinkCounters& counters) noexcept {
  waited_ = false;
  for (std::size_t first = 0; first < exits.size(); ++first) {
    const int socket = exits[first].socket;
    if (socket >= 0) send_from(socket, burst, exits, counters);
  }
}

/// Writes the destination of a message, and the settings that differ from the socket's own.
void TrainSender::address(msghdr& message, const Chosen& chosen, SocketAddress& name,
                          Control& room) noexcept {
  const Outgoing& to = chosen.train->to;
  const bool is_ipv4 = chosen.train->is_ipv4;
  message = {};
  message.msg_name = &name;
  message.msg_namelen = store_address(name, to.destination, kRocePort, chosen.exit.scope);
  message.msg_control = room.octets;
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  const UdpSocket::PacketSettings wanted = settings_of(to);
  const UdpSocket::PacketSettings& of_socket = chosen.exit.settings;
  if (wanted.traffic_class != of_socket.traffic_class) {
    append_control(message, level, is_ipv4 ? IP_TOS : IPV6_TCLASS, int{wanted.traffic_class});
  }
  if (wanted.hop_limit != of_socket.hop_limit) {
    append_control(message, level, is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, int{wanted.hop_limit});
  }
}

/// Sends all trains of one socket. It ends, because every turn sends something, drops something, or
/// uses up the only wait.
void TrainSender::send_from(int socket, Burst& burst, std::span<Exit> exits,
                            LinkCounters& counters) noexcept {
  const auto trains = burst.trains();
  std::size_t count = 0;
  for (std::size_t i = 0; i < exits.size(); ++i) {
    if (exits[i].socket != socket) continue;
    chosen_[count] = {.train = &trains[i], .exit = exits[i]};
    exits[i].socket = -1;
    const Burst::Train& train = trains[i];
    parts_[count] = {.iov_base = burst.octets_of(train).data(), .iov_len = train.octets};
    msghdr& message = messages_[count].msg_hdr;
    address(message, chosen_[count], names_[count], controls_[count]);
    message.msg_iov = &parts_[count];
    message.msg_iovlen = 1;
    if (train.packets > 1) {
      append_control(message, IPPROTO_UDP, UDP_SEGMENT,
                     static_cast<std::uint16_t>(train.packet_octets));
    }
    ++count;
  }
  for (std::size_t at = 0; at < count;) {
    const int sent = system_sendmmsg(socket, &messages_[at], count - at);
    if (sent > 0) {
      for (const std::size_t end = at + static_cast<std::size_t>(sent); at < end; ++at) {
        Burst::Train& train = *chosen_[at].train;
        counters.packets_sent += train.packets;
        counters.trains_sent += train.packets > 1;
        train.note_all_sent();
      }
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == ENOBUFS || error == EINTR) {
      if (wait_writable(socket)) continue;
      for (; at < count; ++at) counters.send_failures += chosen_[at].train->packets;
    } else if (chosen_[at].train->packets > 1 && refuses_trains(error)) {
      if (error != EMSGSIZE && error != EINVAL) burst.use_trains(false);  // nor later
      send_apart(chosen_[at++], burst, counters);
    } else {
      ++(error == EMSGSIZE ? counters.too_large : counters.send_failures);
      ++at;
    }
  }
}

bool TrainSender::wait_writable(int socket) noexcept {
  if (waited_) return false;
  waited_ = true;
  pollfd writable{.fd = socket, .events = POLLOUT, .revents = 0};
  (void)::poll(&writable, 1, kSendPatienceMs);  // the next try shows the result
  return true;
}

/// For a train that the kernel did not take. Packets that are sent alone have identification 0.
void TrainSender::send_apart(const Chosen& chosen, Burst& burst, LinkCounters& counters) noexcept {
  Burst::Train& train = *chosen.train;
  for (std::size_t number = 0; number < train.packets; ++number) {
    const auto packet = burst.packet(train, number);
    if (train.is_ipv4) {
      wire::change_identification(packet, static_cast<std::uint16_t>(number), 0);
    }
    iovec part{.iov_base = packet.data(), .iov_len = packet.size()};
    SocketAddress name;
    Control room;
    msghdr message;
    address(message, chosen, name, room);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    bool sent = false;
    do {
      sent = ::sendmsg(chosen.exit.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    } while (!sent && (errno == EAGAIN || errno == ENOBUFS) && wait_writable(chosen.exit.socket));
    ++(sent                ? counters.packets_sent
       : errno == EMSGSIZE ? counters.too_large
                           : counters.send_failures);
    if (sent) train.sent_bits |= std::uint64_t{1} << number;
  }
  train.went_apart = true;
}

}  // namespace verbatim::link

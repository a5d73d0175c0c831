// SPDX-License-Identifier: Apache-2.0
#include "link/train_sender.h"

#include <linux/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "link/socket_calls.h"
#include "link/udp_link.h"
#include "wire/icrc.h"

namespace verbatim::link {

namespace {

constexpr int kSendPatienceMs = 1;           // for a full send buffer, once per flush
constexpr std::size_t kSlotOctetAt = 5;      // the upper one of BTH.DestQP
constexpr std::size_t kShortestPacket = 16;  // BTH and ICRC

/// The kernel cannot make a train of it, for this route or at all; packet by packet it may.
bool refuses_trains(int error) noexcept {
  return error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP ||
         error == ENOPROTOOPT;
}

}  // namespace

Frame TrainSender::next_frame() noexcept {
  VB_ASSERT(!is_full());
  Frame frame{.octets = std::span(buffer_).subspan(used_)};
  if (!use_trains_) return frame;
  frame.packets_max = kSegments;
  frame.octets_max = kTrainOctets;
  if (count_ == 0 || !trains_[count_ - 1].is_open) return frame;
  const Train& train = trains_[count_ - 1];
  if (train.is_ipv4) frame.identification = static_cast<std::uint16_t>(train.segments);
  frame.packet_octets = train.segment_octets;
  frame.packets_left = train.packets_left;
  return frame;
}

bool TrainSender::continues_train(const Outgoing& to, const Written& written) const noexcept {
  if (count_ == 0) return false;
  const Train& train = trains_[count_ - 1];
  const std::size_t of_equal_length = written.packets * train.segment_octets;
  const bool is_alike =
      written.packets == 1 ? written.octets <= of_equal_length : written.octets == of_equal_length;
  return train.is_open && is_alike && written.octets >= kShortestPacket &&
         written.packets <= train.packets_left &&
         written.identification == (train.is_ipv4 ? train.segments : 0) &&
         buffer_[used_ + kSlotOctetAt] == train.slot && to == train.to;
}

void TrainSender::join_train(const Written& written) noexcept {
  Train& train = trains_[count_ - 1];
  train.octets += written.octets;
  train.segments += written.packets;
  train.packets_left -= written.packets;
  train.is_open =
      written.octets == written.packets * train.segment_octets && train.packets_left > 0;
  used_ += written.octets;
}

void TrainSender::start_train(const Outgoing& to, Exit exit, const Written& written) noexcept {
  const std::size_t each = written.packets == 1 ? written.octets : written.octets / written.packets;
  const bool is_ipv4 = to.destination.is_ipv4_mapped();
  if (written.identification != 0 && is_ipv4 && each >= kShortestPacket) {
    for (std::size_t number = 0; number < written.packets; ++number) {
      wire::change_identification(std::span(buffer_).subspan(used_ + number * each, each),
                                  static_cast<std::uint16_t>(written.identification + number),
                                  static_cast<std::uint16_t>(number));
    }
  }
  Train& train = trains_[count_++];
  train.to = to;
  train.socket = exit.socket;
  train.of_socket = exit.manner;
  train.is_ipv4 = is_ipv4;
  train.slot = each > kSlotOctetAt ? buffer_[used_ + kSlotOctetAt] : std::byte{0};
  train.at = used_;
  train.octets = written.octets;
  train.segment_octets = each;
  train.segments = written.packets;
  const std::size_t longest = std::min(kSegments, kTrainOctets / std::max(each, kShortestPacket));
  train.packets_left = static_cast<std::uint32_t>(longest) - written.packets;
  train.is_open = use_trains_ && each >= kShortestPacket && train.packets_left > 0;
  train.name_octets = store_address(train.name, to.destination, kRocePort, exit.scope);
  used_ += written.octets;
}

Load TrainSender::load() const noexcept {
  Load load{.octets = used_};
  for (std::size_t i = 0; i < count_; ++i) load.packets += trains_[i].segments;
  return load;
}

[[gnu::flatten]] void TrainSender::flush(LinkCounters& counters) noexcept {
  waited_ = false;
  for (std::size_t first = 0; first < count_; ++first) {
    if (trains_[first].socket >= 0) send(trains_[first].socket, counters);
  }
  count_ = 0;
  used_ = 0;
}

/// Where a message goes, and what the socket would not do by itself.
void TrainSender::address(msghdr& message, const Train& train, Control& room) noexcept {
  message = {};
  message.msg_name = const_cast<SocketAddress*>(&train.name);
  message.msg_namelen = train.name_octets;
  message.msg_control = room.octets;
  const int level = train.is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  const UdpSocket::Manner wanted = manner_of(train.to);
  if (wanted.traffic_class != train.of_socket.traffic_class) {
    append_control(message, level, train.is_ipv4 ? IP_TOS : IPV6_TCLASS, int{wanted.traffic_class});
  }
  if (wanted.hop_limit != train.of_socket.hop_limit) {
    append_control(message, level, train.is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, int{wanted.hop_limit});
  }
}

/// Sends all trains of one socket. Every turn sends something, drops something, or uses up the one
/// wait: so it ends.
void TrainSender::send(int socket, LinkCounters& counters) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Train& train = trains_[i];
    if (train.socket != socket) continue;
    train.socket = -1;
    chosen_[count] = &train;
    parts_[count] = {.iov_base = buffer_.data() + train.at, .iov_len = train.octets};
    msghdr& message = messages_[count].msg_hdr;
    address(message, train, controls_[count]);
    message.msg_iov = &parts_[count];
    message.msg_iovlen = 1;
    if (train.segments > 1) {
      append_control(message, IPPROTO_UDP, UDP_SEGMENT,
                     static_cast<std::uint16_t>(train.segment_octets));
    }
    ++count;
  }
  for (std::size_t at = 0; at < count;) {
    const int sent = system_sendmmsg(socket, &messages_[at], count - at);
    if (sent > 0) {
      for (const std::size_t end = at + static_cast<std::size_t>(sent); at < end; ++at) {
        counters.packets_sent += chosen_[at]->segments;
        counters.trains_sent += chosen_[at]->segments > 1;
        if (capture_ != nullptr) record(*chosen_[at]);
      }
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == ENOBUFS || error == EINTR) {
      if (wait_writable(socket)) continue;
      for (; at < count; ++at) counters.send_failures += chosen_[at]->segments;
    } else if (chosen_[at]->segments > 1 && refuses_trains(error)) {
      if (error != EMSGSIZE && error != EINVAL) use_trains_ = false;  // nor will it later
      send_apart(socket, *chosen_[at++], counters);
    } else {
      ++(error == EMSGSIZE ? counters.too_large : counters.send_failures);
      ++at;
    }
  }
}

void TrainSender::record(const Train& train) noexcept {
  for (std::size_t number = 0; number < train.segments; ++number) {
    const std::size_t at = number * train.segment_octets;
    const auto packet = std::span(buffer_).subspan(
        train.at + at, std::min(train.segment_octets, train.octets - at));
    capture_->record_sent(interface_, train.to, packet, static_cast<std::uint16_t>(number));
  }
}

bool TrainSender::wait_writable(int socket) noexcept {
  if (waited_) return false;
  waited_ = true;
  pollfd writable{.fd = socket, .events = POLLOUT, .revents = 0};
  (void)::poll(&writable, 1, kSendPatienceMs);  // the next try tells
  return true;
}

/// The kernel did not take the train. Packets that go alone have identification 0.
void TrainSender::send_apart(int socket, const Train& train, LinkCounters& counters) noexcept {
  for (std::size_t number = 0; number < train.segments; ++number) {
    const std::size_t at = number * train.segment_octets;
    const auto packet = std::span(buffer_).subspan(
        train.at + at, std::min(train.segment_octets, train.octets - at));
    if (train.is_ipv4) {
      wire::change_identification(packet, static_cast<std::uint16_t>(number), 0);
    }
    iovec part{.iov_base = packet.data(), .iov_len = packet.size()};
    Control room;
    msghdr message;
    address(message, train, room);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    bool sent = false;
    do {
      sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    } while (!sent && (errno == EAGAIN || errno == ENOBUFS) && wait_writable(socket));
    ++(sent                ? counters.packets_sent
       : errno == EMSGSIZE ? counters.too_large
                           : counters.send_failures);
    if (sent && capture_ != nullptr) capture_->record_sent(interface_, train.to, packet, 0);
  }
}

}  // namespace verbatim::link

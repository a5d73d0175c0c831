// SPDX-License-Identifier: Apache-2.0
#include "udp/train_receiver.h"

#include <algorithm>

#include "udp/socket_calls.h"

namespace verbatim::link {

TrainReceiver::TrainReceiver() noexcept {
  for (std::size_t i = 0; i < kMessages; ++i) {
    parts_[i] = {.iov_base = buffers_[i].data(), .iov_len = kMessageOctets};
    msghdr& message = messages_[i].msg_hdr;
    message.msg_name = &names_[i];
    message.msg_namelen = sizeof names_[i];
    message.msg_iov = &parts_[i];
    message.msg_iovlen = 1;
    message.msg_control = controls_[i].octets;
    message.msg_controllen = Control::kOctets;
  }
}

std::span<const Incoming> TrainReceiver::receive(int socket, const wire::Gid& destination,
                                                 LinkCounters& counters) noexcept {
  const int got = system_recvmmsg(socket, messages_.data(), wanted_);
  // A call that asks for more messages than there are costs an additional look.
  const auto taken = static_cast<std::size_t>(std::max(got, 0));
  wanted_ = taken == wanted_ ? std::min(2 * wanted_, kMessages) : std::max(taken, std::size_t{1});
  std::size_t count = 0;
  for (std::size_t i = 0; i < taken; ++i) {
    msghdr& message = messages_[i].msg_hdr;
    const std::size_t octets = messages_[i].msg_len;
    const ReceivedControl control = read_control(message);
    const bool is_train = control.segment_octets != 0 && octets > control.segment_octets;
    const std::size_t longest = is_train ? control.segment_octets : octets;
    const bool is_whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    if (is_whole && longest <= kFrameOctets) {
      received_[count++] = {.source = gid_of(names_[i]),
                            .destination = destination,
                            .source_port = port_of(names_[i]),
                            .traffic_class = control.traffic_class,
                            .hop_limit = control.hop_limit,
                            .octets = std::span(buffers_[i]).first(octets),
                            .segment_octets = is_train ? control.segment_octets : 0};
      counters.packets_received += is_train ? (octets + longest - 1) / longest : 1;
      counters.trains_received += is_train;
    } else {
      ++counters.overlong;
    }
    message.msg_namelen = sizeof names_[i];
    message.msg_controllen = Control::kOctets;
    message.msg_flags = 0;
  }
  return std::span(received_).first(count);
}

}  // namespace verbatim::link

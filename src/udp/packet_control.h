// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

/// Control data of a message between a socket and the kernel (cmsg(3)).
namespace verbatim::link {

/// Room for traffic class, hop limit and the length of a train's segments, in either direction.
struct Control {
  static constexpr std::size_t kOctets = 3 * CMSG_SPACE(sizeof(int));
  alignas(cmsghdr) std::byte octets[kOctets];
};

/// Appends a value to a message's control data, which has room for it.
template <typename Value>
void append_control(msghdr& message, int level, int type, Value value) noexcept {
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

/// The control data of a message that arrived, and the most likely values where the kernel gave
/// none.
struct ReceivedControl {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::size_t segment_octets = 0;  // 0: one packet
};

/// The IPv4 traffic class is one octet; the other values are ints.
inline ReceivedControl read_control(msghdr& message) noexcept {
  ReceivedControl control;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const bool is_ipv4 = part->cmsg_level == IPPROTO_IP;
    if (is_ipv4 && part->cmsg_type == IP_TOS) {
      std::memcpy(&control.traffic_class, CMSG_DATA(part), 1);
      continue;
    }
    int value = 0;
    if (part->cmsg_len < CMSG_LEN(sizeof value)) continue;
    std::memcpy(&value, CMSG_DATA(part), sizeof value);
    if (is_ipv4 && part->cmsg_type == IP_TTL) {
      control.hop_limit = static_cast<std::uint8_t>(value);
    } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_HOPLIMIT) {
      control.hop_limit = static_cast<std::uint8_t>(value);
    } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_TCLASS) {
      control.traffic_class = static_cast<std::uint8_t>(value);
    } else if (part->cmsg_level == IPPROTO_UDP && value > 0) {
      control.segment_octets = static_cast<std::size_t>(value);
    }
  }
  return control;
}

}  // namespace verbatim::link

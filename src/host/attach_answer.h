// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "host/attach_message.h"

namespace verbatim::host {

/// The answer of a Door to a process that connected, with the descriptors that came with it; -1 for
/// those that did not. Closes the descriptors that the caller has not taken (and replaced by -1).
struct AttachAnswer {
  AttachMessage message{};
  std::array<int, AttachMessage::kDescriptorCount> descriptors{-1, -1, -1, -1};  // by kind
  bool makes_sense = false;  // it is of this version and has the descriptors that it announces

  /// Reads the answer that has arrived; does not wait.
  explicit AttachAnswer(int connection) noexcept {
    iovec octets{.iov_base = &message, .iov_len = sizeof message};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptors)> control{};
    msghdr header{};
    header.msg_iov = &octets;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(connection, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) return;
    std::array<int, AttachMessage::kDescriptorCount> arrived{-1, -1, -1, -1};
    std::size_t count = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      count = std::min((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), arrived.size());
      std::memcpy(arrived.data(), CMSG_DATA(c), count * sizeof(int));
    }
    constexpr std::uint32_t kAll = (1U << AttachMessage::kDescriptorCount) - 1;
    const auto said = static_cast<std::size_t>(std::popcount(message.descriptors & kAll));
    const bool is_right = said == count && (message.descriptors & ~kAll) == 0;
    std::size_t next = 0;
    for (std::uint32_t kind = 0; kind < AttachMessage::kDescriptorCount; ++kind) {
      const bool is_next = is_right ? message.has(AttachMessage::Descriptor{kind}) : next < count;
      if (is_next)
        descriptors[kind] = arrived[next++];  // also if the answer makes no sense: closed later
    }
    makes_sense = got == static_cast<ssize_t>(sizeof message) &&
                  message.magic == AttachMessage::kMagic &&
                  message.version == SegmentHeader::kVersion && is_right;
  }
  ~AttachAnswer() {
    for (const int descriptor : descriptors) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }
  AttachAnswer(const AttachAnswer&) = delete;
  AttachAnswer& operator=(const AttachAnswer&) = delete;
};

}  // namespace verbatim::host

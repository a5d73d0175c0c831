// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "host/segment_header.h"

namespace verbatim::host {

/// What is said at a Door, each way once: who knocks, and whether the door opens. With the answer
/// travel the descriptors, in the order of the enumerators. kMemory is /proc/self/mem of the
/// process that answers: it reaches that address space alone, never the one of another program that
/// the process executes later or that gets its number (docs/decisions/0022).
struct AttachMessage {
  static constexpr std::uint32_t kMagic = 0x5642'4131;
  enum Descriptor : std::uint32_t { kSegment, kBell, kArena, kMemory, kDescriptorCount };
  /// The slot of those who have none: they get the segment, to look at it, and nothing else.
  static constexpr std::uint32_t kViewer = 0xffff'ffff;

  std::uint32_t magic = kMagic;
  std::uint32_t version = SegmentHeader::kVersion;
  std::uint32_t slot = 0;         // of the sender
  std::uint32_t descriptors = 0;  // which travel along, a bit for each; none: refused

  void add(Descriptor kind) noexcept { descriptors |= 1U << kind; }
  [[nodiscard]] bool has(Descriptor kind) const noexcept { return (descriptors >> kind & 1) != 0; }
};
static_assert(sizeof(AttachMessage) == 16);

/// The longest thing that is said over the connection afterwards.
inline constexpr std::size_t kSayingOctetsMax = 64 * 1024;

/// Sends two runs of octets as one message; false when the other end cannot take it now.
[[nodiscard]] inline bool say(int connection, std::span<const std::byte> head,
                              std::span<const std::byte> rest) noexcept {
  iovec parts[] = {{.iov_base = const_cast<std::byte*>(head.data()), .iov_len = head.size()},
                   {.iov_base = const_cast<std::byte*>(rest.data()), .iov_len = rest.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = rest.empty() ? 1 : 2;
  return ::sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(head.size() + rest.size());
}

}  // namespace verbatim::host

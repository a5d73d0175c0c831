// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "host/challenge.h"
#include "host/segment_header.h"

namespace verbatim::host {

/// The first and the last message of an attachment: the process that connects sends its slot, and
/// the door answers whether it is let in. Between them the door sends a ChallengeMessage and the
/// connecting process a ProofMessage, unless the door refuses at once. The answer carries
/// descriptors, in the order of the enumerators. kMemory is /proc/self/mem of the process that
/// answers: it gives access to that address space only, never to that of another program that the
/// process executes later or of a later process with the same number (docs/decisions/0022).
struct AttachMessage {
  static constexpr std::uint32_t kMagic = 0x5642'4131;
  enum Descriptor : std::uint32_t { kSegment, kBell, kArena, kMemory, kDescriptorCount };
  /// The slot of a viewer: it gets the segment for reading, and nothing else.
  static constexpr std::uint32_t kViewer = 0xffff'ffff;

  std::uint32_t magic = kMagic;
  std::uint32_t version = SegmentHeader::kVersion;
  std::uint32_t slot = 0;         // of the sender
  std::uint32_t descriptors = 0;  // which ones come with it, a bit for each; none: refused

  void add(Descriptor kind) noexcept { descriptors |= 1U << kind; }
  [[nodiscard]] bool has(Descriptor kind) const noexcept { return (descriptors >> kind & 1) != 0; }
};
static_assert(sizeof(AttachMessage) == 16);

/// The number of the descriptor at which the process behind the door keeps the secret (Challenge).
struct ChallengeMessage {
  static constexpr std::uint32_t kMagic = 0x5642'4332;
  std::uint32_t magic = kMagic;
  std::int32_t descriptor = -1;
};
static_assert(sizeof(ChallengeMessage) == 8);

/// Contains the secret.
struct ProofMessage {
  static constexpr std::uint32_t kMagic = 0x5642'5033;
  std::uint32_t magic = kMagic;
  Challenge::Secret secret{};
};
static_assert(sizeof(ProofMessage) == 20);

/// Reads the challenge that has arrived on a connection to a door, and answers it; does not wait.
/// kAccessDenied when the kernel does not let this process look into the one behind the door,
/// kNotSupported when the door has refused, or has sent something else.
[[nodiscard]] inline Status meet_challenge(int connection) noexcept {
  ChallengeMessage challenge;
  const ssize_t got = ::recv(connection, &challenge, sizeof challenge, MSG_DONTWAIT | MSG_TRUNC);
  if (got != static_cast<ssize_t>(sizeof challenge) ||
      challenge.magic != ChallengeMessage::kMagic) {
    return Errc::kNotSupported;
  }
  const auto secret = Challenge::answer_to(connection, challenge.descriptor);
  if (!secret) return Errc::kAccessDenied;
  ProofMessage proof;
  proof.secret = *secret;
  const ssize_t sent = ::send(connection, &proof, sizeof proof, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(sizeof proof)) return Errc::kNotSupported;
  return Ok{};
}

/// The longest message over the connection afterwards.
inline constexpr std::size_t kMessageOctetsMax = 64 * 1024;

/// Sends two parts as one message; false when the other end cannot take it now.
[[nodiscard]] inline bool send_message(int connection, std::span<const std::byte> head,
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

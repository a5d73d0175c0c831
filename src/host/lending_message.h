// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/expected.h"
#include "host/share_message.h"

namespace verbatim::host {

/// The question of a process to a process of another user: it asks for sockets of the port at one
/// address (docs/decisions/0025). One packet of a SOCK_SEQPACKET connection. The answer is the four
/// octets of the magic, with the descriptors beside it; an answer without descriptors is a refusal.
/// Frozen: processes of different versions share one port.
///
///     0..3 "VBL1" | 4..19 address | 20..23 scope | 24..27 slots that the user has already
struct LendingMessage {
  static constexpr std::size_t kOctets = 28;
  static constexpr std::array<char, 4> kMagic = {'V', 'B', 'L', '1'};

  SocketLabel address{};   // its slot is not used
  std::uint32_t held = 0;  // slots at this address that processes of the asking user hold

  void emit(std::span<std::byte, kOctets> to) const noexcept {
    std::memcpy(to.data(), kMagic.data(), kMagic.size());
    std::memcpy(to.data() + 4, address.address.data(), 16);
    std::memcpy(to.data() + 20, &address.scope, 4);
    std::memcpy(to.data() + 24, &held, 4);
  }
  [[nodiscard]] Status parse(std::span<const std::byte> from) noexcept {
    if (from.size() != kOctets || std::memcmp(from.data(), kMagic.data(), kMagic.size()) != 0) {
      return Errc::kInvalidArgument;
    }
    std::memcpy(address.address.data(), from.data() + 4, 16);
    std::memcpy(&address.scope, from.data() + 20, 4);
    std::memcpy(&held, from.data() + 24, 4);
    return Ok{};
  }
};

}  // namespace verbatim::host

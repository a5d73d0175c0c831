// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "wire/cm/cm_message.h"

/// One line of text per management datagram, like print.h for packets:
///
///     CM REQ  comm 0x0b96d984 service 0x1061c06 (TCP port 7174)  RC qp 0x000011 psn 0x877ae4
///       mtu 1024 resources 4 depth 3 retry 7 rnr 6  from 10.0.0.1 port 48662 to 10.0.0.2  tid 0x1
///     CM REJ  comm 0x00000000 peer 0x0b96d984  of REQ reason 8 (invalid service ID)  tid 0x1
///
/// (one line each). "comm" is the sender's communication ID and "peer" the recipient's. The text is
/// written to the caller's buffer and truncated at its end; it is not terminated with a zero.
namespace verbatim::wire {

/// No datagram's line is longer than this.
inline constexpr std::size_t kPrintedMadMax = 384;

[[nodiscard]] std::string_view print(const CmMessage& message, std::span<char> to) noexcept;

/// The payload of a packet to queue pair 0 or 1: a CM message as above, the header of another
/// datagram, or "malformed (truncated), 7 octets".
[[nodiscard]] std::string_view print_mad(std::span<const std::byte> octets,
                                         std::span<char> to) noexcept;

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "wire/headers/aeth.h"
#include "wire/headers/ids.h"
#include "wire/headers/native_packet.h"
#include "wire/headers/packet.h"
#include "wire/headers/roce_datagram.h"
#include "wire/print/text_line.h"

/// One line of text per packet, for ladder diagrams, logs and failing tests:
///
///     RC RDMA WRITE First  qp 0x000011 psn 0x000100 A-  va 0x7f0000001000 rkey 0x1234 len 4096
///       payload 1024
///     RC Acknowledge  qp 0x000012 psn 0x000103 --  RNR NAK wait 0.64 ms msn 7
///
/// (one line each). The flag A requests an acknowledge, the flag S an event at the receiver; rarer
/// bits are words. The text is written to the caller's buffer and truncated at its end.
namespace verbatim::wire {

/// No packet's line is longer than this, its addresses included.
inline constexpr std::size_t kPrintedPacketMax = 320;

[[nodiscard]] std::string_view print(const PacketView& packet, std::span<char> to) noexcept;
/// The same after source and destination.
[[nodiscard]] std::string_view print(const RoceDatagram& datagram, std::span<char> to) noexcept;
[[nodiscard]] std::string_view print(const NativePacketView& packet, std::span<char> to) noexcept;
/// BTH to ICRC; octets that are no packet become "malformed (truncated), 7 octets".
[[nodiscard]] std::string_view print_transport(std::span<const std::byte> octets,
                                               std::span<char> to) noexcept;

/// "ACK", "RNR NAK wait 0.64 ms", "NAK remote access error", ...
void append(TextLine& line, Syndrome syndrome) noexcept;
/// An address in the usual notation: 10.0.0.1, or fe80::1 (RFC 5952).
void append(TextLine& line, const Gid& gid) noexcept;

}  // namespace verbatim::wire

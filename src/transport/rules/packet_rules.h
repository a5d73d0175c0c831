// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/rc/responder_state.h"
#include "transport/rules/request.h"
#include "transport/rules/verdict.h"
#include "wire/headers/packet.h"

/// The rules for requests that come in packets, which RC and UC share; the rules for the request
/// itself are in request_rules.h.
namespace verbatim::transport {

/// Middle and Last packets must continue a message of their own kind; all others begin a message
/// (IBA Vol 1, 9.7.4.1.2).
[[nodiscard]] inline Judgement check_sequence(Inbound inbound, const wire::OpcodeInfo& info,
                                              RequestKind kind) noexcept {
  Inbound needed = Inbound::kNone;
  if (!info.starts_message) {
    needed = kind == RequestKind::kSend ? Inbound::kSend : Inbound::kWrite;
  }
  if (inbound == needed) return {};
  return {Verdict::kInvalidRequest, Reason::kOutOfOrderOpcode};
}

/// Whether the payload of a packet has a length that its opcode may have.
[[nodiscard]] constexpr Judgement check_payload(wire::PayloadRule rule, std::size_t octets,
                                                std::uint32_t mtu) noexcept {
  bool fits = false;
  switch (rule) {
    case wire::PayloadRule::kExactlyMtu:
      fits = octets == mtu;
      break;
    case wire::PayloadRule::kOneToMtu:
      fits = octets > 0 && octets <= mtu;
      break;
    case wire::PayloadRule::kUpToMtu:
      fits = octets <= mtu;
      break;
    case wire::PayloadRule::kEight:
      fits = octets == sizeof(std::uint64_t);
      break;
    case wire::PayloadRule::kNone:
      fits = octets == 0;
      break;
  }
  if (fits) return {};
  return {Verdict::kInvalidRequest, Reason::kBadPacketLength};
}

/// Whether the packets of a WRITE have as many octets as the first one has announced: `arrived`
/// before this packet, `octets` in it.
[[nodiscard]] constexpr Judgement check_announced(const wire::OpcodeInfo& info,
                                                  std::uint64_t announced, std::uint64_t arrived,
                                                  std::uint64_t octets) noexcept {
  const std::uint64_t total = arrived + octets;
  if (info.ends_message ? total == announced : total < announced) return {};
  return {Verdict::kInvalidRequest, Reason::kBadPacketLength};
}

}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
#include "udp/steering.h"

#include <algorithm>

namespace verbatim::link {

namespace {

constexpr std::uint32_t kDestinationAt = 4;  // the word of the BTH with the queue pair number
constexpr std::uint32_t kSlotAt = 5;         // its upper octet
constexpr std::uint32_t kClassAt = 21;       // behind BTH and DETH (20 octets): 1 of the MAD
constexpr std::uint32_t kAttributeAt = 36;   // 16 of the MAD
constexpr std::uint32_t kRequestIdAt = 44;   // behind the MAD's header (24 octets): SIDR_REP
constexpr std::uint32_t kRemoteIdAt = 48;    // all other answers
constexpr std::uint32_t kServiceAt = 56;     // lower half of the service ID: REQ, SIDR_REQ
constexpr std::uint32_t kCommunication = 7;  // the class
constexpr std::uint32_t kReq = 0x10;         // attributes
constexpr std::uint32_t kSidrReq = 0x17;
constexpr std::uint32_t kSidrRep = 0x18;
constexpr std::uint32_t kUdpOctets = 8;  // in front of the BTH, for the filter of a socket

sock_filter load(std::uint16_t size, std::uint32_t offset) noexcept {
  return {
      .code = static_cast<std::uint16_t>(BPF_LD | BPF_ABS | size), .jt = 0, .jf = 0, .k = offset};
}
/// Skips as many instructions as it says, by whether the accumulator equals `value`.
sock_filter if_equal(std::uint32_t value, std::uint8_t then, std::uint8_t otherwise) noexcept {
  return {.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = then, .jf = otherwise, .k = value};
}
sock_filter answer(std::uint32_t slot) noexcept {
  return {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = slot};
}
sock_filter answer_what_was_loaded() noexcept {
  return {.code = BPF_RET | BPF_A, .jt = 0, .jf = 0, .k = 0};
}

}  // namespace

std::vector<sock_filter> steering_program(std::span<const ServiceRoute> routes,
                                          std::uint32_t fallback) {
  std::vector<sock_filter> program = {
      load(BPF_W, kDestinationAt),
      {.code = BPF_ALU | BPF_AND | BPF_K, .jt = 0, .jf = 0, .k = 0x00ff'ffff},
      if_equal(1, 2, 0),
      load(BPF_B, kSlotAt),
      answer_what_was_loaded(),
      load(BPF_B, kClassAt),
      if_equal(kCommunication, 1, 0),
      answer(fallback),
      load(BPF_H, kAttributeAt),
      if_equal(kReq, 6, 0),
      if_equal(kSidrReq, 5, 0),
      if_equal(kSidrRep, 2, 0),
      load(BPF_B, kRemoteIdAt),
      answer_what_was_loaded(),
      load(BPF_B, kRequestIdAt),
      answer_what_was_loaded(),
      load(BPF_W, kServiceAt),  // where requests come to
  };
  for (const ServiceRoute& route : routes.first(std::min(routes.size(), kServiceRoutesMax))) {
    program.push_back(if_equal(route.service, 0, 1));
    program.push_back(answer(route.slot));
  }
  program.push_back(answer(fallback));
  return program;
}

std::vector<sock_filter> slot_filter(std::uint32_t slot) {
  constexpr std::uint32_t kEverything = 0xffff'ffff;  // octets of the packet that are kept
  return {
      load(BPF_W, kUdpOctets + kDestinationAt),
      {.code = BPF_ALU | BPF_AND | BPF_K, .jt = 0, .jf = 0, .k = 0x00ff'ffff},
      if_equal(1, 2, 0),
      load(BPF_B, kUdpOctets + kSlotAt),
      if_equal(slot, 9, 10),
      load(BPF_B, kUdpOctets + kClassAt),
      if_equal(kCommunication, 0, 8),
      load(BPF_H, kUdpOctets + kAttributeAt),
      if_equal(kReq, 6, 0),
      if_equal(kSidrReq, 5, 0),
      if_equal(kSidrRep, 1, 0),
      {.code = BPF_JMP | BPF_JA, .jt = 0, .jf = 0, .k = 4},
      load(BPF_B, kUdpOctets + kRequestIdAt),
      if_equal(slot, 0, 1),
      answer(kEverything),
      answer(0),
      load(BPF_B, kUdpOctets + kRemoteIdAt),
      if_equal(slot, 0, 1),
      answer(kEverything),
      answer(0),
  };
}

}  // namespace verbatim::link

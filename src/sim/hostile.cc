// SPDX-License-Identifier: Apache-2.0
#include "sim/hostile.h"

#include <array>

#include "wire/headers/packet_builder.h"

namespace verbatim::sim {
namespace {

constexpr std::uint32_t kStrangerQp = 0x00ab'cdef;  // the attacker's number, as the victim knows it
constexpr std::uint32_t kUnknownQp = 0x0c;          // which no queue pair has
constexpr std::size_t kAllowedOctets = 1024;

}  // namespace

Hostile::Hostile(Cluster& cluster, Endpoint& victim, std::uint64_t seed)
    : cluster_(cluster), victim_(victim), prng_(seed), address_(ipv4_gid(10, 0, 0, 99)) {
  using transport::QpMask;
  using transport::QpState;
  own_qp_ = victim.create_qp({.send_cq = victim.create_cq(4096), .receive_cq = 2});
  allowed_ = victim.allocate(kAllowedOctets);
  allowed_key_ = victim.register_memory(
      allowed_, memory::Access::kLocalWrite | memory::Access::kRemoteWrite |
                    memory::Access::kRemoteRead | memory::Access::kRemoteAtomic);
  payload_.resize(4096);
  EndpointQueuePair& qp = victim.qp(own_qp_);
  transport::QpAttributes wanted;
  wanted.access = memory::Access::kRemoteWrite | memory::Access::kRemoteRead;
  wanted.dest_qp = wire::QpNumber{kStrangerQp};
  wanted.max_dest_read_atomic = 2;
  wanted.retry_count = 1;
  wanted.max_read_atomic = 1;
  const auto path = victim.path_to(address_, qp.number(), wire::QpNumber{kStrangerQp});
  const auto go = [&](QpState state, QpMask mask) {
    wanted.state = state;
    const auto done = qp.modify(QpMask::kState | mask, wanted, &path);
    VB_ASSERT(done.ok());
  };
  go(QpState::kInit, QpMask::kPKeyIndex | QpMask::kPort | QpMask::kAccess);
  go(QpState::kReadyToReceive, QpMask::kAddress | QpMask::kPathMtu | QpMask::kDestQp |
                                   QpMask::kReceivePsn | QpMask::kMaxDestReadAtomic |
                                   QpMask::kMinRnrTimer);
  go(QpState::kReadyToSend, QpMask::kTimeout | QpMask::kRetryCount | QpMask::kRnrRetry |
                                QpMask::kSendPsn | QpMask::kMaxReadAtomic);
}

void Hostile::act() {
  if (!prng_.one_in(3)) return;
  for (std::uint64_t i = prng_.between(1, 4); i > 0; --i) send_one();
}

void Hostile::send_one() {
  wire::PacketHeaders headers;
  // Half of the time an opcode that exists.
  do {
    headers.bth.opcode = wire::Opcode(
        static_cast<std::uint8_t>(prng_.one_in(2) ? prng_.below(0x20) : prng_.below(256)));
  } while (!wire::describe(headers.bth.opcode).known());
  const auto target = prng_.one_in(2) ? own_qp_ : prng_.below(victim_.qp_count() + 1);
  const auto& state = victim_.qp(own_qp_).machine().responder_state();
  headers.bth.dest_qp =
      target < victim_.qp_count() ? victim_.number_of(target) : wire::QpNumber{kUnknownQp};
  headers.bth.psn = state.expected_psn + static_cast<std::uint32_t>(prng_.below(5)) - 2;
  headers.bth.solicited = prng_.one_in(2);
  headers.bth.ack_request = prng_.one_in(2);
  headers.bth.pkey =
      prng_.one_in(8) ? wire::PKey{static_cast<std::uint16_t>(prng_.next())} : wire::PKey::kDefault;
  const auto near_allowed = victim_.address_of(allowed_) + prng_.below(2048) - 512;
  const auto key = prng_.one_in(2)
                       ? allowed_key_
                       : wire::MemoryKey{static_cast<std::uint32_t>(0x10000 + prng_.below(0x4000))};
  headers.reth = {
      .address = near_allowed,
      .rkey = key,
      .dma_octets = static_cast<std::uint32_t>(prng_.one_in(8) ? prng_.next() : prng_.below(2048))};
  headers.atomic_eth = {
      .address = near_allowed, .rkey = key, .swap_or_add = prng_.next(), .compare = prng_.next()};
  headers.aeth = {.syndrome = wire::Syndrome(static_cast<std::uint8_t>(prng_.next())),
                  .msn = static_cast<std::uint32_t>(prng_.next())};
  headers.ieth.rkey = key;
  headers.feth.placement = static_cast<std::uint8_t>(prng_.below(16));
  std::size_t payload = 0;
  if (wire::describe(headers.bth.opcode).payload != wire::PayloadRule::kNone) {
    payload = prng_.one_in(2) ? 1024 : prng_.below(4097);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    payload_[prng_.below(payload_.size())] = std::byte{static_cast<std::uint8_t>(prng_.next())};
  }
  NetworkFrame frame;
  frame.source = address_;
  frame.destination = victim_.address();
  frame.source_port = 0xc123;
  frame.octets.resize(wire::kMaxTransportOctets);
  const auto seed = wire::IcrcSeed::roce_v2(frame.source, frame.destination, frame.source_port);
  wire::PacketBuilder builder(frame.octets, headers, payload, {.seed = &seed});
  builder.append(std::span(payload_).first(payload));
  frame.octets.resize(builder.finish());
  cluster_.inject(std::move(frame));
}

}  // namespace verbatim::sim

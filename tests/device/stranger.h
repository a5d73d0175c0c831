// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/prng.h"
#include "wire/crc/icrc.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::testing {

using Packet = std::vector<std::byte>;

/// An attacker on this network. It sends arbitrary packets to the RoCE port, 127.0.0.1:4791, from
/// an ordinary UDP socket. Its packets have a right ICRC, unless the test spoils it.
class Stranger {
 public:
  static constexpr std::uint16_t kRocePort = 4791;

  /// From 127.0.0.1 its packets have the source address of real peers; from another address not.
  explicit Stranger(std::uint32_t address = INADDR_LOOPBACK, std::uint64_t seed = 1)
      : prng_(seed), socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(address);
    socklen_t octets = sizeof own;
    is_ready_ = ::bind(socket_, as_generic(&own), octets) == 0 &&
                ::getsockname(socket_, as_generic(&own), &octets) == 0;
    to_.sin_family = AF_INET;
    to_.sin_port = htons(kRocePort);
    to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_ready_ = is_ready_ && ::connect(socket_, as_generic(&to_), sizeof to_) == 0;
    seed_ = wire::IcrcSeed::roce_v2(gid_of(address), gid_of(INADDR_LOOPBACK), ntohs(own.sin_port));
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { ::close(socket_); }

  [[nodiscard]] static wire::Gid gid_of(std::uint32_t address) noexcept {
    wire::Ipv4Address octets;
    const std::uint32_t big_endian = htonl(address);
    std::memcpy(octets.octets.data(), &big_endian, sizeof big_endian);
    return wire::gid_of(octets);
  }
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  [[nodiscard]] Prng& prng() noexcept { return prng_; }

  /// A whole packet with these headers and that much random payload.
  [[nodiscard]] Packet make(wire::PacketHeaders headers, std::size_t payload_octets = 0) {
    return make(headers, noise(payload_octets));
  }
  [[nodiscard]] Packet make(wire::PacketHeaders headers, std::span<const std::byte> payload) const {
    Packet packet(wire::PacketBuilder::octets_for(headers, payload.size()));
    wire::PacketBuilder builder(packet, headers, payload.size(), {.seed = &seed_});
    builder.append(payload);
    packet.resize(builder.finish());
    return packet;
  }
  /// Headers for `qp` with random contents, and an opcode of `transport` that exists.
  [[nodiscard]] wire::PacketHeaders some_headers(wire::Transport transport, std::uint32_t qp,
                                                 std::uint32_t psn) {
    wire::PacketHeaders headers;
    do {
      headers.bth.opcode = opcode_of(transport, wire::Operation(narrow(prng_.below(32))));
    } while (!describe(headers.bth.opcode).known());
    headers.bth.dest_qp = wire::QpNumber{qp};
    headers.bth.psn = wire::Psn(psn);
    headers.bth.ack_request = prng_.one_in(2);
    headers.reth = {.address = prng_.next(),
                    .rkey = wire::MemoryKey{static_cast<std::uint32_t>(prng_.next())},
                    .dma_octets = static_cast<std::uint32_t>(prng_.below(1U << 20))};
    headers.atomic_eth = {.address = prng_.next(),
                          .rkey = wire::MemoryKey{static_cast<std::uint32_t>(prng_.next())},
                          .swap_or_add = prng_.next(),
                          .compare = prng_.next()};
    headers.aeth = {.syndrome = wire::Syndrome(narrow(prng_.next())),
                    .msn = static_cast<std::uint32_t>(prng_.below(1U << 24))};
    headers.deth = {.qkey = wire::QKey{static_cast<std::uint32_t>(prng_.next())}, .source_qp = {}};
    headers.feth.selectivity = narrow(prng_.below(4));
    return headers;
  }
  [[nodiscard]] Packet make_some(wire::Transport transport, std::uint32_t qp, std::uint32_t psn) {
    const wire::PacketHeaders headers = some_headers(transport, qp, psn);
    const bool may_carry = describe(headers.bth.opcode).payload != wire::PayloadRule::kNone;
    return make(headers, may_carry ? prng_.below(2) * 1024 + prng_.below(100) : 0);
  }
  [[nodiscard]] Packet noise(std::size_t octets) {
    Packet random(octets);
    std::ranges::generate(random, [&] { return std::byte{narrow(prng_.next())}; });
    return random;
  }
  /// Gives octets, whatever they are, the ICRC that fits them.
  void seal(Packet& packet) const {
    if (packet.size() < wire::Bth::kSize + wire::kIcrcSize) return;
    const auto covered = std::span(packet).first(packet.size() - wire::kIcrcSize);
    wire::store_icrc(std::span(packet).last<wire::kIcrcSize>(),
                     wire::icrc_over_headers(seed_.start(packet.size()), covered));
  }

  void send(const Packet& packet) const {
    (void)!::send(socket_, packet.data(), packet.size(), 0);  // a loss does not matter
  }
  /// The first half of a datagram as an IP fragment; with `completed` the other half, too. False
  /// when raw sockets are forbidden.
  [[nodiscard]] bool send_fragments(const Packet& packet, bool completed) {
    const int raw = ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    if (raw < 0) return false;
    Packet datagram(8);
    const std::uint16_t header[4] = {htons(0xd000), htons(kRocePort),
                                     htons(static_cast<std::uint16_t>(packet.size() + 8)), 0};
    std::memcpy(datagram.data(), header, sizeof header);
    datagram.insert(datagram.end(), packet.begin(), packet.end());
    const std::size_t half = (datagram.size() / 2) & ~std::size_t{7};
    const auto identification = static_cast<std::uint16_t>(prng_.next() | 1);
    send_fragment(raw, std::span(datagram).first(half), identification, IP_MF);
    if (completed) {
      const auto offset = static_cast<std::uint16_t>(half / 8);
      send_fragment(raw, std::span(datagram).subspan(half), identification, offset);
    }
    ::close(raw);
    return true;
  }

 private:
  static std::uint8_t narrow(std::uint64_t value) noexcept {
    return static_cast<std::uint8_t>(value);
  }
  static sockaddr* as_generic(sockaddr_in* address) noexcept {
    return reinterpret_cast<sockaddr*>(address);
  }
  void send_fragment(int raw, std::span<const std::byte> part, std::uint16_t identification,
                     std::uint16_t flags_and_offset) {
    Packet whole(sizeof(iphdr));
    iphdr header{};
    header.version = 4;
    header.ihl = 5;
    header.id = htons(identification);
    header.frag_off = htons(flags_and_offset);
    header.ttl = 64;
    header.protocol = IPPROTO_UDP;
    header.saddr = header.daddr = htonl(INADDR_LOOPBACK);
    std::memcpy(whole.data(), &header, sizeof header);
    whole.insert(whole.end(), part.begin(), part.end());
    (void)!::sendto(raw, whole.data(), whole.size(), 0, as_generic(&to_), sizeof to_);
  }

  Prng prng_;
  int socket_;
  bool is_ready_ = false;
  sockaddr_in to_{};
  wire::IcrcSeed seed_ = wire::IcrcSeed::roce_v2({}, {}, 0);
};

}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "link/fault_rules.h"
#include "link/link.h"
#include "wire/crc/icrc.h"
#include "wire/headers/bth.h"
#include "wire/headers/opcode.h"
#include "wire/headers/packet.h"

/// What the tests of links around links share. Nothing but tests includes this.
namespace verbatim::link::test {

inline Instant at_ms(int ms) { return Instant::at(std::chrono::milliseconds(ms)); }

inline wire::Gid address(std::uint8_t last) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}};
}
inline wire::Gid ipv6_address(std::uint8_t last) {
  return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}
inline Outgoing outgoing() {
  return {.source = address(1), .destination = address(2), .source_port = 0xc123};
}

inline FaultRules rules_of(std::string_view text) {
  std::string message;
  auto parsed = parse_fault_rules(text, message);
  EXPECT_TRUE(parsed.ok()) << message;
  return parsed.ok() ? std::move(parsed).value() : FaultRules{};
}

/// Writes a packet that its PSN names, with the ICRC for `identification`. Returns its length.
inline std::size_t write_packet(std::span<std::byte> room, const Outgoing& to, std::uint32_t psn,
                                std::uint16_t identification, std::size_t payload_octets = 40) {
  const std::size_t octets = wire::Bth::kSize + payload_octets + wire::kIcrcSize;
  const auto packet = room.first(octets);
  std::fill(packet.begin(), packet.end(), std::byte{0});
  wire::Bth bth;
  bth.opcode = wire::opcode_of(wire::Transport::kRc, wire::Operation::kSendOnly);
  bth.psn = wire::Psn(psn);
  bth.emit(packet.first<wire::Bth::kSize>());
  const auto seed = wire::IcrcSeed::roce_v2(to.source, to.destination, to.source_port);
  wire::store_icrc(packet.last<wire::kIcrcSize>(),
                   wire::icrc_over_headers(seed.start(octets, identification),
                                           packet.first(octets - wire::kIcrcSize)));
  return octets;
}

inline std::uint32_t psn_of(std::span<const std::byte> packet) {
  return wire::BthView::parse(packet)->psn().raw();
}

/// As the transport sends: the ICRC is for the place in the train that the frame names.
inline void put(Link& link, Instant now, std::uint32_t psn, const Outgoing& to = outgoing(),
                std::size_t payload_octets = 40) {
  const Frame frame = link.next_frame();
  ASSERT_FALSE(frame.octets.empty());
  link.commit(now, to, write_packet(frame.octets, to, psn, frame.identification, payload_octets));
}

/// A link without a network. It keeps what it is given to send, and gives what a test lets arrive.
class FakeLink final : public Link {
 public:
  struct Sent {
    Outgoing to{};
    std::vector<std::byte> octets;
    std::optional<std::uint16_t> identification;  // that the ICRC is right for
    std::size_t train = 0;                        // number of its train, of all that were sent
  };

  explicit FakeLink(bool uses_trains = true) {
    burst_.use_trains(uses_trains);
    write_to(&burst_);
  }

  void send(Instant /*now*/, Burst& burst) noexcept override {
    ++sends;
    if (fills_up && !burst.is_empty()) hold(true);
    for (Burst::Train& train : burst.trains()) {
      const auto seed =
          wire::IcrcSeed::roce_v2(train.to.source, train.to.destination, train.to.source_port);
      for (std::size_t number = 0; number < train.packets; ++number) {
        const auto packet = burst.packet(train, number);
        if (lost_psn && psn_of(packet) == *lost_psn) continue;
        train.sent_bits |= std::uint64_t{1} << number;
        ++counters_.packets_sent;
        sent.push_back({.to = train.to,
                        .octets = {packet.begin(), packet.end()},
                        .identification = wire::verify_icrc(seed, packet),
                        .train = trains});
      }
      ++trains;
    }
  }
  using Link::receive;
  std::span<const Incoming> receive(Instant /*now*/, Look look) noexcept override {
    last_look = look;
    given_.clear();
    for (Arrival& arrival : arriving_) {
      arrival.about.octets = arrival.octets;
      given_.push_back(arrival.about);
    }
    kept_.swap(arriving_);
    arriving_.clear();
    return given_;
  }
  [[nodiscard]] Instant next_due() const noexcept override { return due; }
  [[nodiscard]] std::span<const int> descriptors() const noexcept override { return numbers_; }
  [[nodiscard]] const LinkCounters& counters() const noexcept override { return counters_; }
  void tell_headers() noexcept override { tells_headers = true; }
  void close() noexcept override { write_to(nullptr); }
  [[nodiscard]] bool is_closed() const noexcept { return !is_open(); }
  using Link::hold;

  /// The next receive() gives it: packets one behind the other, with their numbers.
  void let_arrive(std::initializer_list<std::uint32_t> psns) {
    Arrival arrival;
    const Outgoing to = outgoing();
    std::uint16_t number = 0;
    for (const std::uint32_t psn : psns) {
      std::vector<std::byte> packet(kFrameOctets);
      packet.resize(write_packet(packet, to, psn, number++));
      arrival.octets.insert(arrival.octets.end(), packet.begin(), packet.end());
      if (psns.size() > 1) arrival.about.segment_octets = packet.size();
    }
    arrival.about.source = to.source;
    arrival.about.destination = to.destination;
    arrival.about.source_port = to.source_port;
    arriving_.push_back(std::move(arrival));
  }

  [[nodiscard]] std::vector<std::uint32_t> sent_psns() const {
    std::vector<std::uint32_t> psns;
    for (const Sent& one : sent) psns.push_back(psn_of(one.octets));
    return psns;
  }

  bool fills_up = false;  // has no room for another burst after one
  std::vector<Sent> sent;
  std::size_t trains = 0;                 // that were sent
  std::size_t sends = 0;                  // calls of send()
  std::optional<std::uint32_t> lost_psn;  // the packet that cannot leave
  std::optional<Look> last_look;
  Instant due = Instant::never();
  bool tells_headers = false;

 private:
  struct Arrival {
    Incoming about{};
    std::vector<std::byte> octets;
  };

  Burst burst_;
  LinkCounters counters_;
  std::array<int, 2> numbers_{7, 8};
  std::deque<Arrival> arriving_;
  std::deque<Arrival> kept_;  // the octets of what was given last
  std::vector<Incoming> given_;
};

/// The PSNs of what a link gives, packet by packet.
inline std::vector<std::uint32_t> received_psns(Link& link, Instant now) {
  std::vector<std::uint32_t> psns;
  for (const Incoming& incoming : link.receive(now)) {
    incoming.for_each_packet(
        [&](std::span<const std::byte> packet) { psns.push_back(psn_of(packet)); });
  }
  return psns;
}

}  // namespace verbatim::link::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "transport/queues/send_queue.h"
#include "transport/rc/rc_requester.h"
#include "transport/test_fixture.h"

namespace verbatim::transport::test {

/// A requester alone: tests examine its packets and write the peer's answers. Only tests and
/// fuzzers include this file.
class RequesterRig {
 public:
  static constexpr std::uint32_t kDepth = 64;
  static constexpr std::uint64_t kRemoteAddress = 0x7000'0000'1000;
  static constexpr wire::MemoryKey kRemoteKey{0xabcd'ef01};
  static constexpr SendQueue::Limits kLimits{.depth = kDepth, .sge_limit = 4, .inline_limit = 512};

  static RcRequester::Config defaults() {
    return {.number = kOurQp,
            .dest_qp = kPeerQp,
            .domain = kHome,
            .first_psn = wire::Psn(100),
            .path_mtu = 256,
            .window_packets = 128,
            .read_chunk_packets = 128,
            .retry_limit = 7,
            .rnr_retry_limit = 7,
            .max_read_atomic = 4,
            .ack_timeout = std::chrono::milliseconds(67)};
  }

  explicit RequesterRig(const RcRequester::Config& config = defaults())
      : config_(config),
        block_(SendQueue::octets_for(kLimits)),
        queue_(block_.octets(), kLimits),
        port_(completions_.port(kDepth)),
        requester_(&queue_, port_, arena_.keys()) {
    requester_.start(config, test_path());
  }

  [[nodiscard]] RcRequester& machine() noexcept { return requester_; }
  [[nodiscard]] const RcRequester::Counters& counters() const noexcept {
    return requester_.counters();
  }
  [[nodiscard]] SendQueue& queue() noexcept { return queue_; }
  [[nodiscard]] Arena& arena() noexcept { return arena_; }
  [[nodiscard]] const RcRequester::Config& config() const noexcept { return config_; }
  std::vector<Completion> completions() { return completions_.take(); }
  /// The same without a vector: how many there were.
  [[nodiscard]] std::size_t collect(std::span<Completion> into) noexcept {
    return completions_.queue().poll(into);
  }

  // Tests advance the time.
  [[nodiscard]] Instant now() const noexcept { return now_; }
  void pass(Duration time) noexcept { now_ = now_ + time; }
  /// Advances the time to the next timeout and reports it. False when there is none.
  bool sleep() noexcept {
    const Instant next = requester_.next_timeout();
    if (next == Instant::never()) return false;
    now_ = std::max(now_, next);
    requester_.handle_timeout(now_);
    return true;
  }

  /// A signaled request of `octets` from the start of the arena, for tests to change.
  [[nodiscard]] SendRequest request(SendOpcode opcode, std::uint32_t octets) {
    SendRequest request;
    request.wr_id = next_wr_id_++;
    request.opcode = opcode;
    request.flags = SendFlags::kSignaled;
    if (octets > 0) request.list = list({arena_.sge(0, octets)});
    request.remote_address = kRemoteAddress;
    request.rkey = kRemoteKey;
    return request;
  }
  [[nodiscard]] std::span<const memory::Sge> list(std::vector<memory::Sge> elements) {
    return lists_.emplace_back(std::move(elements));
  }
  [[nodiscard]] bool post(const SendRequest& request) {
    return queue_.post(request, port_.uncollected()).ok();
  }
  /// Posts request() unchanged and returns its wr_id.
  std::uint64_t post(SendOpcode opcode, std::uint32_t octets) {
    const SendRequest made = request(opcode, octets);
    VB_ASSERT(post(made));
    return made.wr_id;
  }

  /// The next packet, if there is one to send now. Its ICRC has been checked.
  [[nodiscard]] std::optional<TestPacket> poll() {
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    constexpr std::uint16_t kIdentification = 0x1234;
    const std::size_t octets = requester_.poll_transmit(now_, frame, kIdentification);
    if (octets == 0) return std::nullopt;
    const auto written = std::span(frame).first(octets);
    VB_ASSERT(wire::verify_icrc(test_path().seed, written) == kIdentification);
    return TestPacket::written(written);
  }
  std::vector<TestPacket> drain() {
    std::vector<TestPacket> packets;
    while (auto packet = poll()) packets.push_back(std::move(*packet));
    return packets;
  }

  // The peer.
  void answer(wire::PacketHeaders headers, std::span<const std::byte> payload = {}) {
    headers.bth.dest_qp = kOurQp;
    requester_.handle_response(now_, TestPacket(headers, payload).view());
  }
  void answer(wire::Operation operation, wire::Psn psn, std::span<const std::byte> payload = {},
              wire::Syndrome syndrome = wire::Syndrome::ack()) {
    wire::PacketHeaders headers;
    headers.bth.opcode = wire::opcode_of(config_.transport, operation);
    headers.bth.psn = psn;
    headers.aeth.syndrome = syndrome;
    answer(headers, payload);
  }
  void ack(wire::Psn psn) { answer(wire::Operation::kAcknowledge, psn); }
  void nak(wire::Psn psn, std::uint8_t syndrome) {
    answer(wire::Operation::kAcknowledge, psn, {}, wire::Syndrome(syndrome));
  }
  void atomic_ack(wire::Psn psn, std::uint64_t original) {
    wire::PacketHeaders headers;
    headers.bth.opcode = wire::opcode_of(config_.transport, wire::Operation::kAtomicAcknowledge);
    headers.bth.psn = psn;
    headers.aeth.syndrome = wire::Syndrome::ack();
    headers.atomic_ack_eth.original = original;
    answer(headers);
  }
  /// A responder's whole answer to a READ request packet, cut at the MTU, from `data`.
  void answer_read(const TestPacket& request, std::span<const std::byte> data) {
    const std::uint32_t mtu = config_.path_mtu;
    const std::uint32_t packets = packet_count(data.size(), mtu);
    for (std::uint32_t i = 0; i < packets; ++i) {
      const auto rest = data.subspan(std::size_t{i} * mtu);
      answer(read_shape(i, packets), request.psn() + i,
             rest.first(std::min<std::size_t>(mtu, rest.size())));
    }
  }
  static wire::Operation read_shape(std::uint32_t index, std::uint32_t packets) {
    if (packets == 1) return wire::Operation::kReadResponseOnly;
    if (index == 0) return wire::Operation::kReadResponseFirst;
    return index + 1 == packets ? wire::Operation::kReadResponseLast
                                : wire::Operation::kReadResponseMiddle;
  }

 private:
  RcRequester::Config config_;
  Arena arena_;
  Block block_;
  SendQueue queue_;
  Completions completions_;
  CompletionPort port_;
  RcRequester requester_;
  Instant now_ = Instant::at(std::chrono::seconds(1));
  std::uint64_t next_wr_id_ = 1;
  std::deque<std::vector<memory::Sge>> lists_;
};

/// The sequence numbers of packets, to compare with.
inline std::vector<std::uint32_t> psns_of(const std::vector<TestPacket>& packets) {
  std::vector<std::uint32_t> psns;
  for (const TestPacket& packet : packets) psns.push_back(packet.psn().raw());
  return psns;
}

/// wr_id and status of completions, to compare with.
inline std::vector<std::pair<std::uint64_t, WcStatus>> outcomes_of(
    const std::vector<Completion>& completions) {
  std::vector<std::pair<std::uint64_t, WcStatus>> outcomes;
  for (const Completion& completion : completions) {
    outcomes.emplace_back(completion.wr_id, completion.status);
  }
  return outcomes;
}
using Outcomes = std::vector<std::pair<std::uint64_t, WcStatus>>;

}  // namespace verbatim::transport::test

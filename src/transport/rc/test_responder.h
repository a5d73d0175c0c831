// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "transport/queues/landing.h"
#include "transport/queues/receive_queue.h"
#include "transport/queues/shared_receive_ring.h"
#include "transport/rc/rc_responder.h"
#include "transport/rc/responder_state.h"
#include "transport/test_fixture.h"

namespace verbatim::transport::test {

/// The queues and the memory of a responder. Receives lie in the first half of the arena, the
/// memory that peers name by keys in the second. Only tests and fuzzers include this file.
class Receiver {
 public:
  static constexpr std::uint32_t kDepth = 16;
  static constexpr ReceiveQueue::Limits kLimits{.depth = kDepth, .sge_limit = 4};
  static constexpr std::size_t kRemote = Arena::kOctets / 2;  // offset of what keys name

  /// `lane_depth` is smaller than the queue only in tests of an overrun.
  explicit Receiver(bool shared = false, std::uint32_t lane_depth = kDepth)
      : queue_block_(ReceiveQueue::octets_for(kLimits)),
        shared_block_(SharedReceiveRing::octets_for(kLimits)),
        port_(completions_.port(lane_depth)) {
    if (shared) {
      shared_ = SharedReceiveRing::create(shared_block_.octets(), kHome, kLimits);
    } else {
      queue_ = ReceiveQueue::create(queue_block_.octets(), kLimits);
    }
    state_.number = kOurQp;
    state_.dest_qp = kPeerQp;
    state_.domain = kHome;
    state_.access =
        memory::Access::kRemoteWrite | memory::Access::kRemoteRead | memory::Access::kRemoteAtomic;
    state_.path_mtu = 256;
    state_.min_rnr_timer = 12;
    state_.replay_limit = 4;
    state_.expected_psn = wire::Psn(500);
  }

  [[nodiscard]] Arena& arena() noexcept { return arena_; }
  [[nodiscard]] ResponderState& state() noexcept { return state_; }
  [[nodiscard]] ReplayEntry* replay() noexcept { return replay_.data(); }
  [[nodiscard]] SharedReceiveRing shared() const noexcept { return shared_; }
  [[nodiscard]] ReceiveQueue queue() const noexcept { return queue_; }
  [[nodiscard]] CompletionPort port() const noexcept { return port_; }
  std::vector<Completion> completions() { return completions_.take(); }
  /// The same without a vector: how many there were.
  [[nodiscard]] std::size_t collect(std::span<Completion> into) noexcept {
    return completions_.queue().poll(into);
  }
  [[nodiscard]] Landing landing() noexcept {
    return Landing(&state_, queue_, shared_, port_, arena_.keys());
  }

  /// Posts a receive and returns its wr_id.
  std::uint64_t post_receive(std::vector<memory::Sge> list) {
    const ReceiveRequest request{.wr_id = next_wr_id_++, .list = list};
    const Status posted = shared_.exists()
                              ? shared_.post(request)
                              : queue_.post(request, queue_.posted() - queue_.posted_count());
    VB_ASSERT(posted.ok());
    return request.wr_id;
  }
  std::uint64_t post_receive(std::uint32_t octets, std::size_t offset = 0) {
    return post_receive(std::vector{arena_.sge(offset, octets)});
  }
  [[nodiscard]] std::uint32_t posted_count() const noexcept {
    return shared_.exists() ? shared_.waiting_count() : queue_.posted_count();
  }

  /// A range that keys name, `offset` octets behind its start.
  [[nodiscard]] wire::Reth reth(std::uint32_t octets, std::size_t offset = 0) noexcept {
    return {
        .address = arena_.address(kRemote + offset), .rkey = arena_.key(), .dma_octets = octets};
  }
  [[nodiscard]] Octets remote(std::size_t offset, std::size_t count) {
    return arena_.copy(kRemote + offset, count);
  }
  [[nodiscard]] std::uint64_t remote_number(std::size_t offset = 0) {
    std::uint64_t value;
    std::memcpy(&value, arena_.octets(kRemote + offset, 8).data(), sizeof value);
    return value;
  }
  void set_remote_number(std::uint64_t value, std::size_t offset = 0) {
    std::memcpy(arena_.octets(kRemote + offset, 8).data(), &value, sizeof value);
  }

 private:
  Arena arena_;
  Block queue_block_;
  Block shared_block_;
  ReceiveQueue queue_;
  SharedReceiveRing shared_;
  Completions completions_;
  CompletionPort port_;
  ResponderState state_;
  std::array<ReplayEntry, kMaxReadAtomic> replay_{};
  std::uint64_t next_wr_id_ = 1;
};

inline wire::PacketHeaders request_headers(wire::Transport transport, wire::Operation operation,
                                           wire::Psn psn) {
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(transport, operation);
  headers.bth.dest_qp = kOurQp;
  headers.bth.psn = psn;
  headers.bth.ack_request = true;
  return headers;
}

inline Octets octets_of(std::size_t count, std::uint64_t seed = 3) {
  Prng prng(seed);
  Octets octets(count);
  for (std::byte& octet : octets) octet = std::byte(prng.below(256));
  return octets;
}

/// A reliable responder alone: tests write its requests and examine its answers.
class RcRig : public Receiver {
 public:
  explicit RcRig(bool shared = false, std::uint32_t lane_depth = kDepth)
      : Receiver(shared, lane_depth),
        responder_(&state(), replay(), landing(), wire::Transport::kRc) {}

  [[nodiscard]] RcResponder& machine() noexcept { return responder_; }

  /// A request that asks for an acknowledgement, for tests to change. Its keys and addresses are
  /// valid.
  [[nodiscard]] wire::PacketHeaders headers(wire::Operation operation, std::uint32_t psn,
                                            std::uint32_t dma_octets = 0) {
    auto made = request_headers(wire::Transport::kRc, operation, wire::Psn(psn));
    made.reth = reth(dma_octets);
    made.atomic_eth.address = made.reth.address;
    made.atomic_eth.rkey = made.reth.rkey;
    return made;
  }
  void deliver(const wire::PacketHeaders& headers, std::span<const std::byte> payload = {}) {
    responder_.handle_request(TestPacket(headers, payload).view());
  }
  void deliver(wire::Operation operation, std::uint32_t psn,
               std::span<const std::byte> payload = {}) {
    deliver(headers(operation, psn, static_cast<std::uint32_t>(payload.size())), payload);
  }
  void read(std::uint32_t psn, std::uint32_t octets, std::size_t offset = 0) {
    auto made = headers(wire::Operation::kReadRequest, psn);
    made.reth = reth(octets, offset);
    deliver(made);
  }
  void fetch_add(std::uint32_t psn, std::uint64_t addend) {
    auto made = headers(wire::Operation::kFetchAdd, psn);
    made.atomic_eth.swap_or_add = addend;
    deliver(made);
  }

  [[nodiscard]] std::optional<TestPacket> poll() {
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    constexpr std::uint16_t kIdentification = 0x4321;
    const std::size_t octets = responder_.poll_transmit(test_path(), frame, kIdentification);
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

 private:
  RcResponder responder_;
};

}  // namespace verbatim::transport::test

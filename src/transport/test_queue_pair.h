// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/pointer.h"
#include "memory/key_registry.h"
#include "transport/queue_pair_machine.h"
#include "transport/test_fixture.h"

/// Shared by the tests of whole queue pairs. Only tests include this file.
namespace verbatim::transport::test {

/// The attributes that the transition of a queue pair of this type to a state requires.
inline QpMask mask_to(QpType type, QpState to) noexcept {
  using enum QpMask;
  const bool is_reliable = type == QpType::kRc;
  const bool is_datagram = type == QpType::kUd;
  switch (to) {
    case QpState::kInit:
      return kState | kPKeyIndex | kPort | (is_datagram ? kQKey : kAccess);
    case QpState::kReadyToReceive:
      if (is_datagram) return kState;
      return kState | kAddress | kPathMtu | kDestQp | kReceivePsn |
             (is_reliable ? kMaxDestReadAtomic | kMinRnrTimer : kNone);
    case QpState::kReadyToSend:
      return kState | kSendPsn |
             (is_reliable ? kTimeout | kRetryCount | kRnrRetry | kMaxReadAtomic : kNone);
    case QpState::kReset:
    case QpState::kSendQueueDrained:
    case QpState::kSendQueueError:
    case QpState::kError:
      return kState;
  }
  return kState;
}

/// A queue pair with memory, keys, queues and completion queues of its own.
class TestEnd {
 public:
  static constexpr std::size_t kOctets = 64 * 1024;  // of registered memory
  static constexpr std::uint32_t kMtu = 256;

  struct Setup {
    QpType type = QpType::kRc;
    std::uint32_t index = 0;  // of the end in a test: its numbers, addresses and keys differ
    std::uint32_t depth = 16;
    std::uint32_t receive_lane_depth = 0;  // 0: as deep as the queue
    bool has_shared_queue = false;
    bool signal_all = true;
    std::span<std::byte> shared{};  // for all that a peer may touch; empty: private memory
  };

  explicit TestEnd(const Setup& setup)
      : setup_(setup),
        octets_(kOctets),
        free_keys_(kKeyCount),
        send_block_(SendQueue::octets_for(send_limits())) {
    blocks_.keys = take(kKeyCount * sizeof(memory::KeyEntry)).data();
    blocks_.first_key_index = (setup.index + 1) * 0x100;
    auto* first = pointer_as<memory::KeyEntry>(blocks_.keys);
    std::uninitialized_value_construct_n(first, kKeyCount);
    registry_.emplace(memory::KeyTable({first, kKeyCount}, blocks_.first_key_index), free_keys_,
                      setup.index + 1);
    key_ = region(kAllRights);
    sends_.emplace(*this);
    receives_.emplace(*this);
    parts_.send_queue = SendQueue(send_block_.octets(), send_limits());
    parts_.send_port = sends_->attach(*this, setup.depth);
    const ReceiveQueue::Limits limits{.depth = setup.depth, .sge_limit = 3};
    if (setup.has_shared_queue) {
      const auto block = take(SharedReceiveRing::octets_for(limits));
      blocks_.receive_queue = block.data();
      parts_.shared_receive = SharedReceiveRing::create(block, kHome, limits);
    } else {
      const auto block = take(ReceiveQueue::octets_for(limits));
      blocks_.receive_queue = block.data();
      parts_.receive_queue = ReceiveQueue::create(block, limits);
    }
    const bool own_depth = setup.receive_lane_depth != 0;
    parts_.receive_port =
        receives_->attach(*this, own_depth ? setup.receive_lane_depth : setup.depth);
    blocks_.responder = take(sizeof(ResponderState)).data();
    parts_.responder = new (blocks_.responder) ResponderState;
    parts_.replay = replay_.data();
    parts_.keys = registry_->table();
    qp_.emplace(QueuePairMachine::Config{.type = setup.type,
                                         .number = number(),
                                         .domain = kHome,
                                         .signal_all = setup.signal_all,
                                         .port_mtu = wire::PathMtu::k1024,
                                         .window_packets = 32,
                                         .read_chunk_packets = 8},
                parts_);
    wanted.access =
        memory::Access::kRemoteWrite | memory::Access::kRemoteRead | memory::Access::kRemoteAtomic;
    wanted.qkey = wire::QKey{0x1111};
    wanted.path_mtu = wire::PathMtu::k256;
    wanted.timeout = 14;
    wanted.retry_count = 3;
    wanted.rnr_retry = 3;
    wanted.min_rnr_timer = 1;
    wanted.max_read_atomic = 4;
    wanted.max_dest_read_atomic = 4;
  }
  TestEnd(const TestEnd&) = delete;
  TestEnd& operator=(const TestEnd&) = delete;

  // ---- Identity

  /// The blocks that a peer may touch.
  struct Blocks {
    std::byte* keys = nullptr;
    std::uint32_t first_key_index = 0;   // of the keys in that block
    std::byte* receive_queue = nullptr;  // its own or a shared one
    std::byte* responder = nullptr;
    std::byte* send_board = nullptr;
    std::byte* send_lane = nullptr;
    std::byte* receive_board = nullptr;
    std::byte* receive_lane = nullptr;
  };
  [[nodiscard]] Blocks blocks() const noexcept {
    Blocks all = blocks_;
    all.send_board = sends_->board_block;
    all.send_lane = sends_->lane_block;
    all.receive_board = receives_->board_block;
    all.receive_lane = receives_->lane_block;
    return all;
  }
  static constexpr std::uint32_t kKeyCount = 16;
  [[nodiscard]] QueuePairMachine& qp() noexcept { return *qp_; }
  [[nodiscard]] const QueuePairMachine::Parts& parts() const noexcept { return parts_; }
  [[nodiscard]] SharedReceiveRing& shared() noexcept { return parts_.shared_receive; }
  [[nodiscard]] wire::QpNumber number() const noexcept {
    return wire::QpNumber{0x11 + setup_.index};
  }
  [[nodiscard]] wire::Gid gid() const noexcept {
    wire::Gid gid;
    gid.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0};
    gid.octets[15] = static_cast<std::uint8_t>(setup_.index + 1);
    return gid;
  }
  [[nodiscard]] Path path_to(const TestEnd& peer) const noexcept {
    Path path;
    path.source = gid();
    path.destination = peer.gid();
    path.refresh_seed();
    return path;
  }

  // ---- States

  QpAttributes wanted;  // what the steps below ask for
  /// One step, with the attributes that it requires and `extra`.
  Status step(QpState to, const TestEnd& peer, QpMask extra = QpMask::kNone) {
    wanted.state = to;
    wanted.dest_qp = peer.number();
    const Path path = path_to(peer);
    return qp_->modify(mask_to(setup_.type, to) | extra, wanted, &path);
  }
  /// One step that needs nothing but the state.
  Status step(QpState to, QpMask extra = QpMask::kNone) { return step(to, *this, extra); }
  /// From RESET to RTR or RTS, one step after another.
  void connect(const TestEnd& peer, QpState to = QpState::kReadyToSend) {
    for (const auto next : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
      VB_ASSERT(step(next, peer).ok());
      if (next == to) return;
    }
  }

  // ---- Memory

  [[nodiscard]] std::span<std::byte> octets(std::size_t offset, std::size_t count) noexcept {
    return octets_.octets().subspan(offset, count);
  }
  /// The address of an octet in requests: the same in every run, so that packets are the same.
  [[nodiscard]] static std::uint64_t address(std::size_t offset) noexcept {
    return 0x10'0000 + offset;
  }
  [[nodiscard]] wire::MemoryKey key() const noexcept { return key_; }
  [[nodiscard]] memory::KeyRegistry& registry() noexcept { return *registry_; }
  [[nodiscard]] wire::MemoryKey region(memory::Access access, memory::DomainId domain = kHome) {
    return *registry_->register_region({.domain = domain,
                                        .address = numeric_address(octets_.octets().data()),
                                        .octets = kOctets,
                                        .base = address(0),
                                        .access = access});
  }
  [[nodiscard]] memory::Sge sge(std::size_t offset, std::uint32_t count) const noexcept {
    return {.address = address(offset), .octets = count, .lkey = key_};
  }

  // ---- Requests

  Status post_receive(std::uint64_t wr_id, std::size_t offset = 0, std::uint32_t count = 1024) {
    const memory::Sge list[] = {sge(offset, count)};
    const ReceiveRequest request{.wr_id = wr_id, .list = list};
    return setup_.has_shared_queue ? parts_.shared_receive.post(request)
                                   : qp_->post_receive(request);
  }
  /// Posts a request whose data lies at `offset`; datagrams go to `peer`.
  Status post(SendRequest request, std::size_t offset, std::uint32_t count,
              const TestEnd* peer = nullptr) {
    const memory::Sge list[] = {sge(offset, count)};
    if (count > 0) request.list = list;
    const Path path = path_to(peer == nullptr ? *this : *peer);
    request.path = &path;
    if (peer != nullptr) request.remote_qp = peer->number();
    request.remote_qkey = wanted.qkey;
    return qp_->post_send(request);
  }
  Status post_send(std::uint64_t wr_id, std::uint32_t count = 8, const TestEnd* peer = nullptr) {
    return post({.wr_id = wr_id, .opcode = SendOpcode::kSend}, 0, count, peer);
  }

  // ---- Completions and events

  [[nodiscard]] std::vector<Completion> sends() { return sends_->take(); }
  [[nodiscard]] std::vector<Completion> receives() { return receives_->take(); }
  [[nodiscard]] CompletionLanes& send_cq() { return *sends_->queue; }
  [[nodiscard]] CompletionLanes& receive_cq() { return *receives_->queue; }
  [[nodiscard]] std::vector<QpEvent> events() {
    std::vector<QpEvent> all;
    while (const auto event = qp_->poll_event()) all.push_back(*event);
    return all;
  }

  // ---- Packets

  /// A packet that the peer could send, with this queue pair as its destination.
  [[nodiscard]] TestPacket packet(wire::Operation operation, wire::PacketHeaders headers = {},
                                  std::span<const std::byte> payload = {}) const {
    headers.bth.opcode = wire::opcode_of(transport_of(setup_.type), operation);
    headers.bth.dest_qp = number();
    return TestPacket(headers, payload);
  }
  /// The packet arrives from the peer that the queue pair is connected to.
  void handle(const TestPacket& packet, Instant now = {}) {
    handle(packet, qp_->path().destination, qp_->path().source, now);
  }
  void handle(const TestPacket& packet, const wire::Gid& source, const wire::Gid& destination,
              Instant now = {}) {
    const auto view = packet.view();
    static constexpr std::array<std::byte, kGrhOctets> kHeader{};
    qp_->handle_packet(
        now,
        {.packet = view, .source = source, .destination = destination, .network_header = kHeader});
  }
  /// The next packet that it sends, if any.
  [[nodiscard]] std::optional<TestPacket> transmit(Instant now = {}) {
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    const bool had_more = qp_->may_have_more();
    const auto sent = qp_->poll_transmit(now, frame);
    EXPECT_TRUE(had_more || sent.octets == 0) << "it had said that there was nothing";
    if (sent.octets == 0) return std::nullopt;
    sent_to_ = *sent.path;
    return TestPacket::written(std::span(frame).first(sent.octets));
  }
  /// The path of the last packet.
  [[nodiscard]] const Path& sent_to() const noexcept { return sent_to_; }
  /// Hands one packet to `peer`; false when there is none.
  bool carry_to(TestEnd& peer, Instant now = {}) {
    const auto packet = transmit(now);
    if (!packet) return false;
    peer.handle(*packet, sent_to_.source, sent_to_.destination, now);
    return true;
  }

 private:
  /// 64-aligned octets that a peer may touch.
  std::span<std::byte> take(std::size_t octets) {
    const std::size_t rounded = (octets + 63) & ~std::size_t{63};
    if (setup_.shared.empty()) return private_.emplace_back(rounded).octets();
    VB_ASSERT(used_ + rounded <= setup_.shared.size());
    used_ += rounded;
    return setup_.shared.subspan(used_ - rounded, rounded);
  }
  /// A completion queue with one lane.
  struct Collector {
    explicit Collector(TestEnd& end)
        : board_block(end.take(CompletionBoard::octets_for(1)).data()) {
      const std::span block(board_block, CompletionBoard::octets_for(1));
      queue = std::make_unique<CompletionLanes>(CompletionBoard::create(block, 1), lanes, 1024);
    }
    CompletionPort attach(TestEnd& end, std::uint32_t depth) {
      const auto block = end.take(CompletionLane::octets_for(depth));
      lane_block = block.data();
      return *queue->attach(CompletionLane::create(block, depth));
    }
    std::vector<Completion> take() const {
      std::vector<Completion> all(queue->waiting_count());
      all.resize(queue->poll(all));
      return all;
    }
    std::byte* board_block;
    std::byte* lane_block = nullptr;
    std::array<CompletionLane, 1> lanes{};
    std::unique_ptr<CompletionLanes> queue;
  };

  [[nodiscard]] SendQueue::Limits send_limits() const noexcept {
    const bool is_datagram = setup_.type == QpType::kUd;
    return {.depth = setup_.depth,
            .sge_limit = 3,
            .inline_limit = 64,
            .carries_paths = is_datagram,
            .carries_binds = !is_datagram};
  }

  Setup setup_;
  std::deque<Block> private_;
  std::size_t used_ = 0;  // octets of setup_.shared
  Block octets_;
  std::vector<std::uint32_t> free_keys_;
  Block send_block_;
  Blocks blocks_;
  std::optional<memory::KeyRegistry> registry_;
  wire::MemoryKey key_{};
  std::optional<Collector> sends_;
  std::optional<Collector> receives_;
  std::array<ReplayEntry, kMaxReadAtomic> replay_{};
  QueuePairMachine::Parts parts_;
  std::optional<QueuePairMachine> qp_;
  Path sent_to_;
};

/// Everything that an end sends now.
inline std::vector<TestPacket> transmit_all(TestEnd& end) {
  std::vector<TestPacket> all;
  while (auto packet = end.transmit()) all.push_back(*packet);
  return all;
}

/// Posts a send whose gather list names a key that does not exist.
inline Status post_broken_send(TestEnd& end, std::uint64_t wr_id) {
  const memory::Sge list[] = {{.address = 0, .octets = 8, .lkey = wire::MemoryKey{1}}};
  const Path path = end.path_to(end);
  return end.qp().post_send({.wr_id = wr_id, .list = list, .path = &path});
}

/// Delivers all packets of the two ends to each other, in order and without loss.
inline void exchange(TestEnd& a, TestEnd& b, Instant now = {}) {
  bool busy = true;
  for (int round = 0; busy; ++round) {
    VB_ASSERT(round < 10'000);
    busy = a.carry_to(b, now);
    busy = b.carry_to(a, now) || busy;
  }
}

/// The wr_id and status of completions, for comparisons.
struct Ending {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  friend bool operator==(const Ending&, const Ending&) = default;
};
inline std::vector<Ending> endings(const std::vector<Completion>& completions) {
  std::vector<Ending> all;
  for (const Completion& each : completions) all.push_back({each.wr_id, each.status});
  return all;
}
inline std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  return out << ending.wr_id << ":" << static_cast<int>(ending.status);
}

using Endings = std::vector<Ending>;
using Events = std::vector<QpEvent>;

}  // namespace verbatim::transport::test

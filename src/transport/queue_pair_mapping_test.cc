// SPDX-License-Identifier: Apache-2.0
// Everything that a peer process may touch lies in memory that is mapped at two addresses. Whole
// histories, in which every step may use either mapping, end as they do in private memory
// (completions are produced through either mapping, and collected through the second). So that
// state contains no pointer.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/pointer.h"
#include "base/prng.h"
#include "transport/test_queue_pair.h"

namespace verbatim::transport::test {
namespace {

/// One piece of memory at two addresses, filled with a pattern.
class TwoMappings {
 public:
  static constexpr std::size_t kOctets = 1 << 18;

  TwoMappings() {
    const int file = memfd_create("state", MFD_CLOEXEC);
    VB_ASSERT(file >= 0 && ftruncate(file, kOctets) == 0);
    for (auto& mapping : mappings_) {
      void* at = mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      VB_ASSERT(at != MAP_FAILED);
      mapping = {static_cast<std::byte*>(at), kOctets};
    }
    close(file);
    std::ranges::fill(first(), std::byte{0xa5});
  }
  ~TwoMappings() {
    for (auto& mapping : mappings_) munmap(mapping.data(), kOctets);
  }
  TwoMappings(const TwoMappings&) = delete;
  TwoMappings& operator=(const TwoMappings&) = delete;

  [[nodiscard]] std::span<std::byte> first() const noexcept { return mappings_[0]; }
  /// The same from `at` on, in the second mapping.
  [[nodiscard]] std::span<std::byte> second_from(const std::byte* at) const noexcept {
    return mappings_[1].subspan(static_cast<std::size_t>(second(at) - mappings_[1].data()));
  }
  /// The place of the second mapping where the same octet lies.
  [[nodiscard]] std::byte* second(const std::byte* at) const noexcept {
    VB_ASSERT(at >= first().data() && at < first().data() + kOctets);
    return mappings_[1].data() + (at - first().data());
  }
  /// Whether any word of the memory is an address of the memory itself.
  [[nodiscard]] bool holds_a_pointer_into_itself() const noexcept {
    for (std::size_t at = 0; at < kOctets; at += 8) {
      std::uint64_t word;
      std::memcpy(&word, first().data() + at, sizeof word);
      for (const auto& mapping : mappings_) {
        if (word - numeric_address(mapping.data()) < kOctets) return true;
      }
    }
    return false;
  }

 private:
  std::array<std::span<std::byte>, 2> mappings_{};
};

/// A peer's views of the state of an end, at other addresses.
class OtherView {
 public:
  OtherView(TestEnd& end, const TwoMappings& memory) {
    const auto blocks = end.blocks();
    const auto at = [&](std::byte* block) { return memory.second(block); };
    const auto from = [&](std::byte* block) { return memory.second_from(block); };
    auto* state = pointer_as<ResponderState>(at(blocks.responder));
    const bool is_shared = end.parts().shared_receive.exists();
    if (is_shared) {
      shared = SharedReceiveRing::attach(from(blocks.receive_queue));
    } else {
      receives = ReceiveQueue::attach(from(blocks.receive_queue));
    }
    keys = memory::KeyTable({pointer_as<memory::KeyEntry>(at(blocks.keys)), TestEnd::kKeyCount},
                            blocks.first_key_index);
    const CompletionPort port(CompletionLane::attach(from(blocks.receive_lane)),
                              CompletionBoard::attach(from(blocks.receive_board)), 0);
    responder = RcResponder(state, end.parts().replay, Landing(state, receives, shared, port, keys),
                            wire::Transport::kRc);
    send_queue = collector(from(blocks.send_board), from(blocks.send_lane), send_lanes);
    receive_queue = collector(from(blocks.receive_board), from(blocks.receive_lane), receive_lanes);
  }
  OtherView(const OtherView&) = delete;
  OtherView& operator=(const OtherView&) = delete;

  using Lanes = std::array<CompletionLane, 1>;
  static std::unique_ptr<CompletionLanes> collector(std::span<std::byte> board,
                                                    std::span<std::byte> lane, Lanes& lanes) {
    auto queue = std::make_unique<CompletionLanes>(CompletionBoard::attach(board), lanes, 1024);
    VB_ASSERT(queue->attach(CompletionLane::attach(lane)).ok());
    return queue;
  }

  ReceiveQueue receives;
  SharedReceiveRing shared;
  memory::KeyTable keys;
  RcResponder responder;
  Lanes send_lanes{};
  Lanes receive_lanes{};
  std::unique_ptr<CompletionLanes> send_queue;
  std::unique_ptr<CompletionLanes> receive_queue;
};

// The memory of each end: the source of its messages, the destination of its READs, its receives,
// and the range that the peer reads and writes. No range has two writers, so that timing changes
// nothing.
constexpr std::size_t kSources = 0;
constexpr std::size_t kLandings = 8 * 1024;
constexpr std::size_t kReceives = 16 * 1024;
constexpr std::size_t kTargets = 32 * 1024;
constexpr std::uint32_t kLongest = 900;
constexpr std::size_t kReceiveCells = 16;

struct Operation {
  SendOpcode opcode{};
  std::uint32_t octets = 0;
  std::size_t local = 0;
  std::size_t remote = 0;
  bool is_inline = false;
  bool is_fenced = false;
};

std::vector<Operation> random_operations(Prng& prng, std::size_t count) {
  constexpr SendOpcode kOpcodes[] = {
      SendOpcode::kSend,     SendOpcode::kSendImm,     SendOpcode::kWrite,
      SendOpcode::kWriteImm, SendOpcode::kRead,        SendOpcode::kCompareSwap,
      SendOpcode::kFetchAdd, SendOpcode::kAtomicWrite, SendOpcode::kFlush};
  std::vector<Operation> all(count);
  bool after_read = false;
  for (Operation& each : all) {
    each.opcode = kOpcodes[prng.below(std::size(kOpcodes))];
    // The data of a READ is certain only if later changes wait for it (IBA Vol 1, 10.8.3.3).
    each.is_fenced = prng.one_in(8) || after_read;
    after_read = each.opcode == SendOpcode::kRead;
    each.octets = static_cast<std::uint32_t>(prng.below(kLongest + 1));
    each.local = kSources + prng.below(4096);
    each.remote = kTargets + prng.below(4096);
    switch (each.opcode) {
      case SendOpcode::kRead:
        each.local = kLandings + prng.below(4096);
        break;
      case SendOpcode::kCompareSwap:
      case SendOpcode::kFetchAdd:
        each.local = kLandings + prng.below(4096);
        [[fallthrough]];
      case SendOpcode::kAtomicWrite:
        each.octets = 8;
        each.remote &= ~std::size_t{7};
        break;
      case SendOpcode::kFlush:
        each.octets = 0;
        break;
      default:
        each.is_inline = each.octets <= 64 && prng.one_in(2);
        break;
    }
  }
  return all;
}

/// How a history ended, for each end: its completions in order, and its memory.
struct Outcome {
  std::vector<std::string> sends;
  std::vector<std::string> receives;
  std::vector<std::byte> octets;
};

std::string describe(const Completion& completion) {
  return std::to_string(completion.wr_id) + " status " +
         std::to_string(static_cast<int>(completion.status)) + " opcode " +
         std::to_string(static_cast<int>(completion.opcode)) + " octets " +
         std::to_string(completion.octets) + " immediate " + std::to_string(completion.imm_or_key) +
         " flags " + std::to_string(static_cast<int>(completion.flags));
}

/// Two connected ends that execute a plan. With `other` views, half of the steps that can use them
/// do so, and packets are lost.
class History {
 public:
  struct Participant {
    TestEnd* end = nullptr;
    OtherView* other = nullptr;  // null: everything through the end itself
    std::vector<Operation> plan{};
    std::size_t posted = 0;
    std::uint64_t receives_posted = 0;
    Outcome outcome{};
  };

  History(Participant a, Participant b, std::uint64_t seed)
      : participants_{std::move(a), std::move(b)}, prng_(seed) {
    for (Participant& participant : participants_) {
      Prng pattern(participant.plan.size());
      for (std::byte& octet : participant.end->octets(kSources, 8 * 1024)) {
        octet = std::byte(pattern.below(256));
      }
    }
    participants_[0].end->connect(*participants_[1].end);
    participants_[1].end->connect(*participants_[0].end);
  }

  void run() {
    for (int quiet = 0, step = 0; quiet < 2; ++step) {
      ASSERT_LT(step, 200'000) << "livelock";
      bool busy = false;
      for (std::size_t i = 0; i < 2; ++i) {
        post_receives(participants_[i]);
        post_sends(participants_[i], participants_[1 - i]);
        busy = carry(participants_[i], participants_[1 - i]) || busy;
        collect(participants_[i]);
      }
      quiet = busy ? 0 : quiet + 1;
      if (!busy && wait_for_timers()) quiet = 0;
    }
    for (Participant& participant : participants_) {
      ASSERT_EQ(participant.end->qp().state(), QpState::kReadyToSend)
          << describe(participant.end->qp().responder_state().reason);
      ASSERT_EQ(participant.posted, participant.plan.size());
      ASSERT_TRUE(participant.end->qp().has_no_sends());
      const auto octets = participant.end->octets(0, TestEnd::kOctets);
      participant.outcome.octets.assign(octets.begin(), octets.end());
    }
  }
  [[nodiscard]] const Outcome& outcome(std::size_t participant) const {
    return participants_[participant].outcome;
  }

 private:
  /// Whether to take the other view this time.
  bool detour(const Participant& participant) {
    return participant.other != nullptr && prng_.one_in(2);
  }

  void post_receives(Participant& participant) {
    for (;;) {
      const std::uint64_t wr_id = participant.receives_posted;
      const auto offset = kReceives + wr_id % kReceiveCells * 1024;
      const memory::Sge list[] = {participant.end->sge(offset, 500),
                                  participant.end->sge(offset + 500, 500)};
      const ReceiveRequest request{.wr_id = wr_id, .list = list};
      const bool is_shared = participant.end->shared().exists();
      auto& shared = detour(participant) ? participant.other->shared : participant.end->shared();
      const Status posted =
          is_shared ? shared.post(request) : participant.end->qp().post_receive(request);
      if (!posted) return;
      ++participant.receives_posted;
      if (prng_.one_in(3)) return;
    }
  }

  void post_sends(Participant& participant, const Participant& peer) {
    while (participant.posted < participant.plan.size()) {
      const Operation& next = participant.plan[participant.posted];
      // Inline data has no key: it is named by its real address.
      const memory::Sge inlined{
          .address = numeric_address(participant.end->octets(next.local, 1).data()),
          .octets = next.octets,
          .lkey = {}};
      const std::uint32_t head = next.octets / 3;
      const memory::Sge gathered[] = {participant.end->sge(next.local, head),
                                      participant.end->sge(next.local + head, next.octets - head)};
      SendFlags flags = next.is_fenced ? SendFlags::kFence : SendFlags::kNone;
      if (next.is_inline) flags = flags | SendFlags::kInline;
      const SendRequest request{
          .wr_id = participant.posted,
          .opcode = next.opcode,
          .flags = flags,
          .list = next.is_inline ? std::span(&inlined, 1) : std::span(gathered),
          .remote_address = TestEnd::address(next.remote),
          .rkey = peer.end->key(),
          .immediate = wire::Immediate{static_cast<std::uint32_t>(participant.posted)},
          .compare_or_add = participant.posted % 3,
          .swap = participant.posted * 7,
          .flush_octets = 16};
      if (!participant.end->qp().post_send(request).ok()) return;
      ++participant.posted;
      if (prng_.one_in(2)) return;
    }
  }

  /// Moves a few packets from one end to the other.
  bool carry(Participant& from, Participant& to) {
    bool moved = false;
    for (std::uint64_t i = prng_.between(1, 5); i > 0; --i) {
      const auto packet = transmit(from);
      if (!packet) break;
      moved = true;
      if (to.other != nullptr && prng_.one_in(20)) continue;  // lost
      if (!packet->view().info().is_response && detour(to)) {
        to.other->responder.handle_request(packet->view());
      } else {
        to.end->handle(*packet, now_);
      }
    }
    return moved;
  }

  std::optional<TestPacket> transmit(Participant& from) {
    if (!detour(from) || !from.other->responder.owes_answers()) return from.end->transmit(now_);
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    const std::size_t octets = from.other->responder.poll_transmit(from.end->qp().path(), frame, 0);
    if (octets == 0) return std::nullopt;
    return TestPacket::written(std::span(frame).first(octets));
  }

  /// One view collects all completions, from the beginning to the end.
  void collect(Participant& participant) {
    std::array<Completion, 4> into;
    const bool is_other = participant.other != nullptr;
    auto& sends = is_other ? *participant.other->send_queue : participant.end->send_cq();
    auto& receives = is_other ? *participant.other->receive_queue : participant.end->receive_cq();
    for (auto* step : {&participant.outcome.sends, &participant.outcome.receives}) {
      const bool is_send = step == &participant.outcome.sends;
      const std::size_t count = (is_send ? sends : receives).poll(into);
      for (std::size_t i = 0; i < count; ++i) step->push_back(describe(into[i]));
    }
  }

  /// No packet is on its way: the next timer must expire.
  bool wait_for_timers() {
    const Instant next = std::min(participants_[0].end->qp().next_timeout(),
                                  participants_[1].end->qp().next_timeout());
    if (next == Instant::never()) return false;
    now_ = std::max(now_, next);
    for (Participant& participant : participants_) participant.end->qp().handle_timeout(now_);
    return true;
  }

  std::array<Participant, 2> participants_;
  Prng prng_;
  Instant now_{};
};

TEST(TwoMappings, ShowOneMemoryTwice) {
  const TwoMappings memory;
  ASSERT_NE(memory.second(memory.first().data()), memory.first().data());
  memory.first()[640] = std::byte{0x5a};
  EXPECT_EQ(*memory.second(&memory.first()[640]), std::byte{0x5a});
  EXPECT_FALSE(memory.holds_a_pointer_into_itself());
  const auto pointer = numeric_address(&memory.first()[100]);
  std::memcpy(&memory.first()[640], &pointer, sizeof pointer);
  EXPECT_TRUE(memory.holds_a_pointer_into_itself());
}

class MappingTest : public testing::TestWithParam<bool> {};

TEST_P(MappingTest, HistoriesEndAsInPrivateMemory) {
  const bool shared = GetParam();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const std::vector<Operation> plans[] = {random_operations(prng, 400),
                                            random_operations(prng, 300)};
    TestEnd a({.index = 0, .has_shared_queue = shared});
    TestEnd b({.index = 1, .has_shared_queue = shared});
    History alone({.end = &a, .plan = plans[0]}, {.end = &b, .plan = plans[1]}, seed);
    alone.run();
    if (HasFatalFailure()) return;

    const TwoMappings memory_a;
    const TwoMappings memory_b;
    TestEnd c({.index = 0, .has_shared_queue = shared, .shared = memory_a.first()});
    TestEnd d({.index = 1, .has_shared_queue = shared, .shared = memory_b.first()});
    OtherView other_c(c, memory_a);
    OtherView other_d(d, memory_b);
    History mapped({.end = &c, .other = &other_c, .plan = plans[0]},
                   {.end = &d, .other = &other_d, .plan = plans[1]}, seed + 100);
    mapped.run();
    if (HasFatalFailure()) return;

    for (std::size_t participant = 0; participant < 2; ++participant) {
      EXPECT_EQ(alone.outcome(participant).sends.size(), plans[participant].size());
      EXPECT_EQ(alone.outcome(participant).sends, mapped.outcome(participant).sends);
      EXPECT_EQ(alone.outcome(participant).receives, mapped.outcome(participant).receives);
      EXPECT_TRUE(alone.outcome(participant).octets == mapped.outcome(participant).octets);
    }
    EXPECT_GT(other_c.responder.counters().requests, 50U) << "both views were at work";
    EXPECT_GT(other_d.responder.counters().requests, 50U);
    EXPECT_GT(c.qp().receiver().rc().counters().requests, 50U);
    EXPECT_FALSE(memory_a.holds_a_pointer_into_itself());
    EXPECT_FALSE(memory_b.holds_a_pointer_into_itself());
  }
}

INSTANTIATE_TEST_SUITE_P(Receives, MappingTest, testing::Bool(),
                         [](const auto& shared) { return shared.param ? "Shared" : "Own"; });

class MappedEnd : public testing::Test {
 protected:
  void SetUp() override {
    end_.connect(peer_);
    peer_.connect(end_);
  }
  wire::PacketHeaders write_headers(std::uint32_t psn, wire::MemoryKey key) {
    wire::PacketHeaders headers;
    headers.bth.psn = wire::Psn(psn);
    headers.bth.ack_request = true;
    headers.reth = {.address = TestEnd::address(0), .rkey = key, .dma_octets = 4};
    return headers;
  }
  void handle_through_other(const TestPacket& packet) {
    other_.responder.handle_request(packet.view());
  }

  const std::vector<std::byte> payload_ = std::vector<std::byte>(4, std::byte{0x77});
  TwoMappings memory_;
  TestEnd end_{{.index = 0, .shared = memory_.first()}};
  TestEnd peer_{{.index = 1}};
  OtherView other_{end_, memory_};
};

TEST_F(MappedEnd, AFailureThroughOneMappingIsHandledThroughTheOther) {
  ASSERT_TRUE(end_.post_receive(1).ok());
  ASSERT_TRUE(end_.post_send(2).ok());
  handle_through_other(end_.packet(wire::Operation::kWriteOnly,
                                   write_headers(0, wire::MemoryKey{0xbad00}), payload_));
  EXPECT_TRUE(end_.qp().responder_state().failed);
  const auto refusal = end_.transmit();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(end_.qp().state(), QpState::kError);
  EXPECT_EQ(end_.events(), Events{QpEvent::kAccessError});
  EXPECT_EQ(endings(end_.sends()), (Endings{{2, WcStatus::kFlushed}}));
  EXPECT_EQ(endings(end_.receives()), (Endings{{1, WcStatus::kFlushed}}));
}

TEST_F(MappedEnd, AWindowThatIsInvalidatedThroughOneMappingIsGoneInTheOther) {
  const auto window = *end_.registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
  const auto key = memory::KeyRegistry::next_key(window);
  ASSERT_TRUE(end_.qp()
                  .post_send({.wr_id = 1,
                              .opcode = SendOpcode::kBindWindow,
                              .bind = {.window_key = window,
                                       .new_key = key,
                                       .region_key = end_.key(),
                                       .address = TestEnd::address(0),
                                       .octets = 64,
                                       .access = memory::Access::kRemoteWrite}})
                  .ok());
  EXPECT_FALSE(end_.transmit().has_value());
  ASSERT_EQ(endings(end_.sends()), (Endings{{1, WcStatus::kSuccess}}));
  handle_through_other(end_.packet(wire::Operation::kWriteOnly, write_headers(0, key), payload_));
  EXPECT_EQ(end_.octets(0, 4)[3], std::byte{0x77});

  ASSERT_TRUE(end_.post_receive(2, 4096).ok());
  auto headers = write_headers(1, key);
  headers.ieth.rkey = key;
  handle_through_other(end_.packet(wire::Operation::kSendOnlyInvalidate, headers, payload_));
  EXPECT_EQ(endings(end_.receives()), (Endings{{2, WcStatus::kSuccess}}));
  end_.handle(end_.packet(wire::Operation::kWriteOnly, write_headers(2, key), payload_));
  EXPECT_EQ(end_.qp().state(), QpState::kError);
  EXPECT_EQ(end_.events(), Events{QpEvent::kAccessError});
}

TEST_F(MappedEnd, AnArmingThroughOneMappingFiresThroughTheOther) {
  ASSERT_TRUE(end_.post_receive(1).ok());
  end_.receive_cq().arm(Arming::kAny);
  wire::PacketHeaders headers;
  handle_through_other(end_.packet(wire::Operation::kSendOnly, headers, payload_));
  EXPECT_TRUE(end_.receive_cq().take_event());
  EXPECT_FALSE(other_.receive_queue->take_event());
}

}  // namespace
}  // namespace verbatim::transport::test

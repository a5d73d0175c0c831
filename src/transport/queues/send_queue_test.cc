// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/send_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/pointer.h"
#include "transport/queues/test_block.h"

namespace verbatim::transport {
namespace {

/// A send queue in storage of its own.
class TestQueue {
 public:
  explicit TestQueue(const SendQueue::Limits& limits)
      : block_(SendQueue::octets_for(limits)), queue_(block_.span(), limits) {}
  SendQueue* operator->() noexcept { return &queue_; }
  SendEntry& newest() noexcept { return queue_.at(queue_.tail() - 1); }

 private:
  TestBlock block_;
  SendQueue queue_;
};

constexpr SendQueue::Limits kLimits{.depth = 4, .sge_limit = 3, .inline_limit = 40};

memory::Sge sge_at(const void* at, std::size_t octets) {
  return {.address = numeric_address(at),
          .octets = static_cast<std::uint32_t>(octets),
          .lkey = wire::MemoryKey{5}};
}

std::array<std::byte, 64> count_up() {
  std::array<std::byte, 64> octets{};
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = std::byte(i);
  return octets;
}

TEST(SendQueue, BeginsEmptyWhateverTheMemoryHeld) {
  TestQueue queue(kLimits);
  EXPECT_TRUE(queue->is_empty());
  EXPECT_EQ(queue->head(), queue->tail());
  EXPECT_TRUE(SendQueue().is_empty());
  ASSERT_TRUE(queue->post({.wr_id = 1}, 0).ok());
  const SendEntry& entry = queue.newest();
  EXPECT_EQ(entry.stage, SendStage::kPosted);
  EXPECT_EQ(entry.failure, WcStatus::kSuccess);
  EXPECT_EQ(entry.reason, Reason::kNone);
  EXPECT_EQ(entry.answered, 0U);
  EXPECT_EQ(entry.walk_at, 0U);
  EXPECT_EQ(entry.octets, 0U);
}

TEST(SendQueue, KeepsTheFieldsOfARequest) {
  TestQueue queue(kLimits);
  const memory::Sge list[] = {{.address = 1000, .octets = 10, .lkey = wire::MemoryKey{7}},
                              {.address = 2000, .octets = 20, .lkey = wire::MemoryKey{8}}};
  ASSERT_TRUE(queue
                  ->post({.wr_id = 42,
                          .opcode = SendOpcode::kCompareSwap,
                          .flags = SendFlags::kFence | SendFlags::kSignaled,
                          .list = list,
                          .remote_address = 0x1234'5678'9abc,
                          .rkey = wire::MemoryKey{9},
                          .immediate = wire::Immediate{10},
                          .invalidate_key = wire::MemoryKey{11},
                          .compare_or_add = 12,
                          .swap = 13,
                          .flush_octets = 14,
                          .flush = {.selectivity = 1, .placement = 2},
                          .remote_srq = wire::SrqNumber{15},
                          .remote_qp = wire::QpNumber{16},
                          .remote_qkey = wire::QKey{17}},
                         0)
                  .ok());
  const SendEntry& entry = queue.newest();
  EXPECT_EQ(entry.wr_id, 42U);
  EXPECT_EQ(entry.opcode, SendOpcode::kCompareSwap);
  EXPECT_TRUE(has(entry.flags, SendFlags::kFence));
  EXPECT_TRUE(has(entry.flags, SendFlags::kSignaled));
  EXPECT_FALSE(has(entry.flags, SendFlags::kSolicited));
  EXPECT_EQ(entry.octets, 30U);
  EXPECT_FALSE(entry.is_inline);
  EXPECT_EQ(entry.remote_address, 0x1234'5678'9abcU);
  EXPECT_EQ(entry.rkey, wire::MemoryKey{9});
  EXPECT_EQ(entry.immediate, wire::Immediate{10});
  EXPECT_EQ(entry.invalidate_key, wire::MemoryKey{11});
  EXPECT_EQ(entry.compare_or_add, 12U);
  EXPECT_EQ(entry.swap, 13U);
  EXPECT_EQ(entry.flush_octets, 14U);
  EXPECT_EQ(entry.flush.placement, 2U);
  EXPECT_EQ(entry.flush.selectivity, 1U);
  EXPECT_EQ(entry.remote_srq, wire::SrqNumber{15});
  EXPECT_EQ(entry.remote_qp, wire::QpNumber{16});
  EXPECT_EQ(entry.remote_qkey, wire::QKey{17});
  const auto kept = queue->list_of(entry);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].address, 1000U);
  EXPECT_EQ(kept[0].octets, 10U);
  EXPECT_EQ(kept[1].lkey, wire::MemoryKey{8});
}

TEST(SendQueue, TheListIsCopiedAtPost) {
  TestQueue queue(kLimits);
  std::array list{memory::Sge{.address = 1, .octets = 2, .lkey = {}}};
  ASSERT_TRUE(queue->post({.list = list}, 0).ok());
  list[0] = {};
  EXPECT_EQ(queue->list_of(queue.newest())[0].address, 1U);
}

// ---- Inline data

TEST(SendQueue, InlineDataIsReadAtPost) {
  TestQueue queue(kLimits);
  auto data = count_up();
  const auto as_posted = data;
  const memory::Sge list[] = {sge_at(&data[0], 3), sge_at(nullptr, 0), sge_at(&data[20], 5)};
  ASSERT_TRUE(queue->post({.flags = SendFlags::kInline, .list = list}, 0).ok());
  data.fill(std::byte{0xee});
  const SendEntry& entry = queue.newest();
  EXPECT_TRUE(entry.is_inline);
  EXPECT_EQ(entry.octets, 8U);
  EXPECT_EQ(entry.sge_count, 0U);
  const auto kept = queue->inline_data_of(entry);
  ASSERT_EQ(kept.size(), 8U);
  EXPECT_EQ(std::memcmp(&kept[0], &as_posted[0], 3), 0);
  EXPECT_EQ(std::memcmp(&kept[3], &as_posted[20], 5), 0);
}

TEST(SendQueue, InlineDataEndsAtItsLimit) {
  TestQueue queue(kLimits);
  auto data = count_up();
  const memory::Sge at_limit[] = {sge_at(data.data(), 40)};
  const memory::Sge beyond[] = {sge_at(data.data(), 40), sge_at(data.data(), 1)};
  EXPECT_TRUE(queue->post({.flags = SendFlags::kInline, .list = at_limit}, 0).ok());
  EXPECT_EQ(queue->post({.flags = SendFlags::kInline, .list = beyond}, 0).error(),
            Errc::kInvalidArgument);
  EXPECT_EQ(queue->tail(), 1U);
  EXPECT_TRUE(std::ranges::equal(queue->inline_data_of(queue.newest()), std::span(data).first(40)));
}

TEST(SendQueue, WithoutInlineRoomOnlyEmptyInlineIsTaken) {
  TestQueue queue({.depth = 2, .sge_limit = 1, .inline_limit = 0});
  const auto data = count_up();
  const memory::Sge one[] = {sge_at(data.data(), 1)};
  EXPECT_FALSE(queue->post({.flags = SendFlags::kInline, .list = one}, 0).ok());
  EXPECT_TRUE(queue->post({.flags = SendFlags::kInline}, 0).ok());
}

// ---- Limits

TEST(SendQueue, ListsEndAtTheirLimit) {
  TestQueue queue(kLimits);
  const std::vector<memory::Sge> list(4);
  EXPECT_TRUE(queue->post({.list = std::span(list).first(3)}, 0).ok());
  EXPECT_EQ(queue->post({.list = list}, 0).error(), Errc::kInvalidArgument);
}

TEST(SendQueue, MessagesEndAtTwoGibibytes) {
  TestQueue queue(kLimits);
  const memory::Sge longest[] = {{.address = 0, .octets = 0x7fff'ffff, .lkey = {}},
                                 {.address = 0, .octets = 1, .lkey = {}}};
  const memory::Sge too_long[] = {{.address = 0, .octets = 0x8000'0000, .lkey = {}},
                                  {.address = 0, .octets = 1, .lkey = {}}};
  const memory::Sge wraps[] = {{.address = 0, .octets = 0xffff'ffff, .lkey = {}},
                               {.address = 0, .octets = 2, .lkey = {}}};
  EXPECT_TRUE(queue->post({.list = longest}, 0).ok());
  EXPECT_EQ(queue.newest().octets, 0x8000'0000U);
  EXPECT_EQ(queue->post({.list = too_long}, 0).error(), Errc::kInvalidArgument);
  EXPECT_EQ(queue->post({.list = wraps}, 0).error(), Errc::kInvalidArgument);
}

TEST(SendQueue, IsFullAtItsDepth) {
  for (const std::uint32_t depth : {1U, 4U, 5U}) {
    TestQueue queue({.depth = depth, .sge_limit = 1, .inline_limit = 8});
    for (std::uint64_t round = 0; round < 9; ++round) {
      for (std::uint64_t i = 0; i < depth; ++i) ASSERT_TRUE(queue->post({.wr_id = i}, 0).ok());
      EXPECT_EQ(queue->post({.wr_id = 99}, 0).error(), Errc::kNoMemory);
      for (std::uint64_t i = 0; i < depth; ++i) {
        EXPECT_EQ(queue->at(queue->head()).wr_id, i);
        queue->remove_head();
      }
      EXPECT_TRUE(queue->is_empty());
    }
  }
}

TEST(SendQueue, AnUncollectedCompletionTakesAPlace) {
  TestQueue queue(kLimits);
  EXPECT_EQ(queue->post({}, 4).error(), Errc::kNoMemory);
  EXPECT_TRUE(queue->post({}, 3).ok());
  EXPECT_EQ(queue->post({}, 3).error(), Errc::kNoMemory);
  EXPECT_TRUE(queue->post({}, 2).ok());
}

TEST(SendQueue, KnowsWhetherSeveralRequestsFit) {
  TestQueue queue(kLimits);
  EXPECT_TRUE(queue->has_room_for(4, 0));
  EXPECT_FALSE(queue->has_room_for(5, 0));
  ASSERT_TRUE(queue->post({}, 0).ok());
  EXPECT_TRUE(queue->has_room_for(3, 0));
  EXPECT_FALSE(queue->has_room_for(4, 0));
  EXPECT_TRUE(queue->has_room_for(1, 2));
  EXPECT_FALSE(queue->has_room_for(1, 3));
}

TEST(SendQueue, AWrongRequestIsInvalidAlsoWhenTheQueueIsFull) {
  TestQueue queue({.depth = 0, .sge_limit = 1, .inline_limit = 0});
  const std::vector<memory::Sge> list(2);
  EXPECT_EQ(queue->post({.list = list}, 0).error(), Errc::kInvalidArgument);
  EXPECT_EQ(queue->post({}, 0).error(), Errc::kNoMemory);
}

// ---- Order and cells

TEST(SendQueue, EntriesDoNotTouchEachOther) {
  TestQueue queue(kLimits);
  auto data = count_up();
  std::vector<memory::Sge> list(3);
  for (std::uint32_t i = 0; i < 3; ++i) list[i] = {.address = i, .octets = i, .lkey = {}};
  const memory::Sge inlined[] = {sge_at(data.data(), 40)};
  for (std::uint64_t i = 0; i < 100; ++i) {
    const bool is_inline = i % 2 == 0;
    const SendRequest request{.wr_id = i,
                              .opcode = is_inline ? SendOpcode::kSend : SendOpcode::kBindWindow,
                              .flags = is_inline ? SendFlags::kInline : SendFlags::kNone,
                              .list = is_inline ? std::span<const memory::Sge>(inlined) : list,
                              .bind = {.address = i, .octets = ~i}};
    ASSERT_TRUE(queue->post(request, 0).ok());
    if (i < 3) continue;
    const SendEntry& oldest = queue->at(queue->head());
    const std::uint64_t id = i - 3;
    EXPECT_EQ(oldest.wr_id, id);
    if (id % 2 == 0) {
      EXPECT_TRUE(std::ranges::equal(queue->inline_data_of(oldest), std::span(data).first(40)));
    } else {
      EXPECT_EQ(queue->bind_of(oldest).address, id);
      EXPECT_EQ(queue->bind_of(oldest).octets, ~id);
      for (std::uint32_t k = 0; k < 3; ++k) EXPECT_EQ(queue->list_of(oldest)[k].address, k);
    }
    queue->remove_head();
  }
}

TEST(SendQueue, ForgetsEverythingWhenCleared) {
  TestQueue queue(kLimits);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue->post({}, 0).ok());
  queue->clear();
  EXPECT_TRUE(queue->is_empty());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue->post({}, 0).ok());
}

// ---- Paths and binds

TEST(SendQueue, ADatagramCarriesACopyOfItsPath) {
  TestQueue queue({.depth = 4,
                   .sge_limit = 2,
                   .inline_limit = 0,
                   .carries_paths = true,
                   .carries_binds = false});
  Path path;
  path.hop_limit = 3;
  path.source.octets[15] = 9;
  const memory::Sge list[] = {{.address = 1, .octets = 2, .lkey = wire::MemoryKey{3}},
                              {.address = 4, .octets = 5, .lkey = wire::MemoryKey{6}}};
  ASSERT_TRUE(queue->post({.list = list, .path = &path}, 0).ok());
  path = {};
  const SendEntry& entry = queue.newest();
  EXPECT_EQ(queue->path_of(entry).hop_limit, 3);
  EXPECT_EQ(queue->path_of(entry).source.octets[15], 9);
  ASSERT_EQ(queue->list_of(entry).size(), 2U);
  EXPECT_EQ(queue->list_of(entry)[1].address, 4U);
  EXPECT_EQ(queue->list_of(entry)[1].lkey, wire::MemoryKey{6});
}

TEST(SendQueue, ADatagramNeedsAPath) {
  TestQueue queue({.depth = 4, .sge_limit = 1, .inline_limit = 0, .carries_paths = true});
  EXPECT_EQ(queue->post({}, 0).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(queue->is_empty());
}

TEST(SendQueue, ABindIsCopiedAtPost) {
  TestQueue queue(kLimits);
  SendRequest request{.opcode = SendOpcode::kBindWindow,
                      .bind = {.window_key = wire::MemoryKey{1},
                               .new_key = wire::MemoryKey{2},
                               .region_key = wire::MemoryKey{3},
                               .address = 4,
                               .octets = 5,
                               .access = memory::Access::kRemoteRead},
                      .bind_type1 = true};
  ASSERT_TRUE(queue->post(request, 0).ok());
  request.bind = {};
  const memory::BindRequest& kept = queue->bind_of(queue.newest());
  EXPECT_TRUE(queue.newest().bind_type1);
  EXPECT_EQ(kept.window_key, wire::MemoryKey{1});
  EXPECT_EQ(kept.new_key, wire::MemoryKey{2});
  EXPECT_EQ(kept.region_key, wire::MemoryKey{3});
  EXPECT_EQ(kept.address, 4U);
  EXPECT_EQ(kept.octets, 5U);
  EXPECT_EQ(kept.access, memory::Access::kRemoteRead);
}

}  // namespace
}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
// Many connections, one after the other and at once, leave nothing behind.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "heap_in_use.h"
#include "qp_capacity.h"
#include "rdmacm_world.h"

namespace verbatim::testing {
namespace {

constexpr std::uint16_t kPort = 7471;

/// Pages that the process has in memory.
std::size_t resident_pages() {
  std::size_t all = 0;
  std::size_t resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%zu %zu", &all, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident;
}

/// The heap in use when nothing is freed any more: a closed connection is kept for a while.
std::size_t heap_at_rest() {
  std::size_t least = heap_in_use();
  for (int unchanged = 0; unchanged < 4;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const std::size_t now = heap_in_use();
    unchanged = now < least ? 0 : unchanged + 1;
    least = std::min(least, now);
  }
  return least;
}

void make_and_close_one(const Channel& channel) {
  rdma_cm_id* active = channel.create_id();
  channel.resolve(active, kPort);
  create_qp(active);
  ASSERT_EQ(rdma_connect(active, nullptr), 0);
  rdma_cm_id* passive = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  create_qp(passive);
  ASSERT_EQ(rdma_accept(passive, nullptr), 0);
  for (int i = 0; i < 2; ++i) (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(rdma_disconnect(active), 0);
  for (int i = 0; i < 2; ++i) (void)channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  destroy(active);
  destroy(passive);
}

TEST(RdmacmScale, ConnectionsOneAfterTheOtherLeaveNothingBehind) {
  constexpr int kCount = 10'000;
  Channel channel;
  rdma_cm_id* listener = channel.listen(kPort);
  // Everything that is allocated once is allocated now.
  for (int i = 0; i < kCount / 2; ++i) make_and_close_one(channel);
  const std::size_t descriptors = descriptor_count();
  const std::size_t threads = thread_count();
  std::size_t heap = heap_at_rest();
  const std::size_t pages = resident_pages();
  // Five thousand connections that each lose ten octets would lose this much, every time. Tables
  // grow once, when more closed connections are kept at a time than ever before.
  constexpr std::size_t kLimit = 50'000;
  std::size_t growth = kLimit + 1;
  int times = 0;
  for (; times < 3 && growth > kLimit; ++times) {
    for (int i = 0; i < kCount / 2 && !::testing::Test::HasFailure(); ++i) {
      make_and_close_one(channel);
    }
    const std::size_t now = heap_at_rest();
    growth = now > heap ? now - heap : 0;
    heap = now;
  }
  EXPECT_LE(growth, kLimit);
  EXPECT_EQ(descriptor_count(), descriptors);
  EXPECT_EQ(thread_count(), threads);
  // Half a kilobyte each, outside the heap, would be this much. The records of every queue pair
  // number stay, touched once each: two numbers, of 192 and 128 octets.
  constexpr std::size_t kRecordPages = kCount / 2 * 2 * (192 + 128) / 4096;
  if (!kIsSanitized) {
    EXPECT_LE(resident_pages(), pages + static_cast<std::size_t>(times) * (600 + kRecordPages));
  }
  destroy(listener);
}

TEST(RdmacmScale, ManyConnectionsAtOnceLeaveNothingBehind) {
  constexpr std::size_t kCount = 1000;
  Channel channel;
  rdma_cm_id* listener = channel.listen(kPort);
  make_and_close_one(channel);
  const std::size_t descriptors = descriptor_count();
  const std::size_t threads = thread_count();
  std::vector<rdma_cm_id*> ids;
  // One completion queue for all: each of its own would be a pair of descriptors.
  ibv_cq* cq = nullptr;
  const auto add_qp = [&](rdma_cm_id* id) {
    if (cq == nullptr) cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq;
    init.cap = qp_capacity(1, 1);
    ASSERT_EQ(rdma_create_qp(id, nullptr, &init), 0) << std::strerror(errno);
    ids.push_back(id);
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    rdma_cm_id* active = channel.create_id();
    sockaddr_in address = ipv4("127.0.0.1", kPort);
    ASSERT_EQ(rdma_resolve_addr(active, nullptr, as_sockaddr(address), 2000), 0);
  }
  std::size_t established = 0;
  while (established < 2 * kCount && !::testing::Test::HasFailure()) {
    const SeenEvent event = channel.next();
    switch (event.kind) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        EXPECT_EQ(rdma_resolve_route(event.id, 2000), 0);
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        add_qp(event.id);
        EXPECT_EQ(rdma_connect(event.id, nullptr), 0);
        break;
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        add_qp(event.id);
        EXPECT_EQ(rdma_accept(event.id, nullptr), 0);
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established;
        break;
      default:
        ADD_FAILURE() << rdma_event_str(event.kind) << ", status " << event.status;
    }
  }
  EXPECT_EQ(established, 2 * kCount);
  EXPECT_EQ(ids.size(), 2 * kCount);
  EXPECT_LE(descriptor_count(), descriptors + 40) << "a connection takes no descriptor of its own";
  for (rdma_cm_id* id : ids) destroy(id);
  if (cq != nullptr) ibv_destroy_cq(cq);
  EXPECT_EQ(thread_count(), threads);
  destroy(listener);
}

}  // namespace
}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
// The two sides of a data port race: no wake-up is lost, and no packet.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "host/descriptor.h"
#include "host/test_fabric_data.h"

namespace verbatim::host {
namespace {

using test::DataFabric;
using test::FabricFolder;

// Longer than any pause on a busy machine: then a wake-up was lost.
constexpr int kLostMs = 20'000;
constexpr auto kTestLasts = std::chrono::milliseconds(700);

/// As the process of a fabric does it: the bell is never read.
class BellWatch {
 public:
  explicit BellWatch(int bell) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event edge{.events = EPOLLIN | EPOLLET, .data = {}};
    EXPECT_EQ(::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, bell, &edge), 0);
  }
  [[nodiscard]] bool wait() const {
    epoll_event event{};
    return ::epoll_wait(epoll_.number(), &event, 1, kLostMs) == 1;
  }

 private:
  Descriptor epoll_;
};

void dawdle(Prng& prng) {
  for (auto left = prng.below(200); left > 0; --left)
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Returns each packet to its sender until the sender has said that it has done.
void return_packets(FabricDataServerPort& port, const std::atomic<bool>& is_done) {
  const BellWatch bell(port.fabric_bell());
  Prng prng(1);
  while (!is_done.load()) {
    if (const auto posted = port.take_posted()) {
      ASSERT_TRUE(port.put(port.packet(posted->buffer)));
      port.free_buffer(posted->buffer);
      port.ring();
      dawdle(prng);
    } else if (port.begin_rest(0)) {
      ASSERT_TRUE(bell.wait()) << "a wake-up of the fabric was lost";
      port.end_rest();
    }
  }
}

/// The next packets; waits for them.
std::span<const std::span<const std::byte>> await_packets(FabricDataPort& port) {
  for (;;) {
    if (const auto packets = port.receive(); !packets.empty()) return packets;
    port.release();
    if (port.lower_bell() && !test::is_readable(port.descriptor(), kLostMs)) return {};
  }
}

TEST(FabricDataPort, NoWakeUpIsLostBetweenTwoThatWaitForEachOther) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  std::atomic<bool> is_done{false};
  std::thread other([&] { return_packets(server, is_done); });
  Prng prng(2);
  std::uint64_t number = 0;
  const auto end = std::chrono::steady_clock::now() + kTestLasts;
  while (std::chrono::steady_clock::now() < end) {
    const auto room = port.next_buffer();
    ASSERT_FALSE(room.empty());
    std::memcpy(room.data(), &++number, sizeof number);
    port.post(64);
    port.ring_fabric();
    const auto packets = await_packets(port);
    ASSERT_EQ(packets.size(), 1U) << "a wake-up of the process was lost";
    std::uint64_t got = 0;
    std::memcpy(&got, packets[0].data(), sizeof got);
    ASSERT_EQ(got, number);
    port.release();
    dawdle(prng);
  }
  is_done.store(true);
  (void)port.next_buffer();
  port.post(64);
  port.ring_fabric();
  other.join();
  EXPECT_GT(number, 100U);
}

/// Both on one processor, so that the process often runs as soon as its bell is rung, while the
/// fabric is in the middle of that.
void share_one_processor() {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t number = 0; number < CPU_SETSIZE; ++number) {
    if (!CPU_ISSET(number, &all)) continue;
    CPU_SET(number, &one);
    break;
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(FabricDataPort, ABellWakesAProcessOnce) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  constexpr std::uint64_t kPackets = 2'000;
  std::atomic<std::uint64_t> taken{0};
  std::uint64_t vain = 0;
  std::thread process([&] {
    share_one_processor();
    bool was_woken = false;
    while (taken.load() < kPackets) {
      const std::size_t count = port.receive().size();
      port.release();
      taken.fetch_add(count);
      if (std::exchange(was_woken, false) && count == 0) ++vain;
      if (count > 0 || !port.lower_bell()) continue;
      ASSERT_TRUE(test::is_readable(port.descriptor(), kLostMs)) << "a wake-up was lost";
      was_woken = true;
    }
  });
  share_one_processor();
  const auto packet = test::packet_of(64, 1);
  for (std::uint64_t number = 0; number < kPackets; ++number) {
    while (!server.put(packet)) ::sched_yield();
    server.ring();
    while (taken.load() <= number) ::sched_yield();
  }
  process.join();
  EXPECT_LE(vain, kPackets) << "as many as there were rings";
}

TEST(FabricDataPort, NoWakeUpIsLostWhereTheRingIsFullNowAndThen) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    const BellWatch bell(server.fabric_bell());
    std::vector<std::byte> packet(4'000);
    for (std::uint64_t number = 1; !is_done.load();) {
      std::memcpy(packet.data(), &number, sizeof number);
      if (server.put(packet)) {
        ++number;
        server.ring();
      } else if (server.begin_rest(4'000)) {
        ASSERT_TRUE(bell.wait()) << "a wake-up of the fabric was lost";
        server.end_rest();
      }
    }
  });
  Prng prng(3);
  std::uint64_t number = 0;
  const auto end = std::chrono::steady_clock::now() + kTestLasts;
  while (std::chrono::steady_clock::now() < end) {
    const auto packets = await_packets(port);
    ASSERT_FALSE(packets.empty()) << "a wake-up of the process was lost";
    for (const auto packet : packets) {
      std::uint64_t got = 0;
      std::memcpy(&got, packet.data(), sizeof got);
      ASSERT_EQ(got, ++number);
    }
    if (prng.below(3) == 0) port.release();
  }
  is_done.store(true);
  port.release();
  (void)port.next_buffer();
  port.post(64);  // wakes a fabric that waits for room as well
  port.ring_fabric();
  other.join();
  EXPECT_GT(number, 100U);
}

}  // namespace
}  // namespace verbatim::host

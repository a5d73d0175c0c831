// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_data_ports.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/pointer.h"
#include "base/prng.h"
#include "fabric/test_fabric.h"
#include "host/fabric_data_port.h"
#include "host/fabric_greeting.h"
#include "host/test_fabric.h"
#include "tools/fabric/test_management.h"
#include "wire/headers/bth.h"
#include "wire/headers/lrh.h"

namespace verbatim::tools {
namespace {

using fabric::test::TestFabric;
using host::FabricDataPort;
using wire::Lid;
using wire::QpNumber;
using namespace std::chrono_literals;

constexpr std::size_t kHeaders = wire::Lrh::kSize + wire::Bth::kSize;
constexpr std::size_t kPacket = 2'000;

/// The process of a fabric with the hosts h0 to h3, whose LIDs are 1 to 4. The test says what time
/// it is.
class Process {
 public:
  explicit Process(const fabric::FabricOptions& options = {})
      : net(fabric::test::star("4"), options) {
    std::string message;
    EXPECT_TRUE(server.open(folder.place(), message)) << message;
    net.bring_up(4);
  }

  void attach(FabricDataPort& port, const std::string& node, std::uint32_t slot) {
    EXPECT_EQ(try_attach(port, node, slot), "");
  }
  /// The reason of a refusal.
  std::string try_attach(FabricDataPort& port, const std::string& node, std::uint32_t slot) {
    std::string message;
    serve_while([&] {
      if (port.open(folder.place(), node, {.port = 1, .slot = slot}, message)) message.clear();
    });
    return message;
  }
  template <typename Work>
  void serve_while(Work&& work) {
    std::atomic<bool> has_ended{false};
    std::thread thread([&] {
      work();
      has_ended.store(true);
    });
    while (!has_ended.load()) serve(1);
    thread.join();
  }
  void serve(int milliseconds) {
    pollfd ready{.fd = server.descriptor(), .events = POLLIN, .revents = 0};
    (void)::poll(&ready, 1, milliseconds);
    server.handle_ready();
    while (const auto event = server.poll_event()) {
      if (const auto* attached = std::get_if<host::FabricEvent::Attached>(&event->what)) {
        data.attach(
            {.client = event->client, .port = net.host(attached->node), .slot = attached->slot},
            host::test::adapter_state(), attached->node + "/1");
      } else if (const auto* claimed = std::get_if<host::FabricEvent::Claimed>(&event->what)) {
        data.set_service(event->client, claimed->service, claimed->listens);
      } else if (std::holds_alternative<host::FabricEvent::Left>(event->what)) {
        EXPECT_TRUE(data.detach(net.now, event->client));
        ++left;
      }
    }
  }
  void await_left(int count) {
    while (left < count) serve(100);
  }
  /// What happens in a moment.
  void turn() {
    data.handle_bells(net.now);
    net.advance_all_due();
    data.turn(net.now);
  }

  host::test::FabricFolder folder;
  TestFabric net;
  host::FabricServer server;
  FabricDataPorts data{net.fabric, server};
  int left = 0;
};

struct Address {
  Lid source{};
  Lid destination{};
  std::uint32_t dest_qp = 0;
};

/// False: no buffer is free.
bool post(FabricDataPort& port, const Address& address, std::uint32_t number,
          std::size_t octets = kPacket) {
  const auto room = port.next_buffer();
  if (room.empty()) return false;
  wire::Lrh{.destination = address.destination,
            .packet_words = static_cast<std::uint16_t>(octets / 4),
            .source = address.source}
      .emit(room.first<wire::Lrh::kSize>());
  wire::Bth{.opcode = opcode_of(wire::Transport::kRc, wire::Operation::kSendOnly),
            .dest_qp = QpNumber{address.dest_qp}}
      .emit(room.subspan<wire::Lrh::kSize, wire::Bth::kSize>());
  std::memcpy(&room[kHeaders], &number, sizeof number);
  port.post(octets);
  port.ring_fabric();
  return true;
}

/// The numbers of the packets that have arrived.
std::vector<std::uint32_t> take(FabricDataPort& port) {
  std::vector<std::uint32_t> numbers;
  for (auto packets = port.receive(); !packets.empty(); packets = port.receive()) {
    for (const auto packet : packets) {
      EXPECT_EQ(packet.size(), kPacket);
      std::memcpy(&numbers.emplace_back(), &packet[kHeaders], sizeof(std::uint32_t));
    }
  }
  port.release();
  return numbers;
}

using Numbers = std::vector<std::uint32_t>;
constexpr std::uint32_t number_in_slot(std::uint32_t slot, std::uint32_t number = 5) {
  return slot * kNumbersPerSlot + number;
}
const Address kToSlot2{Lid{1}, Lid{2}, number_in_slot(2)};

TEST(FabricDataPorts, APacketReachesTheProcessWhoseSlotIsInTheNumber) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  FabricDataPort beside;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  process.attach(beside, "h1", 3);
  for (std::uint32_t number = 0; number < 10; ++number) ASSERT_TRUE(post(sender, kToSlot2, number));
  process.turn();
  EXPECT_EQ(take(receiver), (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(take(beside), Numbers{});
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
  ASSERT_TRUE(post(receiver, {Lid{2}, Lid{1}, number_in_slot(0)}, 77));
  process.turn();
  EXPECT_EQ(take(sender), Numbers{77});
}

TEST(FabricDataPorts, APacketToTheOwnPortDoesNotLeaveTheAdapter) {
  Process process;
  FabricDataPort one;
  FabricDataPort other;
  process.attach(one, "h0", 0);
  process.attach(other, "h0", 1);
  ASSERT_TRUE(post(one, {Lid{1}, Lid{1}, number_in_slot(1)}, 1));
  ASSERT_TRUE(post(one, {Lid{1}, Lid{1}, number_in_slot(0)}, 2));
  process.turn();
  EXPECT_EQ(take(other), Numbers{1});
  EXPECT_EQ(take(one), Numbers{2});
}

TEST(FabricDataPorts, APacketToAGroupIsForAllAndOneForQueuePairOneForTheLowestSlot) {
  Process process;
  FabricDataPort high;
  FabricDataPort low;
  process.attach(high, "h0", 9);
  process.attach(low, "h0", 4);
  ASSERT_TRUE(post(high, {Lid{1}, Lid{0xc001}, 0xffffff}, 1));
  ASSERT_TRUE(post(high, {Lid{1}, Lid{1}, 1}, 2));
  process.turn();
  EXPECT_EQ(take(high), Numbers{1});
  EXPECT_EQ(take(low), (Numbers{1, 2}));
  EXPECT_EQ(high.free_buffer_count(), host::FabricDataArea::kBuffers);
}

/// How many packets have arrived.
std::size_t take_all(FabricDataPort& port) {
  std::size_t count = 0;
  for (auto packets = port.receive(); !packets.empty(); packets = port.receive()) {
    count += packets.size();
  }
  port.release();
  return count;
}

bool post_message(FabricDataPort& port, const wire::CmMessage& message) {
  const auto packet = test::packet_with(message, {.source = Lid{1}, .destination = Lid{2}});
  const auto room = port.next_buffer();
  if (room.size() < packet.size()) return false;
  std::ranges::copy(packet, room.begin());
  port.post(packet.size());
  port.ring_fabric();
  return true;
}

TEST(FabricDataPorts, AMessageOfConnectionsIsForTheProcessThatListensOrHasGivenItsId) {
  constexpr std::uint32_t kService = 0x0106'1c06;
  Process process;
  FabricDataPort sender;
  FabricDataPort lowest;
  FabricDataPort named;
  process.attach(sender, "h0", 0);
  process.attach(lowest, "h1", 2);
  process.attach(named, "h1", 7);
  const wire::CmReq request{.service_id = wire::ServiceId{kService}};
  ASSERT_TRUE(post_message(sender, request));
  process.turn();
  EXPECT_EQ(take_all(lowest), 1U) << "no process listens";
  ASSERT_TRUE(named.tell_claim(kService, true));
  process.serve(100);
  ASSERT_TRUE(post_message(sender, request));
  ASSERT_TRUE(post_message(sender, wire::CmRtu{.remote_comm_id = wire::CommId{0x0700'0001}}));
  process.turn();
  EXPECT_EQ(take_all(named), 2U);
  EXPECT_EQ(take_all(lowest), 0U);
  ASSERT_TRUE(named.tell_claim(kService, false));
  process.serve(100);
  ASSERT_TRUE(post_message(sender, request));
  ASSERT_TRUE(post_message(sender, wire::CmRtu{.remote_comm_id = wire::CommId{0x0900'0001}}));
  process.turn();
  EXPECT_EQ(take_all(named), 0U);
  EXPECT_EQ(take_all(lowest), 2U);
}

TEST(FabricDataPorts, WhatCannotBeDeliveredIsCountedAndItsBufferIsFree) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  ASSERT_TRUE(post(sender, {Lid{1}, Lid{2}, number_in_slot(3)}, 1));  // no such slot there
  ASSERT_TRUE(post(sender, {Lid{1}, Lid{3}, number_in_slot(2)}, 2));  // no process there
  ASSERT_TRUE(post(sender, {Lid{1}, Lid{2}, 0}, 3));                  // queue pair 0
  sender.next_buffer()[1] = std::byte{0};                             // raw
  sender.post(100);
  sender.post(8);
  process.turn();
  EXPECT_EQ(process.data.counters().unclaimed, 2U);
  EXPECT_EQ(process.data.counters().malformed, 3U);
  EXPECT_EQ(process.data.counters().undelivered, 0U);
  EXPECT_EQ(take(receiver), Numbers{});
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
}

/// Posts packets until the ring of the receiver is full and no buffer is free; the next number.
std::uint32_t fill(Process& process, FabricDataPort& sender, std::uint32_t number = 0) {
  for (int idle = 0; idle < 3;) {
    const bool is_posted = post(sender, kToSlot2, number);
    if (is_posted) ++number;
    idle = is_posted ? 0 : idle + 1;
    process.turn();
  }
  return number;
}

TEST(FabricDataPorts, WhereARingIsFullPacketsWaitInOrder) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  std::uint32_t sent = fill(process, sender);
  EXPECT_GT(sent, 700U);
  EXPECT_NE(process.data.next_due(), Instant::never());
  std::uint32_t got = 0;
  for (int round = 0; round < 20; ++round) {
    process.net.now = process.net.now + (FabricDataPorts::kPatience - 1us);  // slow, but not dead
    for (const std::uint32_t number : take(receiver)) ASSERT_EQ(number, got++);
    process.turn();
    sent = fill(process, sender, sent);
  }
  for (auto left = take(receiver); !left.empty(); process.turn(), left = take(receiver)) {
    for (const std::uint32_t number : left) ASSERT_EQ(number, got++);
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(process.data.counters().undelivered, 0U);
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
  EXPECT_EQ(process.data.next_due(), Instant::never());
}

TEST(FabricDataPorts, WhatWaitsForAProcessThatTakesNothingIsDiscarded) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  FabricDataPort other;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  process.attach(other, "h2", 0);
  (void)fill(process, sender);
  process.net.now = process.net.now + (FabricDataPorts::kPatience - 1us);
  process.turn();
  EXPECT_EQ(sender.free_buffer_count(), 0U);
  process.net.now = process.data.next_due();
  process.turn();
  EXPECT_EQ(process.data.counters().undelivered, host::FabricDataArea::kBuffers);
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
  ASSERT_TRUE(post(sender, {Lid{1}, Lid{3}, number_in_slot(0)}, 9));
  process.turn();
  EXPECT_EQ(take(other), Numbers{9});
}

TEST(FabricDataPorts, AFabricThatWasStoppedItselfWaitsOnceMore) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  const std::uint32_t posted = fill(process, sender);
  process.net.now = process.net.now + 1s;
  process.turn();
  EXPECT_EQ(process.data.counters().undelivered, 0U) << "nothing could be served meanwhile";
  std::size_t got = take(receiver).size();
  process.turn();
  got += take(receiver).size();
  EXPECT_EQ(got, posted);
  (void)fill(process, sender);
  for (int stops = 0; stops < 2; ++stops) {
    process.net.now = process.net.now + 1s;
    process.turn();
  }
  EXPECT_EQ(process.data.counters().undelivered, host::FabricDataArea::kBuffers) << "but not twice";
}

/// Its packets lie in the receive buffer of its adapter, so the senders get no credits.
TEST(FabricDataPorts, AProcessThatTakesNothingStopsItsLaneOnlyOnce) {
  fabric::FabricOptions options;
  options.holds_arrivals = true;
  Process process(options);
  FabricDataPort sender;
  FabricDataPort receiver;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  const std::uint32_t sent = fill(process, sender);
  const auto at_h1 = [&] { return process.net.fabric.lane_state(process.net.host("h1"), {}); };
  const auto queued = [&](fabric::PortEnd port) {
    return process.net.fabric.lane_state(port, {}).queued_packets;
  };
  EXPECT_GT(at_h1().buffered_blocks, 256U - 32);
  EXPECT_GT(queued(process.net.leaf(2)), 0U);
  EXPECT_GT(queued(process.net.host("h0")), 200U);
  process.net.now = process.data.next_due();
  process.turn();
  EXPECT_EQ(process.data.counters().undelivered, host::FabricDataArea::kBuffers);
  EXPECT_EQ(process.net.fabric.drop_count(fabric::DropReason::kNoRoom),
            host::FabricDataArea::kBuffers);
  EXPECT_EQ(at_h1().buffered_blocks, 0U);
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
  ASSERT_TRUE(post(sender, {Lid{1}, Lid{2}, number_in_slot(2)}, sent));
  process.turn();
  EXPECT_EQ(process.data.next_due(), Instant::never()) << "nothing waits for it again";
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
  while (!take(receiver).empty()) continue;
  ASSERT_TRUE(post(sender, {Lid{1}, Lid{2}, number_in_slot(2)}, sent + 1));
  process.turn();
  EXPECT_EQ(take(receiver), Numbers{sent + 1}) << "until it takes something";
}

TEST(FabricDataPorts, WhatAProcessThatHasEndedCannotSendIsDiscardedAfterAWhile) {
  Process process;
  wire::Smp no_lane_is_served{.method = wire::MadMethod::kSet,
                              .attribute = wire::SmpAttribute::kVlArbitrationTable,
                              .attribute_modifier = 1U << 16};
  ASSERT_TRUE(process.net.ask(no_lane_is_served, {}));
  {
    FabricDataPort sender;
    process.attach(sender, "h0", 0);
    for (std::uint32_t number = 0; number < 5; ++number) {
      ASSERT_TRUE(post(sender, kToSlot2, number));
    }
    process.turn();
  }
  process.await_left(1);
  const auto queued = [&] {
    return process.net.fabric.lane_state(process.net.host("h0"), {}).queued_packets;
  };
  EXPECT_EQ(queued(), 5U);
  process.net.now = process.data.next_due();
  process.turn();
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(process.net.fabric.drop_count(fabric::DropReason::kSenderGone), 5U);
  EXPECT_EQ(process.data.next_due(), Instant::never()) << "nothing of it is left";
}

/// A process that writes into its area what it likes.
class Hostile {
 public:
  Hostile(Process& process, const std::string& node, std::uint32_t slot) {
    process.serve_while([&] {
      host::FabricHello hello;
      std::string message;
      hello.purpose = host::FabricHello::Purpose::kData;
      hello.port = 1;
      hello.slot = slot;
      EXPECT_TRUE(host::name_node(hello, node, message));
      auto welcome = host::greet_fabric(process.folder.place(), hello, message);
      ASSERT_TRUE(welcome.ok()) << message;
      connection_ = std::move(welcome->connection);
      void* mapped = ::mmap(nullptr, sizeof(host::FabricDataArea), PROT_READ | PROT_WRITE,
                            MAP_SHARED, welcome->data[0].number(), 0);
      ASSERT_NE(mapped, MAP_FAILED);
      area = pointer_as<host::FabricDataArea>(mapped);
    });
  }
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;
  ~Hostile() { ::munmap(area, sizeof(host::FabricDataArea)); }

  host::FabricDataArea* area = nullptr;

 private:
  host::Descriptor connection_;
};

TEST(FabricDataPorts, AProcessThatReleasesWithoutMakingRoomIsNotWaitedForLong) {
  Process process;
  FabricDataPort sender;
  process.attach(sender, "h0", 0);
  const Hostile receiver(process, "h1", 2);
  (void)fill(process, sender);
  const Instant begin = process.net.now;
  while (process.data.next_due() != Instant::never()) {
    receiver.area->released.fetch_add(1);
    process.net.now = process.net.now + 1ms;
    process.turn();
    ASSERT_LE(process.net.now - begin, FabricDataPorts::kPatienceMax);
  }
  EXPECT_GT(process.net.now - begin, FabricDataPorts::kPatience);
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
}

TEST(FabricDataPorts, AProcessThatWritesAnythingHarmsOnlyItself) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  const Hostile hostile(process, "h0", 1);
  auto* const words = pointer_as<std::uint64_t>(hostile.area);
  Prng prng(1);
  std::uint32_t posted = 0;
  for (std::uint32_t round = 0; round < 20'000; ++round) {
    words[prng.below(sizeof(host::FabricDataArea) / 8)] = prng.next() >> prng.below(64);
    words[prng.below(offsetof(host::FabricDataArea, buffers) / 8)] = prng.next();
    const Address wanted{Lid{1}, Lid{static_cast<std::uint16_t>(prng.below(4))},
                         number_in_slot(static_cast<std::uint32_t>(prng.below(3)))};
    auto& buffer = hostile.area->buffers[prng.below(host::FabricDataArea::kBuffers)];
    wire::Lrh{.destination = wanted.destination, .packet_words = 25, .source = wanted.source}.emit(
        std::span(buffer).first<wire::Lrh::kSize>());
    wire::Bth{.dest_qp = QpNumber{wanted.dest_qp}}.emit(
        std::span(buffer).subspan<wire::Lrh::kSize, wire::Bth::kSize>());
    hostile.area->sending[prng.below(host::FabricDataArea::kBuffers)].store(
        static_cast<std::uint32_t>(prng.below(host::FabricDataArea::kBuffers) << 16 | 100));
    hostile.area->posted.store(posted += static_cast<std::uint32_t>(prng.below(2)));
    ASSERT_TRUE(post(sender, kToSlot2, round));
    process.net.now = process.net.now + 1us;
    process.turn();
    bool has_arrived = false;
    for (auto packets = receiver.receive(); !packets.empty(); packets = receiver.receive()) {
      for (const auto packet : packets) {
        if (packet.size() != kPacket) continue;  // of the hostile one
        EXPECT_EQ(std::memcmp(&packet[kHeaders], &round, sizeof round), 0);
        has_arrived = true;
      }
    }
    ASSERT_TRUE(has_arrived) << round;
    receiver.release();
  }
  EXPECT_FALSE(receiver.has_ended());
}

TEST(FabricDataPorts, TheFabricRestsAfterAWhileAndIsWoken) {
  Process process;
  FabricDataPort sender;
  FabricDataPort receiver;
  process.attach(sender, "h0", 0);
  process.attach(receiver, "h1", 2);
  EXPECT_FALSE(process.data.is_looking());
  for (std::uint32_t number = 0; number < 3; ++number) {
    ASSERT_TRUE(post(sender, kToSlot2, number));
    pollfd ready{.fd = process.data.descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&ready, 1, 0), 1);
    process.turn();
    EXPECT_TRUE(process.data.is_looking());
    EXPECT_EQ(take(receiver), Numbers{number});
    EXPECT_EQ(::poll(&ready, 1, 0), 0);
    process.net.now = process.net.now + FabricDataPorts::kLooking;
    process.turn();
    EXPECT_FALSE(process.data.is_looking());
  }
}

TEST(FabricDataPorts, WhatAProcessRefusesIsCountedAtItsPortNowAndThen) {
  Process process;
  FabricDataPort port;
  process.attach(port, "h1", 0);
  const auto violations = [&] {
    return process.net.fabric.port_status(process.net.host("h1")).pkey_violations;
  };
  process.net.wait(1s);
  port.report(host::FabricKey::kPKey, {.key = 0x8001});
  process.turn();
  EXPECT_EQ(violations(), 1);
  for (int i = 0; i < 10; ++i) port.report(host::FabricKey::kPKey, {.key = 0x8001});
  process.turn();
  EXPECT_EQ(violations(), 1) << "not at once";
  EXPECT_TRUE(process.data.is_looking()) << "and it is not forgotten";
  process.net.wait(FabricDataPorts::kReportsEvery);
  process.turn();
  EXPECT_EQ(violations(), 11);
  port.report(host::FabricKey::kQKey, {});
  port.close();
  process.await_left(1);
  EXPECT_EQ(process.net.fabric.port_status(process.net.host("h1")).qkey_violations, 1);
}

TEST(FabricDataPorts, ASlotIsForOneProcess) {
  Process process;
  FabricDataPort first;
  FabricDataPort second;
  process.attach(first, "h0", 0);
  EXPECT_NE(process.try_attach(second, "h0", 0).find("another process with slot 0 uses h0/1"),
            std::string::npos);
  EXPECT_NE(process.try_attach(second, "h0", kSlotCount), "");
  process.attach(second, "h1", 0);
  second.close();
  first.close();
  process.await_left(2);
  process.attach(second, "h0", 0);
}

TEST(FabricDataPorts, WhatAProcessHasPostedBeforeItsEndArrives) {
  Process process;
  FabricDataPort receiver;
  process.attach(receiver, "h1", 2);
  {
    FabricDataPort sender;
    process.attach(sender, "h0", 0);
    for (std::uint32_t number = 0; number < 100; ++number) {
      ASSERT_TRUE(post(sender, kToSlot2, number));
    }
  }
  process.await_left(1);
  EXPECT_EQ(take(receiver).size(), 100U);
}

TEST(FabricDataPorts, APacketThatIsOnTheWayOutlivesItsSender) {
  Process process({.hop_delay = 5us});
  FabricDataPort receiver;
  process.attach(receiver, "h1", 2);
  for (int sender_number = 1; sender_number <= 3; ++sender_number) {
    FabricDataPort sender;
    process.attach(sender, "h0", 0);
    ASSERT_TRUE(post(sender, kToSlot2, 1));
    process.turn();
    sender.close();
    process.await_left(sender_number);
    EXPECT_EQ(take(receiver), Numbers{});
  }
  process.net.wait(20us);
  process.turn();
  EXPECT_EQ(take(receiver), (Numbers{1, 1, 1}));
}

/// A process of its own that opens a data port, does something and is killed.
template <typename Work>
void run_killed(Process& process, const std::string& node, std::uint32_t slot, Work&& work) {
  const int before = process.left;
  const pid_t child = ::fork();
  if (child == 0) {
    FabricDataPort port;
    std::string message;
    if (port.open(process.folder.place(), node, {.port = 1, .slot = slot}, message)) work(port);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_GT(child, 0);
  while (process.left == before) {
    process.serve(1);
    process.turn();
  }
  ::waitpid(child, nullptr, 0);
}

TEST(FabricDataPorts, ASenderThatIsKilledLeavesWhatIsOnTheWay) {
  Process process;
  FabricDataPort receiver;
  process.attach(receiver, "h1", 2);
  std::uint32_t total = 0;
  for (int killed = 0; killed < 3; ++killed) {
    run_killed(process, "h0", 0, [](FabricDataPort& port) {
      for (std::uint32_t number = 0; number < 1'000;) {
        if (post(port, kToSlot2, number)) ++number;
        if (number > 700 && port.free_buffer_count() == 0) break;  // the ring is full
      }
      std::ranges::fill(port.next_buffer(), std::byte{0xee});
    });
    for (auto got = take(receiver); !got.empty(); process.turn(), got = take(receiver)) {
      total += static_cast<std::uint32_t>(got.size());
    }
  }
  EXPECT_GE(total, 3 * 701U);
  FabricDataPort next;
  process.attach(next, "h0", 0);
  ASSERT_TRUE(post(next, kToSlot2, 5));
  process.turn();
  EXPECT_EQ(take(receiver), Numbers{5});
}

TEST(FabricDataPorts, AReceiverThatIsKilledGivesTheBuffersBack) {
  Process process;
  FabricDataPort sender;
  process.attach(sender, "h0", 0);
  run_killed(process, "h1", 2, [](FabricDataPort& port) {
    ASSERT_TRUE(post(port, {Lid{2}, Lid{1}, number_in_slot(0)}, 1));
  });
  EXPECT_EQ(take(sender), Numbers{1});
  {
    FabricDataPort receiver;
    process.attach(receiver, "h1", 2);
    (void)fill(process, sender);
    EXPECT_EQ(sender.free_buffer_count(), 0U);
  }
  process.await_left(2);
  EXPECT_EQ(sender.free_buffer_count(), host::FabricDataArea::kBuffers);
  FabricDataPort next;
  process.attach(next, "h1", 2);
  ASSERT_TRUE(post(sender, kToSlot2, 3));
  process.turn();
  EXPECT_EQ(take(next), Numbers{3});
}

}  // namespace
}  // namespace verbatim::tools

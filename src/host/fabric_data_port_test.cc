// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_data_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/pointer.h"
#include "host/test_fabric_data.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

using test::DataFabric;
using test::FabricFolder;
using test::is_readable;
using test::packet_of;
using test::post;

constexpr std::size_t kBuffers = FabricDataArea::kBuffers;

TEST(FabricDataPort, PacketsGoBothWaysInOrder) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  EXPECT_EQ(port.node(), 5U);
  EXPECT_EQ(port.free_buffer_count(), kBuffers);
  for (std::size_t number = 0; number < 1'000; ++number) {
    const std::size_t octets = 1 + number * 13 % FabricDataArea::kBufferOctets;
    ASSERT_TRUE(post(port, packet_of(octets, number)));
    const auto posted = server.take_posted();
    ASSERT_TRUE(posted);
    EXPECT_EQ(posted->octets, octets);
    const auto packet = server.packet(posted->buffer);
    EXPECT_TRUE(std::ranges::equal(packet, packet_of(octets, number)));
    EXPECT_TRUE(std::ranges::equal(posted->start(), packet.first(posted->start().size())));
    ASSERT_TRUE(server.put(packet));
    server.free_buffer(posted->buffer);
    const auto arrived = port.receive();
    ASSERT_EQ(arrived.size(), 1U);
    EXPECT_TRUE(std::ranges::equal(arrived[0], packet_of(octets, number)));
    port.release();
  }
  EXPECT_EQ(port.free_buffer_count(), kBuffers);
  EXPECT_FALSE(server.take_posted());
}

TEST(FabricDataPort, ABufferIsFreeWhenTheFabricSaysSoInAnyOrder) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  for (std::size_t number = 0; number < kBuffers; ++number) {
    EXPECT_EQ(port.next_buffer().data(), port.next_buffer().data()) << "until it is posted";
    ASSERT_TRUE(post(port, packet_of(64, number)));
  }
  EXPECT_TRUE(port.next_buffer().empty());
  EXPECT_EQ(port.free_buffer_count(), 0U);
  std::vector<std::uint32_t> taken;
  while (const auto posted = server.take_posted()) taken.push_back(posted->buffer);
  ASSERT_EQ(taken.size(), kBuffers);
  EXPECT_EQ(server.taken_count(), kBuffers);
  for (const std::uint32_t buffer : {taken[200], taken[3], taken[77]}) {
    server.free_buffer(buffer);
    ASSERT_TRUE(post(port, packet_of(10, buffer)));
    EXPECT_TRUE(port.next_buffer().empty());
    EXPECT_EQ(server.take_posted()->buffer, buffer);
  }
}

TEST(FabricDataPort, AFullArrivalRingHasRoomAfterRelease) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  std::size_t sent = 0;
  while (server.put(packet_of(2'000, sent))) ++sent;
  std::size_t got = 0;
  for (auto burst = port.receive(); !burst.empty(); burst = port.receive()) {
    for (const auto packet : burst) {
      ASSERT_TRUE(std::ranges::equal(packet, packet_of(2'000, got++)));
    }
  }
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(server.put(packet_of(2'000, 0)));
  port.release();
  EXPECT_TRUE(server.put(packet_of(2'000, 0)));
}

TEST(FabricDataPort, ABellIsRungOnceUntilItIsLowered) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  EXPECT_TRUE(port.lower_bell());
  EXPECT_FALSE(is_readable(port.descriptor()));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(server.put(packet_of(10, 0)));
    server.ring();
  }
  EXPECT_TRUE(is_readable(port.descriptor()));
  EXPECT_FALSE(port.lower_bell()) << "packets are there";
  EXPECT_EQ(port.receive().size(), 3U);
  EXPECT_TRUE(port.lower_bell());
  EXPECT_FALSE(is_readable(port.descriptor()));
  ASSERT_TRUE(server.put(packet_of(10, 0)));
  server.ring();
  EXPECT_TRUE(is_readable(port.descriptor()));
}

TEST(FabricDataPort, TheFabricIsWokenOnlyWhileItRests) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  ASSERT_TRUE(post(port, packet_of(10, 0)));
  port.ring_fabric();
  EXPECT_FALSE(is_readable(server.fabric_bell())) << "it looks by itself";
  EXPECT_FALSE(server.begin_rest(0)) << "a packet is there";
  EXPECT_TRUE(server.take_posted());
  ASSERT_TRUE(server.begin_rest(0));
  port.release();
  EXPECT_FALSE(is_readable(server.fabric_bell())) << "it does not wait for room";
  ASSERT_TRUE(post(port, packet_of(10, 0)));
  port.ring_fabric();
  EXPECT_TRUE(is_readable(server.fabric_bell()));
}

TEST(FabricDataPort, AReleaseWakesAFabricThatWaitsForRoom) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  EXPECT_FALSE(server.begin_rest(4'000)) << "there is room";
  while (server.put(packet_of(4'000, 0))) continue;
  ASSERT_TRUE(server.begin_rest(4'000));
  (void)port.receive();
  EXPECT_FALSE(is_readable(server.fabric_bell()));
  port.release();
  EXPECT_TRUE(is_readable(server.fabric_bell()));
}

TEST(FabricDataPort, AProcessIsToldOnceThatItsNodeHasChanged) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  (void)fabric.attach(port);
  EXPECT_EQ(port.state()->ports[1].lid, 7);
  EXPECT_FALSE(port.take_change());
  auto state = test::adapter_state();
  for (std::uint16_t lid = 8; lid < 20; ++lid) {
    state.ports[1].lid = lid;
    fabric.server.publish(5, state);
  }
  EXPECT_TRUE(is_readable(port.connection()));
  EXPECT_TRUE(port.take_change());
  EXPECT_EQ(port.state()->ports[1].lid, 19);
  EXPECT_FALSE(port.take_change());
  EXPECT_FALSE(is_readable(port.connection()));
  fabric.server.publish(5, state);
  EXPECT_TRUE(port.take_change());
  EXPECT_FALSE(port.has_ended());
}

TEST(FabricDataPort, TheEndOfTheFabricIsNoticed) {
  const FabricFolder folder;
  FabricDataPort port;
  {
    DataFabric fabric(folder.place());
    (void)fabric.attach(port);
    EXPECT_FALSE(port.take_change());
    EXPECT_FALSE(port.has_ended());
  }
  EXPECT_TRUE(is_readable(port.connection()));
  EXPECT_FALSE(port.take_change());
  EXPECT_TRUE(port.has_ended());
  EXPECT_TRUE(port.next_buffer().empty());
  EXPECT_TRUE(port.receive().empty());
  port.close();
  DataFabric again(folder.place());
  FabricDataServerPort& server = again.attach(port);
  EXPECT_FALSE(port.has_ended());
  ASSERT_TRUE(post(port, packet_of(10, 0)));
  EXPECT_TRUE(server.take_posted());
}

TEST(FabricDataPort, AFabricThatWritesNonsenseIsLeft) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  (void)fabric.attach(port);
  auto* const area =
      pointer_as<FabricDataArea>(port.next_buffer().data() - offsetof(FabricDataArea, buffers));
  area->arrived.store(FabricArrivalEntry::kGrain);  // an entry without a length
  EXPECT_FALSE(port.has_ended());
  EXPECT_TRUE(port.receive().empty());
  EXPECT_TRUE(port.has_ended());
  EXPECT_TRUE(port.lower_bell()) << "no packet is there";
  EXPECT_TRUE(is_readable(port.connection())) << "a thread that waits learns it";
  EXPECT_FALSE(port.take_change());
  EXPECT_TRUE(port.next_buffer().empty());
  fabric.serve(1'000);
  EXPECT_EQ(fabric.left, 1);
}

TEST(FabricDataPort, AFabricThatIsKilledIsNoticed) {
  const FabricFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    DataFabric fabric(folder.place());
    for (;;) fabric.serve(1'000);
  }
  ASSERT_GT(child, 0);
  FabricDataPort port;
  std::string message;
  while (!port.open(folder.place(), "h0", {}, message)) ::usleep(1'000);  // until it is up
  ::kill(child, SIGKILL);
  EXPECT_TRUE(is_readable(port.connection(), 10'000));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(port.take_change());
  EXPECT_TRUE(port.has_ended());
}

TEST(FabricDataPort, AProcessThatIsKilledLeavesWhatItHasPosted) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  const pid_t child = ::fork();
  if (child == 0) {
    FabricDataPort port;
    std::string message;
    if (!port.open(folder.place(), "h0", {}, message)) ::_exit(1);
    for (std::size_t number = 0; number < 10; ++number) (void)post(port, packet_of(100, number));
    std::ranges::fill(port.next_buffer(), std::byte{0xee});
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_GT(child, 0);
  while (fabric.left == 0) fabric.serve(100);
  ::waitpid(child, nullptr, 0);
  FabricDataServerPort& left = *fabric.ports.at(fabric.last_client);
  left.ring();
  for (std::size_t number = 0; number < 10; ++number) {
    const auto posted = left.take_posted();
    ASSERT_TRUE(posted);
    EXPECT_TRUE(std::ranges::equal(left.packet(posted->buffer), packet_of(100, number)));
  }
  EXPECT_FALSE(left.take_posted());
  FabricDataPort next;
  (void)fabric.attach(next);
  EXPECT_EQ(next.free_buffer_count(), kBuffers);
}

TEST(FabricDataPort, ARefusedSeatIsExplained) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  fabric.serve_while([&] {
    std::string message;
    const Status opened = port.open(folder.place(), "h0", {.port = 1, .slot = 255}, message);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error(), Errc::kAddressInUse);
    EXPECT_EQ(message, "another process has it");
  });
  EXPECT_FALSE(port.is_open());
  (void)fabric.attach(port);
}

TEST(FabricDataPort, AProgramWithoutDescriptorsIsToldSo) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  for (rlim_t more = 0; more < 8; ++more) {
    fabric.ports.clear();
    const std::size_t used = test::open_descriptor_count();
    const pid_t child = ::fork();
    if (child == 0) {
      rlimit few{.rlim_cur = static_cast<rlim_t>(used) + more, .rlim_max = 4'096};
      if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(1);
      const std::size_t before = test::open_descriptor_count();
      FabricDataPort port;
      std::string message;
      if (port.open(folder.place(), "h0", {}, message)) ::_exit(0);
      const bool is_clean = before == test::open_descriptor_count();
      const bool is_told = message.find("ulimit -n") != message.npos;
      ::_exit(is_told && is_clean && !port.is_open() ? 2 : 3);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) fabric.serve(1);
    EXPECT_TRUE(WIFEXITED(status));
    const int ended = WEXITSTATUS(status);
    EXPECT_TRUE(ended == 0 || ended == 2) << more << ": " << ended;
    if (more == 0) {
      EXPECT_EQ(ended, 2);
    }
    if (more == 7) {
      EXPECT_EQ(ended, 0);
    }
  }
}

TEST(FabricDataPort, AForkedChildHasNoPartInIt) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  FabricDataServerPort& server = fabric.attach(port);
  ASSERT_TRUE(server.put(packet_of(50, 1)));
  const int connection = port.connection();
  const int ended = test::in_a_child([&] {
    port.abandon_in_child();
    EXPECT_TRUE(port.has_ended());
    EXPECT_LT(::fcntl(connection, F_GETFD), 0);
    EXPECT_TRUE(port.next_buffer().empty());
    EXPECT_TRUE(port.receive().empty());
    port.post(100);  // as the rest of a call that the fork has interrupted
    port.release();
    port.ring_fabric();
    port.close();
    port.close();
  });
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(server.take_posted());
  ASSERT_EQ(port.receive().size(), 1U);
  ASSERT_TRUE(post(port, packet_of(10, 0)));
  EXPECT_TRUE(server.take_posted());
  port.close();
  fabric.serve(1'000);
  EXPECT_EQ(fabric.left, 1) << "the child has no connection";
}

TEST(FabricDataPort, ASeatIsFreeAlthoughANewChildStillHasTheConnection) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  FabricDataPort port;
  (void)fabric.attach(port);
  const Descriptor of_child(::fcntl(port.connection(), F_DUPFD_CLOEXEC, 0));
  port.close();
  fabric.serve(1'000);
  EXPECT_EQ(fabric.left, 1);
  (void)fabric.attach(port);
  EXPECT_FALSE(port.has_ended());
}

TEST(FabricDataPort, NoDescriptorIsLeftOver) {
  const FabricFolder folder;
  DataFabric fabric(folder.place());
  const std::size_t before = test::open_descriptor_count();
  std::size_t after_one = 0;
  for (int i = 0; i < 3; ++i) {
    FabricDataPort port;
    (void)fabric.attach(port);
    port.close();
    while (fabric.left <= i) fabric.serve(100);
    fabric.ports.clear();
    if (i == 0) after_one = test::open_descriptor_count();
  }
  EXPECT_EQ(test::open_descriptor_count(), after_one);  // the node's page and the issm file stay
  EXPECT_LE(after_one, before + 2);
}

}  // namespace
}  // namespace verbatim::host

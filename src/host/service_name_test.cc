// SPDX-License-Identifier: Apache-2.0
#include "host/service_name.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <set>

#include "host/port_blocks.h"
#include "host/service_directory.h"
#include "host/slot.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

constexpr Service kService{.address = {0xfd, 1}, .id = 0x0106'1c06};

int open_sender() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

TEST(ServiceName, IsHeldOnceAndFreedWithItsHolder) {
  test::in_a_private_network([] {
    {
      auto held = ServiceName::claim(kService);
      ASSERT_TRUE(held.ok());
      const auto again = ServiceName::claim(kService);
      ASSERT_FALSE(again.ok());
      EXPECT_EQ(again.error(), Errc::kAddressInUse);
      EXPECT_EQ(test::in_a_child([] { EXPECT_FALSE(ServiceName::claim(kService).ok()); }), 0);
    }
    EXPECT_TRUE(ServiceName::claim(kService).ok());
  });
}

TEST(ServiceName, IsFreedWhenItsProcessDies) {
  test::in_a_private_network([] {
    EXPECT_EQ(test::in_a_child([] {
                static auto held = ServiceName::claim(kService);
                EXPECT_TRUE(held.ok());
              }),
              0);
    EXPECT_TRUE(ServiceName::claim(kService).ok());
  });
}

TEST(ServiceName, OfAnotherAddressOrServiceIsAnother) {
  test::in_a_private_network([] {
    auto held = ServiceName::claim(kService);
    ASSERT_TRUE(held.ok());
    Service other = kService;
    other.address[15] = 1;
    EXPECT_TRUE(ServiceName::claim(other).ok());
    other = kService;
    ++other.id;
    EXPECT_TRUE(ServiceName::claim(other).ok());
  });
}

TEST(ServiceName, GetsWhatIsForwardedToIt) {
  test::in_a_private_network([] {
    const int sender = open_sender();
    const std::array<std::byte, 3> octets{std::byte{1}, std::byte{2}, std::byte{3}};
    EXPECT_FALSE(ServiceName::forward(sender, kService, octets)) << "no process holds it";
    auto held = ServiceName::claim(kService);
    ASSERT_TRUE(held.ok());
    std::array<std::byte, 64> received{};
    EXPECT_EQ(held->take_forwarded(received), 0U);
    ASSERT_TRUE(ServiceName::forward(sender, kService, octets));
    ASSERT_EQ(held->take_forwarded(received), octets.size());
    EXPECT_TRUE(std::equal(octets.begin(), octets.end(), received.begin()));
    EXPECT_EQ(held->take_forwarded(received), 0U);
    ::close(sender);
  });
}

TEST(ServiceDirectory, ListsListenersAndSlots) {
  test::in_a_private_network([] {
    const int through = open_sender();
    EXPECT_EQ(ServiceDirectory::read(through, kService.address), ServiceDirectory{});
    auto slot = Slot::claim();
    ASSERT_TRUE(slot.ok());
    auto here = ServiceName::advertise(kService, 7);
    Service elsewhere = kService;
    elsewhere.address[3] = 9;
    auto there = ServiceName::advertise(elsewhere, 8);
    ASSERT_TRUE(here.ok() && there.ok());
    auto held = ServiceName::claim(kService);  // held, but not advertised
    ASSERT_TRUE(held.ok());
    const auto directory = ServiceDirectory::read(through, kService.address);
    ASSERT_TRUE(directory.has_value());
    EXPECT_EQ(directory->slots, std::vector<std::uint32_t>{0});
    const std::vector<ServicePlace> expected{{.service = kService.id, .slot = 7}};
    EXPECT_EQ(directory->services, expected);
    ::close(through);
  });
}

TEST(ServiceDirectory, DoesNotListWhatAKilledProcessHasLeftBehind) {
  test::in_a_private_network([] {
    const int through = open_sender();
    ASSERT_EQ(UnixName::in_directory("unrelated").bind(through), 0);  // the directory is in use
    EXPECT_EQ(test::in_a_child([] {
                auto slot = Slot::claim();
                auto here = ServiceName::advertise(kService, 7);
                EXPECT_TRUE(slot.ok() && here.ok());
                ::_exit(0);  // like a killed process: the names stay
              }),
              0);
    EXPECT_EQ(ServiceDirectory::read(through, kService.address), ServiceDirectory{});
    ::close(through);
  });
}

TEST(ServiceDirectory, IgnoresNonsense) {
  const std::string place = "at-" + digits_of(kService.address) + "-";
  for (const std::string& name :
       {std::string(""), std::string("at-0-1"), std::string("256"), std::string("12x"),
        std::string("-1"), std::string("5.attach"), place, place + "1061c06", place + "1061c06-",
        place + "1061c06-256", place + "xyz-1", place + "-1", place + "1061c06-1-2",
        std::string("at--1061c06-1")}) {
    ServiceDirectory directory;
    EXPECT_FALSE(directory.add(name, kService.address)) << name;
    EXPECT_EQ(directory, ServiceDirectory{}) << name;
  }
  ServiceDirectory directory;
  EXPECT_TRUE(directory.add(place + "1061c06-255", kService.address));
  EXPECT_EQ(directory.services.size(), 1U);
}

TEST(PortBlocks, GiveEveryPortOnce) {
  test::in_a_private_network([] {
    PortBlocks ports;
    std::set<std::uint16_t> given;
    for (int i = 0; i < 1000; ++i) {
      auto port = ports.take(0x0106);
      ASSERT_TRUE(port.ok());
      EXPECT_TRUE(given.insert(*port).second) << *port;
      EXPECT_GE(*port, PortBlocks::kFirstPort);
    }
    EXPECT_EQ(test::in_a_child([&] {
                PortBlocks others;
                for (int i = 0; i < 100; ++i) {
                  auto port = others.take(0x0106);
                  ASSERT_TRUE(port.ok());
                  EXPECT_FALSE(given.contains(*port)) << *port;
                }
              }),
              0);
  });
}

TEST(PortBlocks, DoNotGiveAPortAgainAtOnce) {
  test::in_a_private_network([] {
    PortBlocks ports;
    const auto first = ports.take(0x0111);
    ASSERT_TRUE(first.ok());
    ports.give_back(0x0111, *first);
    const auto second = ports.take(0x0111);
    ASSERT_TRUE(second.ok());
    EXPECT_NE(*first, *second);
  });
}

TEST(PortBlocks, TakeAThousandPortsWithFewDescriptors) {
  test::in_a_private_network([] {
    const std::size_t before = test::open_descriptor_count();
    PortBlocks ports;
    for (int i = 0; i < 1024; ++i) ASSERT_TRUE(ports.take(0x0106).ok());
    const std::size_t blocks = 1024U / PortBlocks::kBlockPorts;
    EXPECT_LE(test::open_descriptor_count() - before,
              2 * blocks);  // one name against this user's processes, one against other users'
  });
}

TEST(PortBlocks, OfTwoUsersDoNotOverlapWhileThereAreOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  test::in_a_private_network([] {
    PortBlocks ports;
    std::set<std::uint16_t> given;
    const std::uint32_t all_but_one = (PortBlocks::kBlockCount - 1) * PortBlocks::kBlockPorts;
    for (std::uint32_t i = 0; i < all_but_one; ++i) given.insert(*ports.take(0x0106));
    EXPECT_EQ(test::in_a_child([&] {
                ASSERT_EQ(::setresuid(61002, 61002, 61002), 0);
                PortBlocks others;
                for (std::uint32_t i = 0; i < PortBlocks::kBlockPorts; ++i) {
                  EXPECT_FALSE(given.contains(*others.take(0x0106)));
                }
                EXPECT_TRUE(others.take(0x0106).ok()) << "one user has kept another one out";
              }),
              0);
  });
}

TEST(PortBlocks, AreEmptyWhenAllPortsAreGiven) {
  test::in_a_private_network([] {
    PortBlocks ports;
    const std::uint32_t all = PortBlocks::kBlockCount * PortBlocks::kBlockPorts;
    for (std::uint32_t i = 0; i < all; ++i) ASSERT_TRUE(ports.take(0x0106).ok());
    const auto none = ports.take(0x0106);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error(), Errc::kAddressInUse);
  });
}

/// A daemon has opened the device as root and then changed its user. Its new names would be in the
/// directory of the new user, where the processes that share the port with it do not look.
TEST(ServiceName, OfAProcessThatHasGivenUpItsUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  test::in_a_private_network([] {
    auto slot = Slot::claim();
    ASSERT_TRUE(slot.ok());
    EXPECT_TRUE(ServiceName::claim(kService, slot->descriptor()).ok());
    ASSERT_EQ(::setresuid(54321, 54321, 54321), 0);
    const auto held = ServiceName::claim(kService, slot->descriptor());
    ASSERT_FALSE(held.ok());
    EXPECT_EQ(held.error(), Errc::kAccessDenied);
    EXPECT_FALSE(ServiceName::advertise(kService, slot->number(), slot->descriptor()).ok());
  });
}

}  // namespace
}  // namespace verbatim::host

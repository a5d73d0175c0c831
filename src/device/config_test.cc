// SPDX-License-Identifier: Apache-2.0
#include "device/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/test_interface.h"

namespace verbatim::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Interface> three_interfaces() {
  return {test::loopback(), test::interface("eth0", 2, 1), test::interface("wlan0.7", 3, 2),
          test::interface_without_address("ifb0", 4)};
}

Config accepted(std::string_view value) {
  std::string message;
  const auto config = parse_devices(value, three_interfaces(), message);
  EXPECT_TRUE(config.ok()) << message;
  EXPECT_EQ(message, "");
  return config.ok() ? *config : Config{};
}

std::string refused(std::string_view value) {
  std::string message;
  const auto config = parse_devices(value, three_interfaces(), message);
  EXPECT_FALSE(config.ok()) << value;
  if (!config.ok()) {
    EXPECT_EQ(config.error(), Errc::kInvalidArgument);
  }
  EXPECT_THAT(message, AllOf(HasSubstr("VERBATIM_DEVICES"), HasSubstr("interface=name")));
  return message;
}

/// There is always a loopback interface, so an empty list was refused.
TEST(Config, AListOfInterfacesThatASandboxRefusesIsNoMistakeOfTheValue) {
  std::string message;
  EXPECT_FALSE(parse_devices("lo", {}, message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("AF_NETLINK"), Not(HasSubstr("'lo'"))));
}

TEST(Config, AnEmptyValueNamesNoDevice) { EXPECT_TRUE(accepted("").devices.empty()); }

TEST(Config, TakesInterfacesAndNamesInTheirOrder) {
  const auto wanted = accepted("lo=vb9,eth0,wlan0.7=w-lan_7.x").devices;
  ASSERT_EQ(wanted.size(), 3U);
  EXPECT_EQ(wanted[0].interface, "lo");
  EXPECT_EQ(wanted[0].name, "vb9");
  EXPECT_EQ(wanted[1].interface, "eth0");
  EXPECT_EQ(wanted[1].name, "");
  EXPECT_EQ(wanted[2].interface, "wlan0.7");
  EXPECT_EQ(wanted[2].name, "w-lan_7.x");
}

TEST(Config, TakesANameOf63Characters) {
  EXPECT_EQ(accepted("lo=" + std::string(63, 'a')).devices.size(), 1U);
  EXPECT_THAT(refused("lo=" + std::string(64, 'a')), HasSubstr("63"));
}

TEST(Config, RefusesAnUnknownInterfaceAndSaysWhichThereAre) {
  EXPECT_THAT(refused("eth9"), AllOf(HasSubstr("'eth9'"), HasSubstr("lo, eth0, wlan0.7")));
  EXPECT_THAT(refused("eth0,eth1"), HasSubstr("'eth1'"));
  EXPECT_THAT(refused("ETH0"), HasSubstr("'ETH0'"));
  EXPECT_THAT(refused(" eth0"), HasSubstr("' eth0'"));
}

TEST(Config, RefusesAnInterfaceWithoutAnAddress) {
  EXPECT_THAT(refused("ifb0"), AllOf(HasSubstr("'ifb0'"), HasSubstr("no IP address")));
}

TEST(Config, RefusesARepeatedInterfaceOrName) {
  EXPECT_THAT(refused("eth0,eth0"), HasSubstr("'eth0'"));
  EXPECT_THAT(refused("eth0,lo,eth0=b"), HasSubstr("'eth0'"));
  EXPECT_THAT(refused("eth0=a,lo=a"), HasSubstr("'a'"));
}

TEST(Config, RefusesInvalidNames) {
  for (const char* name : {"", "a/b", "a b", "../x", ".", "-a", "_a", "a=b", "\xc3\xa4", "a\n"}) {
    EXPECT_THAT(refused("eth0=" + std::string(name)), HasSubstr("no device name")) << name;
  }
}

TEST(Config, RefusesEmptyItems) {
  for (const char* value : {",", "eth0,", ",eth0", "eth0,,lo", "=vb0", "="}) {
    EXPECT_THAT(refused(value), HasSubstr("missing")) << value;
  }
}

TEST(Config, ComesFromTheEnvironment) {
  std::string message;
  ASSERT_EQ(::unsetenv("VERBATIM_DEVICES"), 0);
  EXPECT_TRUE(read_config(message).ok());
  ASSERT_EQ(::setenv("VERBATIM_DEVICES", "", 1), 0);
  EXPECT_TRUE(read_config(message).ok());
  ASSERT_EQ(::setenv("VERBATIM_DEVICES", "no such thing", 1), 0);
  EXPECT_FALSE(read_config(message).ok());
  EXPECT_THAT(message, HasSubstr("'no such thing'"));
  ASSERT_EQ(::unsetenv("VERBATIM_DEVICES"), 0);
}

TEST(Config, WhatTheLinkDoesComesFromTheEnvironmentToo) {
  std::string message;
  for (const char* name : {"VERBATIM_GSO", "VERBATIM_FAULTS", "VERBATIM_CAPTURE"}) ::unsetenv(name);
  const auto plain = read_link_config(message);
  ASSERT_TRUE(plain.ok()) << message;
  EXPECT_EQ(plain->trains, link::UdpLink::Trains::kYes);
  EXPECT_TRUE(plain->faults.rules.empty());
  EXPECT_EQ(plain->capture, "");

  ::setenv("VERBATIM_GSO", "0", 1);
  ::setenv("VERBATIM_FAULTS", "seed=9; out drop 1%", 1);
  ::setenv("VERBATIM_CAPTURE", "/tmp/%p.pcapng", 1);
  const auto special = read_link_config(message);
  ASSERT_TRUE(special.ok()) << message;
  EXPECT_EQ(special->trains, link::UdpLink::Trains::kNo);
  EXPECT_EQ(special->faults.seed, 9U);
  EXPECT_EQ(special->faults.rules.size(), 1U);
  EXPECT_EQ(special->capture, "/tmp/%p.pcapng");

  ::setenv("VERBATIM_FAULTS", "out drip", 1);
  EXPECT_FALSE(read_link_config(message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("VERBATIM_FAULTS, column 5"), HasSubstr("'drip'")));
  ::setenv("VERBATIM_GSO", "maybe", 1);
  EXPECT_FALSE(read_link_config(message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("VERBATIM_GSO"), HasSubstr("'maybe'")));
  for (const char* name : {"VERBATIM_GSO", "VERBATIM_FAULTS", "VERBATIM_CAPTURE"}) ::unsetenv(name);
}

TEST(Config, CallsIntoOtherProcessesCanBeForbidden) {
  std::string message;
  ::unsetenv("VERBATIM_CMA");
  EXPECT_TRUE(read_link_config(message)->has_peer_calls);
  ::setenv("VERBATIM_CMA", "1", 1);
  EXPECT_TRUE(read_link_config(message)->has_peer_calls);
  ::setenv("VERBATIM_CMA", "0", 1);
  EXPECT_FALSE(read_link_config(message)->has_peer_calls);
  ::setenv("VERBATIM_CMA", "never", 1);
  EXPECT_FALSE(read_link_config(message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("VERBATIM_CMA"), HasSubstr("'never'")));
  ::unsetenv("VERBATIM_CMA");
}

TEST(Config, LendingToOtherUsersCanBeForbidden) {
  std::string message;
  ::unsetenv("VERBATIM_LEND");
  EXPECT_TRUE(read_link_config(message)->lends_sockets);
  ::setenv("VERBATIM_LEND", "0", 1);
  EXPECT_FALSE(read_link_config(message)->lends_sockets);
  ::setenv("VERBATIM_LEND", "maybe", 1);
  EXPECT_FALSE(read_link_config(message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("VERBATIM_LEND"), HasSubstr("'maybe'")));
  ::unsetenv("VERBATIM_LEND");
}

TEST(Config, SaysWhetherThreadsThatPollGiveWay) {
  std::string message;
  ::unsetenv("VERBATIM_YIELD");
  EXPECT_TRUE(read_link_config(message)->gives_way);
  ::setenv("VERBATIM_YIELD", "0", 1);
  EXPECT_FALSE(read_link_config(message)->gives_way);
  ::setenv("VERBATIM_YIELD", "maybe", 1);
  EXPECT_FALSE(read_link_config(message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("VERBATIM_YIELD"), HasSubstr("'maybe'")));
  ::unsetenv("VERBATIM_YIELD");
}

}  // namespace
}  // namespace verbatim::device

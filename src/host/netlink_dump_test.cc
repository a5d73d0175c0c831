// SPDX-License-Identifier: Apache-2.0
#include "host/netlink_dump.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace verbatim::host {
namespace {

using Octets = std::vector<std::byte>;
using Bodies = std::vector<std::string>;

constexpr std::uint16_t kEntry = 20;  // a type of message

/// A message with a body of `text`; `length` is the one in its header, by default the right one.
Octets message(std::uint16_t type, const std::string& text, std::uint32_t length = 0) {
  nlmsghdr header{};
  header.nlmsg_len = length != 0 ? length : static_cast<std::uint32_t>(NLMSG_LENGTH(text.size()));
  header.nlmsg_type = type;
  Octets octets(NLMSG_SPACE(text.size()));
  std::memcpy(octets.data(), &header, sizeof header);
  std::memcpy(octets.data() + sizeof header, text.data(), text.size());
  return octets;
}
Octets end_of_list(std::int32_t code = 0) {
  std::string body(sizeof code, '\0');
  std::memcpy(body.data(), &code, sizeof code);
  return message(NLMSG_DONE, body);
}
Octets joined(std::initializer_list<Octets> messages) {
  Octets all;
  for (const Octets& one : messages) all.insert(all.end(), one.begin(), one.end());
  return all;
}

/// The other side of a dump: this test instead of the kernel.
class NetlinkDumpTest : public testing::Test {
 protected:
  NetlinkDumpTest() : dump_(open()) {}
  ~NetlinkDumpTest() override { hang_up(); }

  void hang_up() {
    if (kernel_ >= 0) ::close(kernel_);
    kernel_ = -1;
  }
  void answer(const Octets& datagram) {
    ASSERT_EQ(::send(kernel_, datagram.data(), datagram.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(datagram.size()));
  }
  /// The bodies of all entries.
  Bodies entries() {
    Bodies all;
    while (const auto entry = dump_.next()) {
      EXPECT_EQ(entry->type, kEntry);
      std::string& body = all.emplace_back(entry->body.size(), '\0');
      std::memcpy(body.data(), entry->body.data(), body.size());
    }
    EXPECT_FALSE(dump_.next().has_value()) << "the end stays the end";
    return all;
  }

  int kernel_ = -1;
  NetlinkDump dump_;

 private:
  int open() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    kernel_ = ends[0];
    return ends[1];
  }
};

TEST_F(NetlinkDumpTest, AsksForAListOfThatType) {
  const std::array body{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ASSERT_TRUE(dump_.ask(26, body));
  std::array<std::byte, 64> got;
  ASSERT_EQ(::recv(kernel_, got.data(), got.size(), 0), 20);
  nlmsghdr header;
  std::memcpy(&header, got.data(), sizeof header);
  EXPECT_EQ(header.nlmsg_len, 20U);
  EXPECT_EQ(header.nlmsg_type, 26U);
  EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
  EXPECT_EQ(std::memcmp(got.data() + sizeof header, body.data(), body.size()), 0);
}

TEST_F(NetlinkDumpTest, GivesTheEntriesOfAllDatagramsInOrder) {
  answer(joined({message(kEntry, "first"), message(kEntry, ""), message(kEntry, "three")}));
  answer(joined({message(NLMSG_NOOP, "nothing"), message(kEntry, "fourth")}));
  answer(end_of_list());
  EXPECT_FALSE(dump_.is_complete());
  EXPECT_EQ(entries(), (Bodies{"first", "", "three", "fourth"}));
  EXPECT_TRUE(dump_.is_complete());
}

TEST_F(NetlinkDumpTest, MayEndInTheDatagramOfTheLastEntry) {
  answer(joined({message(kEntry, "only"), end_of_list(), message(kEntry, "behind the end")}));
  EXPECT_EQ(entries(), Bodies{"only"});
  EXPECT_TRUE(dump_.is_complete());
}

TEST_F(NetlinkDumpTest, IsNotCompleteAfterAnError) {
  answer(joined({message(kEntry, "first"), message(NLMSG_ERROR, "code"), end_of_list()}));
  EXPECT_EQ(entries(), Bodies{"first"});
  EXPECT_FALSE(dump_.is_complete());
}

TEST_F(NetlinkDumpTest, IsNotCompleteWhenItsEndCarriesAnError) {
  answer(joined({message(kEntry, "first"), end_of_list(-12)}));
  EXPECT_EQ(entries(), Bodies{"first"});
  EXPECT_FALSE(dump_.is_complete());
}

TEST_F(NetlinkDumpTest, IsNotCompleteWhenNoMoreComes) {
  answer(message(kEntry, "first"));
  hang_up();
  EXPECT_EQ(entries(), Bodies{"first"});
  EXPECT_FALSE(dump_.is_complete());
}

TEST(NetlinkDump, EndsAtALengthThatDoesNotFit) {
  for (const std::uint32_t length : {1U, 15U, 100U, 0xffff'ffffU}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    NetlinkDump dump(ends[1]);
    const Octets datagram = joined({message(kEntry, "first"), message(kEntry, "wrong", length)});
    ASSERT_GT(::send(ends[0], datagram.data(), datagram.size(), MSG_NOSIGNAL), 0);
    EXPECT_TRUE(dump.next().has_value());
    EXPECT_FALSE(dump.next().has_value()) << length;
    EXPECT_FALSE(dump.is_complete());
    ::close(ends[0]);
  }
}

TEST_F(NetlinkDumpTest, EndsAtAPieceOfAHeader) {
  Octets datagram = message(kEntry, "first");
  datagram.resize(datagram.size() + 7);
  answer(datagram);
  EXPECT_EQ(entries(), Bodies{"first"});
  EXPECT_FALSE(dump_.is_complete());
}

TEST(NetlinkDump, WithoutASocketHasNothing) {
  NetlinkDump dump(-1);
  EXPECT_FALSE(dump.ask(20, {}));
  EXPECT_FALSE(dump.next().has_value());
  EXPECT_FALSE(dump.is_complete());
}

TEST(NetlinkDump, ReadsTheInterfacesOfTheSystem) {
  NetlinkDump dump = NetlinkDump::of(NETLINK_ROUTE);
  const ifinfomsg wanted{};
  ASSERT_TRUE(dump.ask(RTM_GETLINK, std::as_bytes(std::span(&wanted, 1))));
  bool has_loopback = false;
  while (const auto entry = dump.next()) {
    ASSERT_EQ(entry->type, RTM_NEWLINK);
    auto rest = entry->body.subspan(NLMSG_ALIGN(sizeof(ifinfomsg)));
    while (const auto attribute = take_attribute(rest)) {
      if (attribute->type != IFLA_IFNAME) continue;
      has_loopback = has_loopback || (attribute->value.size() == 3 &&
                                      std::memcmp(attribute->value.data(), "lo", 3) == 0);
    }
    EXPECT_TRUE(rest.empty());
  }
  EXPECT_TRUE(dump.is_complete());
  EXPECT_TRUE(has_loopback);
}

// ---- Attributes

Octets attribute(std::uint16_t type, const std::string& value, std::uint16_t length = 0) {
  rtattr head{};
  head.rta_len = length != 0 ? length : static_cast<std::uint16_t>(RTA_LENGTH(value.size()));
  head.rta_type = type;
  Octets octets(RTA_SPACE(value.size()));
  std::memcpy(octets.data(), &head, sizeof head);
  std::memcpy(octets.data() + sizeof head, value.data(), value.size());
  return octets;
}

TEST(NetlinkAttribute, AreTakenOneAfterTheOther) {
  Octets octets = joined({attribute(1, "abc"), attribute(2, ""), attribute(3, "defgh")});
  octets.resize(octets.size() - 3);  // the last one need not be filled up
  std::span<const std::byte> rest = octets;
  for (const auto& [type, octets_of_value] :
       {std::pair{1, 3U}, std::pair{2, 0U}, std::pair{3, 5U}}) {
    const auto taken = take_attribute(rest);
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->type, type);
    EXPECT_EQ(taken->value.size(), octets_of_value);
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(take_attribute(rest).has_value());
}

TEST(NetlinkAttribute, EndAtALengthThatDoesNotFit) {
  for (const std::uint16_t length : std::initializer_list<std::uint16_t>{1, 3, 9, 0xffff}) {
    const Octets octets = attribute(1, "abcd", length);
    std::span<const std::byte> rest = octets;
    EXPECT_FALSE(take_attribute(rest).has_value()) << length;
  }
  const Octets piece(3);
  std::span<const std::byte> rest = piece;
  EXPECT_FALSE(take_attribute(rest).has_value());
}

}  // namespace
}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
// Datagrams to multicast groups, within one process and between several.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <string>

#include "world.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kGrhOctets = 40;
constexpr std::uint32_t kMulticastQp = 0xff'ffff;

class Multicast : public World {
 public:
  void TestBody() override {}  // also used by hand, in processes of its own
  void open() { SetUp(); }
  void shut() { TearDown(); }

 protected:
  static ibv_gid gid(const char* text) {
    ibv_gid parsed{};
    EXPECT_EQ(::inet_pton(AF_INET6, text, parsed.raw), 1) << text;
    return parsed;
  }

  /// A datagram queue pair with a receive of its own.
  struct Endpoint {
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
    Buffer* into = nullptr;
  };
  Endpoint make_endpoint() {
    Endpoint made;
    made.cq = make_cq();
    made.qp = make_qp({.type = IBV_QPT_UD, .send_cq = made.cq});
    made.into = &make_buffer(256);
    EXPECT_EQ(to_init(made.qp), 0);
    EXPECT_EQ(to_rtr(made.qp, 0), 0);
    EXPECT_EQ(to_rts(made.qp), 0);
    expect_message(made);
    return made;
  }
  static void expect_message(const Endpoint& at) {
    EXPECT_EQ(receive(at.qp, 7, at.into->sge()), 0);
  }

  /// An address handle for the group, from 127.0.0.1. Over IPv6 the loopback interface
  /// carries no groups.
  ibv_ah* way_to(const ibv_gid& group) {
    ibv_ah_attr attr = local_address();
    attr.grh.dgid = group;
    return keep(ahs, ibv_create_ah(pd, &attr));
  }

  void send_to_group(const Endpoint& from, ibv_ah* way, const std::string& text) {
    Buffer& buffer = make_buffer(text.size());
    std::copy(text.begin(), text.end(), buffer.octets.begin());
    ibv_send_wr wr{};
    wr.wr_id = 3;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = way;
    wr.wr.ud.remote_qpn = kMulticastQp;
    wr.wr.ud.remote_qkey = kQKey;
    EXPECT_EQ(post(from.qp, wr, buffer.sge()), 0);
    const ibv_wc wc = collect_one(from.cq);
    EXPECT_EQ(wc.opcode, IBV_WC_SEND);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  void expect_text(const Endpoint& at, const std::string& text, std::uint32_t from) {
    const ibv_wc wc = collect_one(at.cq);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.src_qp, from);
    EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0U);
    ASSERT_EQ(wc.byte_len, kGrhOctets + text.size());
    EXPECT_TRUE(std::equal(text.begin(), text.end(), at.into->octets.begin() + kGrhOctets));
  }
  /// Whether nothing has arrived here, after a later datagram has arrived at another endpoint.
  static bool got_nothing(const Endpoint& at) { return is_empty(at.cq); }

  static constexpr const char* kGroup = "::ffff:239.1.2.3";
};

TEST_F(Multicast, EveryMemberGetsACopyButNotTheSender) {
  const ibv_gid group = gid(kGroup);
  std::array<Endpoint, 4> ends{};
  for (Endpoint& end : ends) end = make_endpoint();
  for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(ibv_attach_mcast(ends[i].qp, &group, 0), 0);
  ibv_ah* way = way_to(group);
  send_to_group(ends[0], way, "to all");
  for (std::size_t i = 1; i < 3; ++i) {
    expect_text(ends[i], "to all", ends[0].qp->qp_num);
    // The IPv4 header lies in the upper half of the room: destination at its end.
    const std::uint8_t* header = ends[i].into->octets.data() + 20;
    EXPECT_EQ(header[0], 0x45);
    EXPECT_TRUE(std::equal(header + 16, header + 20, group.raw + 12));
  }
  EXPECT_TRUE(got_nothing(ends[0])) << "the sender";
  EXPECT_TRUE(got_nothing(ends[3])) << "no member";
  send_to_group(ends[3], way, "from outside");
  for (std::size_t i = 1; i < 3; ++i) expect_message(ends[i]);
  expect_text(ends[0], "from outside", ends[3].qp->qp_num);
  for (Endpoint& end : ends) (void)ibv_detach_mcast(end.qp, &group, 0);
}

TEST_F(Multicast, BothFormsOfAnIpv4GroupAreTheSameGroup) {
  const ibv_gid group = gid(kGroup);
  const ibv_gid other_form = gid("ff0e::ffff:239.1.2.3");
  const Endpoint one = make_endpoint();
  const Endpoint other = make_endpoint();
  ASSERT_EQ(ibv_attach_mcast(one.qp, &other_form, 0), 0);
  send_to_group(other, way_to(group), "first");
  expect_text(one, "first", other.qp->qp_num);
  expect_message(one);
  send_to_group(other, way_to(other_form), "second");
  expect_text(one, "second", other.qp->qp_num);
  EXPECT_EQ(ibv_detach_mcast(one.qp, &group, 0), 0);
}

TEST_F(Multicast, GroupsAreApart) {
  const ibv_gid mine = gid(kGroup);
  const ibv_gid other = gid("::ffff:239.1.2.4");
  const Endpoint one = make_endpoint();
  const Endpoint both = make_endpoint();
  const Endpoint sender = make_endpoint();
  ASSERT_EQ(ibv_attach_mcast(one.qp, &mine, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(both.qp, &mine, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(both.qp, &other, 0), 0);
  send_to_group(sender, way_to(other), "other");
  expect_text(both, "other", sender.qp->qp_num);
  EXPECT_TRUE(got_nothing(one));
  EXPECT_EQ(ibv_detach_mcast(one.qp, &mine, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(both.qp, &mine, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(both.qp, &other, 0), 0);
}

TEST_F(Multicast, AQueuePairThatLeavesGetsNoMore) {
  const ibv_gid group = gid(kGroup);
  const Endpoint stays = make_endpoint();
  const Endpoint leaves = make_endpoint();
  const Endpoint sender = make_endpoint();
  for (const Endpoint* end : {&stays, &leaves}) {
    ASSERT_EQ(ibv_attach_mcast(end->qp, &group, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(end->qp, &group, 0), 0) << "once more changes nothing";
  }
  ASSERT_EQ(ibv_detach_mcast(leaves.qp, &group, 0), 0);
  send_to_group(sender, way_to(group), "one copy");
  expect_text(stays, "one copy", sender.qp->qp_num);
  EXPECT_TRUE(got_nothing(stays));
  EXPECT_TRUE(got_nothing(leaves));
  ASSERT_EQ(ibv_detach_mcast(stays.qp, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(stays.qp, &group, 0), EINVAL) << "it has left";
  ASSERT_EQ(ibv_attach_mcast(leaves.qp, &group, 0), 0) << "a group may begin again";
  send_to_group(sender, way_to(group), "again");
  expect_text(leaves, "again", sender.qp->qp_num);
  ASSERT_EQ(ibv_detach_mcast(leaves.qp, &group, 0), 0);
}

TEST_F(Multicast, RefusesWhatIsNoGroupAndNoDatagramQueuePair) {
  const ibv_gid group = gid(kGroup);
  const ibv_gid single = gid("::ffff:127.0.0.1");
  const Endpoint end = make_endpoint();
  EXPECT_EQ(ibv_attach_mcast(end.qp, &single, 0), EINVAL);
  ibv_qp* connected = make_qp({.send_cq = end.cq});
  EXPECT_EQ(ibv_attach_mcast(connected, &group, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(end.qp, &group, 0), EINVAL);
  ASSERT_EQ(ibv_attach_mcast(end.qp, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(end.qp), EBUSY) << "while it is a member";
  EXPECT_EQ(ibv_detach_mcast(end.qp, &group, 0), 0);
}

/// The other process: joins, says so, and waits for one message.
class Listener : public Multicast {
 public:
  int run(int ready) {
    open();
    const ibv_gid group = gid(kGroup);
    const Endpoint end = make_endpoint();
    EXPECT_EQ(ibv_attach_mcast(end.qp, &group, 0), 0);
    EXPECT_EQ(::write(ready, "x", 1), 1);
    const ibv_wc wc = collect_one(end.cq);
    EXPECT_EQ(wc.byte_len, kGrhOctets + 5);
    EXPECT_TRUE(got_nothing(end)) << "one copy each";
    EXPECT_EQ(ibv_detach_mcast(end.qp, &group, 0), 0);
    shut();
    std::fflush(nullptr);
    return ::testing::Test::HasFailure() ? 1 : 0;
  }
};

TEST(MulticastProcesses, EachGetsItsOwnCopy) {
  constexpr std::size_t kCount = 4;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  std::array<pid_t, kCount> listeners{};
  std::fflush(nullptr);
  for (pid_t& listener : listeners) {
    listener = ::fork();
    if (listener == 0) ::_exit(Listener().run(ready[1]));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    char octet = 0;
    ASSERT_EQ(::read(ready[0], &octet, 1), 1);
  }
  struct Sender : Multicast {
    void run() {
      open();
      send_to_group(make_endpoint(), way_to(gid(kGroup)), "hello");
      shut();
    }
  };
  Sender().run();
  for (const pid_t listener : listeners) {
    int status = -1;
    ASSERT_EQ(::waitpid(listener, &status, 0), listener);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
// Whole devices in one simulation: multicast, receives that are posted late, many queue pairs on
// one link, several processes at one address, programs that poll.
#include <map>

#include "loop/late_receive.h"
#include "test_cluster.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr wire::QKey kQKey{0x1234};
constexpr std::size_t kDatagramOctets = 100;
constexpr std::size_t kPlace = transport::kGrhOctets + kDatagramOctets;

/// Queue pairs for datagrams, each with a buffer for what it sends and one for what it receives.
class Datagrams {
 public:
  explicit Datagrams(const Faults& faults = {}, std::uint64_t seed = 1) : cluster(faults, seed) {}

  std::size_t add_qp(std::size_t endpoint) {
    Endpoint& at = cluster.endpoint(endpoint);
    const auto qp = at.create_qp({.type = QpType::kUd, .receive_cq = kReceiveCq});
    ready_datagrams(at, qp, kQKey);
    sources.emplace(std::pair(endpoint, qp), Buffer(at, kDatagramOctets));
    receives.emplace(std::pair(endpoint, qp), Buffer(at, 64 * kPlace));
    return qp;
  }
  void post_receives(std::size_t endpoint, std::size_t qp, std::uint64_t first,
                     std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      const memory::Sge sge = receives.at({endpoint, qp}).at(i * kPlace, kPlace);
      ASSERT_TRUE(
          cluster.endpoint(endpoint).qp(qp).post_receive({.wr_id = i, .list = {&sge, 1}}).ok());
    }
  }
  void send(std::size_t endpoint, std::size_t qp, const wire::Gid& to, wire::QpNumber number,
            std::uint32_t name) {
    Endpoint& from = cluster.endpoint(endpoint);
    const auto path = from.path_to(to, from.number_of(qp), number);
    const memory::Sge sge = sources.at({endpoint, qp}).at(0, kDatagramOctets);
    ASSERT_TRUE(from.qp(qp)
                    .post_send({.opcode = SendOpcode::kSendImm,
                                .list = {&sge, 1},
                                .immediate = wire::Immediate{name},
                                .path = &path,
                                .remote_qp = number,
                                .remote_qkey = kQKey})
                    .ok());
  }
  /// The names of the datagrams that queue pairs of an endpoint have received since the last call.
  std::map<wire::QpNumber, std::vector<std::uint32_t>> received(std::size_t endpoint) {
    std::map<wire::QpNumber, std::vector<std::uint32_t>> names;
    for (const Completion& completion : collect(cluster.endpoint(endpoint), kReceiveCq)) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      names[completion.qp].push_back(completion.imm_or_key);
    }
    return names;
  }

  Cluster cluster;
  std::map<std::pair<std::size_t, std::size_t>, Buffer> sources;
  std::map<std::pair<std::size_t, std::size_t>, Buffer> receives;
};

using Names = std::map<wire::QpNumber, std::vector<std::uint32_t>>;

TEST(Multicast, EachMemberGetsACopyAndTheSenderNone) {
  Datagrams world;
  add_endpoints(world.cluster, 3);
  const wire::Gid group = ipv4_gid(239, 1, 2, 3);
  std::map<std::size_t, std::vector<wire::QpNumber>> numbers;
  for (std::size_t endpoint = 0; endpoint < 3; ++endpoint) {
    for (int i = 0; i < 2; ++i) {
      const auto qp = world.add_qp(endpoint);
      numbers[endpoint].push_back(world.cluster.endpoint(endpoint).number_of(qp));
      world.post_receives(endpoint, qp, 0, 8);
    }
  }
  world.cluster.endpoint(0).join(group, 0);
  world.cluster.endpoint(0).join(group, 1);
  world.cluster.endpoint(1).join(group, 0);
  world.cluster.endpoint(2).join(group, 0);
  world.cluster.endpoint(2).join(group, 1);

  world.send(0, 0, group, wire::QpNumber::kMulticast, 7);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(0), (Names{{numbers[0][1], {7}}}));
  EXPECT_EQ(world.received(1), (Names{{numbers[1][0], {7}}}));
  EXPECT_EQ(world.received(2), (Names{{numbers[2][0], {7}}, {numbers[2][1], {7}}}));

  world.cluster.endpoint(1).leave(group, 0);
  world.cluster.endpoint(2).leave(group, 1);
  world.send(0, 1, group, wire::QpNumber::kMulticast, 8);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(0), (Names{{numbers[0][0], {8}}}));
  EXPECT_EQ(world.received(1), Names{});
  EXPECT_EQ(world.received(2), (Names{{numbers[2][0], {8}}}));
  EXPECT_EQ(world.cluster.endpoint(1).counters().unknown_qp, 0U) << "its address has left as well";
}

TEST(LateReceive, DatagramsWaitForReceivesThatArePostedAMomentLater) {
  Datagrams world;
  add_endpoints(world.cluster, 2);
  const auto sender = world.add_qp(0);
  const auto receiver = world.add_qp(1);
  const wire::QpNumber number = world.cluster.endpoint(1).number_of(receiver);
  const wire::Gid address = world.cluster.endpoint(1).address();
  for (std::uint32_t name = 0; name < 5; ++name) world.send(0, sender, address, number, name);
  const auto runs_for = [&](Duration time) {
    (void)run_until(
        world.cluster, [] { return false; }, world.cluster.now() + time);
  };
  runs_for(loop::LateReceive::kPatience / 2);
  EXPECT_EQ(world.received(1), Names{});
  world.post_receives(1, receiver, 0, 2);
  runs_for(milliseconds(1));
  EXPECT_EQ(world.received(1), (Names{{number, {0, 1}}})) << "the others wait";
  world.post_receives(1, receiver, 2, 3);
  world.send(0, sender, address, number, 5);  // comes behind those that wait
  runs_for(milliseconds(1));
  EXPECT_EQ(world.received(1), (Names{{number, {2, 3, 4}}}));
  world.post_receives(1, receiver, 5, 1);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(1), (Names{{number, {5}}}));
}

TEST(LateReceive, ADatagramIsLostWhenNoReceiveComesInTime) {
  Datagrams world;
  add_endpoints(world.cluster, 2);
  const auto sender = world.add_qp(0);
  const auto receiver = world.add_qp(1);
  Endpoint& to = world.cluster.endpoint(1);
  world.send(0, sender, to.address(), to.number_of(receiver), 1);
  run_until_quiet(world.cluster);
  const Instant given_up = world.cluster.now();
  EXPECT_GE(given_up - Instant{}, loop::LateReceive::kPatience);
  EXPECT_LT(given_up - Instant{}, 2 * loop::LateReceive::kPatience);
  // The program has posted nothing meanwhile, so the next datagram does not wait.
  world.send(0, sender, to.address(), to.number_of(receiver), 2);
  run_until_quiet(world.cluster);
  EXPECT_LT(world.cluster.now() - given_up, milliseconds(1));
  world.post_receives(1, receiver, 0, 2);
  world.send(0, sender, to.address(), to.number_of(receiver), 3);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(1), (Names{{to.number_of(receiver), {3}}}));
}

TEST(LateReceive, ACopyOfAMulticastDatagramWaitsAsWell) {
  Datagrams world;
  add_endpoints(world.cluster, 2);
  const auto sender = world.add_qp(0);
  const auto receiver = world.add_qp(1);
  Endpoint& to = world.cluster.endpoint(1);
  const wire::Gid group = ipv4_gid(239, 1, 2, 3);
  to.join(group, receiver);
  world.send(0, sender, to.address(), to.number_of(receiver), 1);
  world.send(0, sender, group, wire::QpNumber::kMulticast, 2);
  world.send(0, sender, to.address(), to.number_of(receiver), 3);
  (void)run_until(
      world.cluster, [] { return false; }, world.cluster.now() + milliseconds(1));
  EXPECT_EQ(world.received(1), Names{});
  world.post_receives(1, receiver, 0, 3);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(1), (Names{{to.number_of(receiver), {1, 2, 3}}}));
}

/// It has neither a Q_Key nor a receive.
TEST(LateReceive, ACongestionNotificationDoesNotWaitBehindADatagram) {
  Datagrams world;
  add_endpoints(world.cluster, 2);
  const auto sender = world.add_qp(0);
  const auto receiver = world.add_qp(1);
  Endpoint& to = world.cluster.endpoint(1);
  world.send(0, sender, to.address(), to.number_of(receiver), 1);
  const auto run = [&] {
    (void)run_until(
        world.cluster, [] { return false; }, world.cluster.now() + milliseconds(1));
  };
  run();
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::Opcode::kCnp;
  headers.bth.dest_qp = to.number_of(receiver);
  const auto path =
      world.cluster.endpoint(0).path_to(to.address(), wire::QpNumber{}, headers.bth.dest_qp);
  NetworkFrame frame{.source = path.source,
                     .destination = path.destination,
                     .source_port = path.source_port,
                     .octets = std::vector<std::byte>(wire::PacketBuilder::octets_for(headers, 0))};
  const auto seed = wire::IcrcSeed::roce_v2(frame.source, frame.destination, frame.source_port);
  wire::PacketBuilder builder(frame.octets, headers, 0, {.seed = &seed});
  ASSERT_EQ(builder.finish(), frame.octets.size());
  (void)world.cluster.network().send(world.cluster.now(), frame);
  run();
  EXPECT_EQ(to.qp(receiver).machine().sender().requester().rate().notification_count(), 1U);
  world.post_receives(1, receiver, 0, 1);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(1), (Names{{to.number_of(receiver), {1}}}));
}

/// Writes down which queue pair each data packet goes to.
class Destinations : public Observer {
 public:
  void handle_frame(Instant, const NetworkFrame& frame, Fate) override {
    const auto packet = wire::PacketView::parse(frame.octets);
    if (packet && !packet->info().is_response) numbers.push_back(packet->bth().dest_qp());
  }
  std::vector<wire::QpNumber> numbers;
};

TEST(OneLink, QueuePairsTakeTurnsOnIt) {
  constexpr std::size_t kQueuePairs = 3;
  constexpr std::size_t kPackets = 400;
  Destinations destinations;
  Cluster cluster({}, 1, &destinations);
  add_endpoints(cluster, 2);
  Endpoint& from = cluster.endpoint(0);
  Endpoint& to = cluster.endpoint(1);
  Buffer source(from, kPackets * 1024);
  std::vector<Buffer> targets;
  Prng prng(1);
  fill_random(source.octets, prng);
  for (std::size_t i = 0; i < kQueuePairs; ++i) {
    const auto a = from.create_qp({.window_packets = 1000});
    const auto b = to.create_qp({});
    connect(from, a, to, b, {.mtu = wire::PathMtu::k1024});
    targets.emplace_back(to, kPackets * 1024, kEverything);
    const memory::Sge sge = source.at(0, source.octets.size());
    ASSERT_TRUE(from.qp(a)
                    .post_send({.opcode = SendOpcode::kWrite,
                                .flags = SendFlags::kSignaled,
                                .list = {&sge, 1},
                                .remote_address = targets[i].address,
                                .rkey = targets[i].key})
                    .ok());
  }
  cluster.transmit();
  // No queue pair has a second turn before the others have had their first. A turn may end with a
  // whole run of packets, so it is shorter than twice 96.
  ASSERT_EQ(destinations.numbers.size(), kQueuePairs * kPackets);
  std::map<wire::QpNumber, std::size_t> sent;
  for (std::size_t i = 0; i < kQueuePairs; ++i) sent[to.number_of(i)] = 0;
  for (const wire::QpNumber number : destinations.numbers) {
    ++sent.at(number);
    for (const auto& [other, count] : sent) {
      EXPECT_LT(sent.at(number), count + 2 * 96) << "the turn was too long";
    }
  }
  run_until_quiet(cluster);
  EXPECT_EQ(collect(from, kSendCq).size(), kQueuePairs);
  for (const Buffer& target : targets) {
    EXPECT_TRUE(std::ranges::equal(target.octets, source.octets));
  }
  EXPECT_GT(from.link_counters().trains_sent, 10U);
  EXPECT_GT(to.link_counters().trains_received, 10U);
}

TEST(OneLink, ManyConnectionsShareItOverABadNetwork) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(bad_network(), seed);
    add_endpoints(cluster, 2);
    Traffic traffic(cluster);
    for (std::uint64_t i = 0; i < 16; ++i) {
      const auto a = cluster.endpoint(0).create_qp({.receive_cq = kReceiveCq});
      const auto b = cluster.endpoint(1).create_qp({.receive_cq = kReceiveCq});
      connect(cluster.endpoint(0), a, cluster.endpoint(1), b, {.timeout = 8});
      traffic.add({.request_count = 10}, 0, a, 1, b, seed * 100 + i);
      traffic.add({.request_count = 10}, 1, b, 0, a, seed * 200 + i);
    }
    EXPECT_EQ(traffic.run(), "");
    EXPECT_FALSE(traffic.any_connection_failed());
  }
}

/// Two processes at one address: the packets of the second reach the first, which forwards them.
TEST(OneAddress, PacketsForAnotherProcessAreForwarded) {
  for (const bool polls : {false, true}) {
    SCOPED_TRACE(polls);
    Cluster cluster(bad_network(), 5);
    const wire::Gid shared = ipv4_gid(10, 0, 0, 50);
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const auto index = cluster.add_endpoint({.address = slot < 2 ? shared : wire::Gid{},
                                               .slot = slot,
                                               .first_key_index = 0x100 + slot * 0x1000,
                                               .seed = slot + 1,
                                               .polls = polls});
      ASSERT_EQ(cluster.endpoint(index).create_cq(8192, 64), kSendCq);
      ASSERT_EQ(cluster.endpoint(index).create_cq(8192, 64), kReceiveCq);
    }
    Traffic traffic(cluster);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto a = cluster.endpoint(i).create_qp({.receive_cq = kReceiveCq});
      const auto b = cluster.endpoint(2).create_qp({.receive_cq = kReceiveCq});
      connect(cluster.endpoint(i), a, cluster.endpoint(2), b, {.timeout = 10});
      traffic.add({}, i, a, 2, b, 10 + i);
      traffic.add({}, 2, b, i, a, 20 + i);
    }
    EXPECT_EQ(traffic.run(), "");
    EXPECT_FALSE(traffic.any_connection_failed());
    EXPECT_GT(cluster.endpoint(0).counters().forwarded, 0U);
    EXPECT_EQ(cluster.endpoint(1).counters().forwarded, 0U);
    EXPECT_EQ(cluster.endpoint(1).counters().unknown_qp, 0U);
  }
}

/// Each process of an address is a member of groups of its own.
TEST(OneAddress, EachProcessGetsItsOwnCopyOfAMulticastDatagram) {
  Datagrams world;
  const wire::Gid shared = ipv4_gid(10, 0, 0, 50);
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    const auto index = world.cluster.add_endpoint(
        {.address = slot < 2 ? shared : wire::Gid{}, .slot = slot, .seed = slot + 1});
    ASSERT_EQ(world.cluster.endpoint(index).create_cq(64), kSendCq);
    ASSERT_EQ(world.cluster.endpoint(index).create_cq(64), kReceiveCq);
    ASSERT_EQ(world.add_qp(index), 0U);
    world.post_receives(index, 0, 0, 8);
  }
  const wire::Gid group = ipv4_gid(239, 1, 2, 3);
  const auto number = [&](std::size_t index) { return world.cluster.endpoint(index).number_of(0); };
  world.cluster.endpoint(1).join(group, 0);
  world.send(2, 0, group, wire::QpNumber::kMulticast, 1);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(0), Names{});
  EXPECT_EQ(world.received(1), (Names{{number(1), {1}}}));

  world.cluster.endpoint(0).join(group, 0);
  world.send(2, 0, group, wire::QpNumber::kMulticast, 2);
  run_until_quiet(world.cluster);
  world.send(0, 0, group, wire::QpNumber::kMulticast, 3);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(0), (Names{{number(0), {2}}}));
  EXPECT_EQ(world.received(1), (Names{{number(1), {2, 3}}}));

  world.cluster.endpoint(0).leave(group, 0);
  world.send(2, 0, group, wire::QpNumber::kMulticast, 4);
  run_until_quiet(world.cluster);
  EXPECT_EQ(world.received(0), Names{});
  EXPECT_EQ(world.received(1), (Names{{number(1), {4}}}));
  EXPECT_EQ(world.cluster.endpoint(0).counters().unknown_qp, 0U);
}

/// Notes when acknowledgements leave.
class Acknowledgements : public Observer {
 public:
  void handle_frame(Instant now, const NetworkFrame& frame, Fate) override {
    const auto packet = wire::PacketView::parse(frame.octets);
    if (packet && packet->operation() == wire::Operation::kAcknowledge) times.push_back(now);
  }
  std::vector<Instant> times;
};

TEST(Polling, AnAnswerWaitsForTheNextRequestOfTheProgramButNotLong) {
  Acknowledgements acknowledgements;
  Cluster cluster({.delay = microseconds(2)}, 1, &acknowledgements);
  for (std::uint32_t i = 0; i < 2; ++i) {
    cluster.add_endpoint({.slot = i, .polls = i == 1});
    ASSERT_EQ(cluster.endpoint(i).create_cq(64), kSendCq);
    ASSERT_EQ(cluster.endpoint(i).create_cq(64), kReceiveCq);
    (void)cluster.endpoint(i).create_qp({.receive_cq = kReceiveCq});
  }
  connect(cluster.endpoint(0), 0, cluster.endpoint(1), 0, {});
  Buffer source(cluster.endpoint(0), 64);
  Buffer target(cluster.endpoint(1), 64, kEverything);
  const memory::Sge sge = source.at(0, 64);
  const auto write = [&] {
    ASSERT_TRUE(cluster.endpoint(0)
                    .qp(0)
                    .post_send({.opcode = SendOpcode::kWrite,
                                .flags = SendFlags::kSignaled,
                                .list = {&sge, 1},
                                .remote_address = target.address,
                                .rkey = target.key})
                    .ok());
    cluster.transmit();
  };
  write();
  run_until_quiet(cluster);
  // The answer was kept, and the deadline that the loop noted made it leave.
  ASSERT_EQ(acknowledgements.times.size(), 1U);
  const Duration kept = acknowledgements.times[0] - Instant::at(microseconds(2));
  EXPECT_GT(kept, microseconds(50));
  EXPECT_LE(kept, microseconds(300));
  EXPECT_EQ(collect(cluster.endpoint(0), kSendCq).size(), 1U);

  // A request of the program takes the answer along.
  write();
  ASSERT_TRUE(cluster.step());
  const Instant arrived = cluster.now();
  cluster.transmit();
  EXPECT_EQ(acknowledgements.times.size(), 1U);
  ASSERT_TRUE(cluster.endpoint(1).qp(0).post_send({.opcode = SendOpcode::kSend}).ok());
  cluster.transmit();
  ASSERT_EQ(acknowledgements.times.size(), 2U);
  EXPECT_EQ(acknowledgements.times[1], arrived);
}

}  // namespace
}  // namespace verbatim::sim

// SPDX-License-Identifier: Apache-2.0
// Connections made and ended over bad networks: each is established on both sides or on none, and
// nothing is left of it in the end. VERBATIM_SEED=n replays one history; VERBATIM_HISTORIES=n runs
// that many.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cm_world.h"

namespace verbatim::cm::test {
namespace {

const sim::Faults kGoodNetwork{.delay = 1ms};

/// Makes one connection and ends it, from the server's side if asked to. It must be established.
void connect_and_disconnect(CmWorld& world, bool server_disconnects) {
  const auto id = world.connect(world.a);
  ASSERT_TRUE(world.run_until_quiet());
  ASSERT_TRUE(world.stands(world.a, id));
  world.check_agreement();
  const auto server_id = world.server_id(world.a, id);
  if (server_disconnects) {
    world.disconnect(world.b, server_id);
  } else {
    world.disconnect(world.a, id);
  }
  ASSERT_TRUE(world.run_until_quiet());
  EXPECT_TRUE(world.a.sides.at(id).is_over);
  EXPECT_TRUE(world.b.sides.at(server_id).is_over);
  world.check_agreement();
  world.check_that_nothing_remains();
}

TEST(CmWorld, AConnectionTakesThreeMessagesAndItsEndTwo) {
  CmWorld world(kGoodNetwork, {});
  connect_and_disconnect(world, false);
  EXPECT_EQ(world.datagram_count, 5U);
}

TEST(CmWorld, AnyOfTheFirstTwelveDatagramsMayBeLost) {
  constexpr std::size_t kFirst = 12;  // fewer than there are retries, so it must come about
  for (std::uint32_t lost = 0; lost < (1U << kFirst) && !::testing::Test::HasFailure(); ++lost) {
    SCOPED_TRACE(lost);
    CmWorld world(kGoodNetwork, {});
    world.is_lost = [&](std::size_t number) {
      return number < kFirst && ((lost >> number) & 1) != 0;
    };
    connect_and_disconnect(world, (lost & 1) != 0);
  }
}

TEST(CmWorld, EveryDatagramMayComeTwice) {
  for (const Duration late : {0ns, 1000000ns, 2000000ns, 5000000ns}) {
    CmWorld world(kGoodNetwork, {});
    world.late_copies = [&](std::size_t) { return std::vector{late}; };
    connect_and_disconnect(world, false);
  }
}

TEST(CmWorld, ACopyOfAnyDatagramMayComeAtAnyTime) {
  for (std::size_t which = 0; which < 5; ++which) {
    for (const Duration late : {Duration(100ms), Duration(600ms), Duration(1s), Duration(5s),
                                Duration(30s), Duration(100s), Duration(1000s)}) {
      for (const bool server_disconnects : {false, true}) {
        CmWorld world(kGoodNetwork, {});
        world.late_copies = [&](std::size_t number) {
          return number == which ? std::vector{late} : std::vector<Duration>{};
        };
        connect_and_disconnect(world, server_disconnects);
      }
    }
  }
}

TEST(CmWorld, DatagramsMayOvertakeEachOther) {
  // Users that answer later than the peer waits, so that copies are in flight all the time.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    CmWorld world({.duplicate_per_mille = 1000, .delay = 1ms, .jitter = 250ms},
                  {.thinking_time = [] { return Duration(6s); }}, seed);
    connect_and_disconnect(world, seed % 2 == 0);
  }
}

TEST(CmWorld, MessagesArriveInOneDirectionOnly) {
  // All that one side sends is lost: it ends, on both sides, when the retries are over.
  for (const bool server_is_heard : {false, true}) {
    CmWorld world(kGoodNetwork, {});
    const auto id = world.connect(world.a);
    world.after(1us, [&] {
      world.network().cut(world.a.gid, world.b.gid, true);
      world.is_lost = [](std::size_t) { return true; };
    });
    if (server_is_heard) world.is_lost = [](std::size_t number) { return number > 0; };
    ASSERT_TRUE(world.run_until_quiet());
    EXPECT_TRUE(world.a.sides.at(id).is_over);
    world.check_agreement();
    EXPECT_LE(world.now - Instant::at(0s), 32 * answer_time(kResponseTimeout, kPacketLifeTime));
    world.check_that_nothing_remains();
  }
}

TEST(CmWorld, AServerThatIsNotHeardTakesItsReplyBack) {
  // Every RTU is lost, but the client counts the connection as made: the server must end it there.
  CmWorld world(kGoodNetwork, {});
  const auto id = world.connect(world.a);
  world.is_lost = [&](std::size_t) {
    const bool is_made = world.a.sides.at(id).is_made;
    return is_made && world.now < Instant::at(80s);
  };
  ASSERT_TRUE(world.run_until_quiet());
  EXPECT_TRUE(world.a.sides.at(id).is_made);
  EXPECT_TRUE(world.a.sides.at(id).is_over);
  world.check_agreement();
  world.check_that_nothing_remains();
}

TEST(CmWorld, BothMayConnectToEachOtherAndDisconnectAtOnce) {
  CmWorld world(kGoodNetwork, {});
  const auto from_a = world.connect(world.a);
  const auto from_b = world.connect(world.b);
  ASSERT_TRUE(world.run_until_quiet());
  ASSERT_TRUE(world.stands(world.a, from_a));
  ASSERT_TRUE(world.stands(world.b, from_b));
  const auto at_b = world.server_id(world.a, from_a);
  world.disconnect(world.a, from_a);
  world.disconnect(world.b, at_b);
  ASSERT_TRUE(world.run_until_quiet());
  EXPECT_FALSE(world.a.sides.at(from_a).stands());
  ASSERT_TRUE(world.stands(world.b, from_b));
  world.check_agreement();
  world.check_that_nothing_remains();
}

TEST(CmWorld, AnAgentMayConnectToItself) {
  Host host(1, 7);
  const auto listener = host.agent.listen({.service_id = kService});
  ASSERT_TRUE(listener);
  const Address self{.local = host.gid, .remote = host.gid};
  const Instant now = Instant::at(1s);
  const auto loop = [&] {
    while (const auto datagram = host.agent.poll_transmit()) {
      (void)host.agent.handle_mad(now, self, datagram->octets);
    }
  };
  const auto client = host.agent.connect(
      now, {.address = self, .service_id = kService, .qpn = wire::QpNumber{0x11}});
  ASSERT_TRUE(client);
  loop();
  const auto request = host.agent.poll_event();
  ASSERT_TRUE(request && request->kind == AgentEventKind::kConnectRequest);
  ASSERT_TRUE(host.agent.accept(now, request->id, {.qpn = wire::QpNumber{0x12}}));
  loop();
  const auto reply = host.agent.poll_event();
  ASSERT_TRUE(reply && reply->kind == AgentEventKind::kReply && reply->id == *client);
  ASSERT_TRUE(host.agent.establish(now, *client));
  loop();
  const auto established = host.agent.poll_event();
  ASSERT_TRUE(established && established->kind == AgentEventKind::kEstablished);
  ASSERT_TRUE(host.agent.destroy(now, *client));
  loop();
  const auto disconnected = host.agent.poll_event();
  ASSERT_TRUE(disconnected && disconnected->kind == AgentEventKind::kDisconnected);
  ASSERT_TRUE(host.agent.destroy(now, request->id));
  host.agent.handle_timeout(now + 1h);
  EXPECT_EQ(host.agent.communication_count(), 0U);
}

/// Random connections with random users over a random network, and their ends.
class History {
 public:
  explicit History(std::uint64_t seed, Duration jitter_max)
      : prng_(seed), world_(faults(jitter_max), manners(), prng_.next()) {}

  void run(bool both_must_agree) {
    const std::uint64_t connections = prng_.between(1, 5);
    for (std::uint64_t i = 0; i < connections; ++i) {
      world_.after(random_time(10s), [this] { connect(prng_.one_in(2) ? world_.a : world_.b); });
    }
    if (prng_.one_in(4)) cut_for_a_while();
    ASSERT_TRUE(world_.run_until_quiet()) << "livelock";
    if (both_must_agree) world_.check_agreement();
    count_standing();
    hang_up();
    ASSERT_TRUE(world_.run_until_quiet()) << "livelock";
    if (both_must_agree) world_.check_agreement();
    world_.check_that_nothing_remains();
  }
  [[nodiscard]] std::uint64_t standing() const { return standing_; }

 private:
  sim::Faults faults(Duration jitter_max) {
    const auto most = static_cast<std::uint64_t>(jitter_max.count());
    return {.loss_per_mille = static_cast<unsigned>(prng_.below(300)),
            .duplicate_per_mille = static_cast<unsigned>(prng_.below(300)),
            .delay = Duration(static_cast<Duration::rep>(prng_.below(1'000'000))),
            .jitter = Duration(static_cast<Duration::rep>(prng_.below(most)))};
  }
  Manners manners() {
    const auto rudeness = prng_.below(4) * 100;  // per mille
    const auto answer = [this, rudeness] {
      if (!prng_.per_mille(rudeness)) return Answer::kYes;
      return prng_.one_in(2) ? Answer::kNo : Answer::kDestroy;
    };
    const Duration slowness = random_time(20s);
    return {.on_request = answer, .on_reply = answer, .thinking_time = [this, slowness] {
              return prng_.one_in(2) ? Duration{0} : random_time(slowness);
            }};
  }
  Duration random_time(Duration most) {
    return Duration(
        static_cast<Duration::rep>(prng_.below(static_cast<std::uint64_t>(most.count()) + 1)));
  }

  void connect(Host& client) {
    const auto id = world_.connect(client);
    if (prng_.one_in(8)) {  // the user changes its mind
      world_.after(random_time(10s), [this, &client, id] { world_.destroy(client, id); });
    }
  }
  void cut_for_a_while() {
    world_.after(random_time(10s),
                 [this] { world_.network().cut(world_.a.gid, world_.b.gid, true); });
    world_.after(10s + random_time(50s),
                 [this] { world_.network().cut(world_.a.gid, world_.b.gid, false); });
  }
  void count_standing() {
    for (const auto& [id, side] : world_.a.sides) standing_ += side.stands() ? 1U : 0U;
  }
  void hang_up() {
    for (Host* host : {&world_.a, &world_.b}) {
      for (const auto& [id, side] : host->sides) {
        if (!side.stands() || prng_.one_in(3)) continue;
        const bool only_disconnects = prng_.one_in(2);
        world_.after(random_time(2s), [this, host, of = id, only_disconnects] {
          if (!host->sides.at(of).stands()) return;
          if (only_disconnects) {
            world_.disconnect(*host, of);
          } else {
            world_.destroy(*host, of);
          }
        });
      }
    }
  }

  Prng prng_;
  CmWorld world_;
  std::uint64_t standing_ = 0;  // connections that were established
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// How many were checked.
template <typename Check>
std::uint64_t for_each_seed(std::uint64_t count, Check&& check) {
  if (const auto seed = from_environment("VERBATIM_SEED", 0); seed != 0) {
    check(seed);
    return 1;
  }
  count = from_environment("VERBATIM_HISTORIES", count);
  for (std::uint64_t seed = 1; seed <= count && !::testing::Test::HasFailure(); ++seed) {
    check(seed);
  }
  return count;
}

TEST(CmHistory, AConnectionIsEstablishedOnBothSidesOrOnNone) {
  std::uint64_t standing = 0;
  const auto histories = for_each_seed(3000, [&](std::uint64_t seed) {
    SCOPED_TRACE("VERBATIM_SEED=" + std::to_string(seed));
    History history(seed, 250ms);  // no packet is delayed longer
    history.run(/*both_must_agree=*/true);
    standing += history.standing();
  });
  if (histories > 1) {
    EXPECT_GT(standing, histories) << "they are the rule";
  }
}

TEST(CmHistory, PacketsThatLiveTooLongLeaveNothingBehind) {
  for_each_seed(1000, [&](std::uint64_t seed) {
    SCOPED_TRACE("VERBATIM_SEED=" + std::to_string(seed));
    History(seed, 60s).run(/*both_must_agree=*/false);
  });
}

}  // namespace
}  // namespace verbatim::cm::test

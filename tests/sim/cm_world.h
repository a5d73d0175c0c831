// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "cm/agent.h"
#include "sim/lossy_network.h"

namespace verbatim::cm::test {

using namespace std::chrono_literals;

inline constexpr wire::ServiceId kService{0x1061234};

/// What a user does when the agent asks for a decision.
enum class Answer : std::uint8_t { kYes, kNo, kDestroy };

/// How the users of a world behave. Both are asked once per connection.
struct Manners {
  std::function<Answer()> on_request = [] { return Answer::kYes; };
  std::function<Answer()> on_reply = [] { return Answer::kYes; };
  std::function<Duration()> thinking_time = [] { return Duration{0}; };
};

/// One end of one connection, as its user saw it.
struct Side {
  bool is_client = false;
  wire::CommId client_id{};  // of the same connection at the client
  bool is_made = false;      // the user has got, or has given, the confirmation
  bool is_over = false;      // the user has got the event of its end
  bool is_destroyed = false;
  [[nodiscard]] bool stands() const noexcept { return is_made && !is_over && !is_destroyed; }
  [[nodiscard]] bool is_decided() const noexcept { return is_made || is_over || is_destroyed; }
};

/// An agent and its user.
struct Host {
  Host(std::uint8_t number, std::uint64_t seed)
      : agent({.slot = number, .ca_guid = wire::Guid{0x100U + number}, .seed = seed}) {
    gid.octets[10] = gid.octets[11] = 0xff;
    gid.octets[12] = 10;
    gid.octets[15] = number;
  }
  wire::Gid gid{};
  Agent agent;
  std::map<wire::CommId, Side> sides{};
};

/// Two hosts that listen and connect, a bad network, and a clock. Users answer automatically,
/// as configured; the test makes connections and ends them.
class CmWorld {
 public:
  CmWorld(const sim::Faults& faults, Manners manners, std::uint64_t seed = 1)
      : manners_(std::move(manners)), network_(faults, seed), a(1, seed), b(2, seed + 1) {
    for (Host* host : {&a, &b}) EXPECT_TRUE(host->agent.listen({.service_id = kService}));
  }

 private:
  Manners manners_;
  sim::LossyNetwork network_;

 public:
  Host a;
  Host b;
  Instant now = Instant::at(0s);
  std::size_t datagram_count = 0;  // sent so far
  /// Set by the test, by the number of the datagram: whether it is lost, and when a copy arrives.
  std::function<bool(std::size_t)> is_lost = [](std::size_t) { return false; };
  std::function<std::vector<Duration>(std::size_t)> late_copies = [](std::size_t) {
    return std::vector<Duration>{};
  };

  sim::LossyNetwork& network() { return network_; }

  wire::CommId connect(Host& client) {
    Host& server = other(client);
    const auto id =
        client.agent.connect(now, {.address = {.local = client.gid, .remote = server.gid},
                                   .service_id = kService,
                                   .qpn = wire::QpNumber{++last_qpn_}});
    EXPECT_TRUE(id);
    client.sides[*id] = {.is_client = true, .client_id = *id};
    pump();
    return *id;
  }
  void disconnect(Host& host, wire::CommId id) {
    EXPECT_TRUE(host.agent.disconnect(now, id));
    pump();
  }
  void destroy(Host& host, wire::CommId id) {
    Side& side = host.sides.at(id);
    if (side.is_destroyed) return;
    side.is_destroyed = true;
    EXPECT_TRUE(host.agent.destroy(now, id));
    pump();
  }
  void after(Duration time, std::function<void()> action) {
    actions_.emplace(now + time, std::move(action));
  }

  /// Runs until no message is in flight, no user decision is pending and no deadline is left. False
  /// if that never happens.
  bool run_until_quiet() {
    for (std::uint64_t steps = 0; steps < 200'000; ++steps) {
      const Instant next =
          std::min({network_.next_arrival(), next_action(), deadline(a), deadline(b)});
      if (next == Instant::never()) return true;
      now = std::max(now, next);
      while (auto frame = network_.take_arrived(now)) deliver(*frame);
      while (!actions_.empty() && actions_.begin()->first <= now) {
        const auto action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
        action();
        pump();
      }
      a.agent.handle_timeout(now);
      b.agent.handle_timeout(now);
      pump();
    }
    return false;
  }

  /// Every connection was decided, and is established on both sides or on none.
  void check_agreement() {
    for (Host* client : {&a, &b}) {
      for (const auto& [id, side] : client->sides) {
        EXPECT_TRUE(side.is_decided()) << "an end waits for ever";
        if (!side.is_client) continue;
        EXPECT_EQ(side.stands() ? 1 : 0, standing_at(other(*client), id)) << "half open";
      }
    }
  }
  [[nodiscard]] bool stands(Host& client, wire::CommId id) {
    return client.sides.at(id).stands() && standing_at(other(client), id) == 1;
  }
  /// The server's ID of a connection that is established there.
  [[nodiscard]] wire::CommId server_id(Host& client, wire::CommId id) {
    for (const auto& [server_id, side] : other(client).sides) {
      if (!side.is_client && side.client_id == id && side.stands()) return server_id;
    }
    ADD_FAILURE() << "it does not stand";
    return {};
  }

  /// Destroys what is left; afterwards the agents hold nothing.
  void check_that_nothing_remains() {
    for (Host* host : {&a, &b}) {
      for (auto& [id, side] : host->sides) destroy(*host, id);
    }
    ASSERT_TRUE(run_until_quiet());
    // Late copies may have made new ones meanwhile.
    for (Host* host : {&a, &b}) {
      for (auto& [id, side] : host->sides) destroy(*host, id);
    }
    ASSERT_TRUE(run_until_quiet());
    for (Host* host : {&a, &b}) {
      EXPECT_EQ(host->agent.communication_count(), 0U);
      EXPECT_FALSE(host->agent.next_timeout());
      EXPECT_FALSE(host->agent.poll_event());
      EXPECT_FALSE(host->agent.poll_transmit());
    }
  }

  Host& other(Host& host) { return &host == &a ? b : a; }

 private:
  [[nodiscard]] int standing_at(Host& server, wire::CommId client_id) {
    return static_cast<int>(std::ranges::count_if(server.sides, [&](const auto& entry) {
      return !entry.second.is_client && entry.second.client_id == client_id &&
             entry.second.stands();
    }));
  }
  [[nodiscard]] Instant next_action() const {
    return actions_.empty() ? Instant::never() : actions_.begin()->first;
  }
  [[nodiscard]] static Instant deadline(const Host& host) {
    return host.agent.next_timeout().value_or(Instant::never());
  }

  void deliver(const sim::NetworkFrame& frame) {
    Host& host = frame.destination == a.gid ? a : b;
    (void)host.agent.handle_mad(now, {.local = frame.destination, .remote = frame.source},
                                frame.octets);
    pump();
  }

  void pump() {
    for (Host* host : {&a, &b}) {
      while (auto event = host->agent.poll_event()) handle(*host, *event);
      while (const auto datagram = host->agent.poll_transmit()) carry(*datagram);
    }
  }
  void carry(const Datagram& datagram) {
    const std::size_t number = datagram_count++;
    const sim::NetworkFrame frame{.source = datagram.address.local,
                                  .destination = datagram.address.remote,
                                  .octets = {datagram.octets.begin(), datagram.octets.end()}};
    for (const Duration late : late_copies(number)) network_.send(now + late, frame);
    if (!is_lost(number)) network_.send(now, frame);
  }

  void handle(Host& host, const AgentEvent& event) {
    if (event.kind == AgentEventKind::kConnectRequest) {
      host.sides[event.id] = {.client_id = event.as<wire::CmReq>()->local_comm_id};
      after(manners_.thinking_time(), [this, &host, id = event.id] { answer_request(host, id); });
      return;
    }
    ASSERT_TRUE(host.sides.contains(event.id));
    Side& side = host.sides[event.id];
    EXPECT_FALSE(side.is_destroyed) << "an event after the end: " << name_of(event.kind);
    switch (event.kind) {
      case AgentEventKind::kReply:
        after(manners_.thinking_time(), [this, &host, id = event.id] { answer_reply(host, id); });
        break;
      case AgentEventKind::kEstablished:
        EXPECT_FALSE(side.is_made) << "twice";
        side.is_made = true;
        break;
      case AgentEventKind::kRejected:
      case AgentEventKind::kUnreachable:
      case AgentEventKind::kDisconnected:
        EXPECT_FALSE(side.is_over) << "told twice: " << name_of(event.kind);
        side.is_over = true;
        break;
      case AgentEventKind::kTimewaitExit:
        EXPECT_TRUE(side.is_over);
        break;
      case AgentEventKind::kDelayed:
        break;
      case AgentEventKind::kConnectRequest:
      case AgentEventKind::kServiceRequest:
      case AgentEventKind::kServiceReply:
      case AgentEventKind::kServiceUnreachable:
        ADD_FAILURE() << name_of(event.kind);
        break;
    }
  }

  void answer_request(Host& host, wire::CommId id) {
    Side& side = host.sides.at(id);
    if (side.is_destroyed || side.is_over) return;
    switch (manners_.on_request()) {
      case Answer::kYes:
        EXPECT_TRUE(host.agent.accept(now, id, {.qpn = wire::QpNumber{++last_qpn_}}));
        break;
      case Answer::kNo:
        EXPECT_TRUE(host.agent.reject(now, id, {}));
        side.is_over = true;
        break;
      case Answer::kDestroy:
        destroy(host, id);
        break;
    }
  }
  void answer_reply(Host& host, wire::CommId id) {
    Side& side = host.sides.at(id);
    if (side.is_destroyed || side.is_over) return;
    switch (manners_.on_reply()) {
      case Answer::kYes:
        EXPECT_TRUE(host.agent.establish(now, id));
        side.is_made = true;
        break;
      case Answer::kNo:
        EXPECT_TRUE(host.agent.reject(now, id, {}));
        side.is_over = true;
        break;
      case Answer::kDestroy:
        destroy(host, id);
        break;
    }
  }

  std::multimap<Instant, std::function<void()>> actions_;
  std::uint32_t last_qpn_ = 0x10;
};

}  // namespace verbatim::cm::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "connect/device.h"
#include "connect/event_queue.h"
#include "connect/id.h"
#include "connect/lock.h"
#include "connect/system.h"

namespace verbatim::connect::test {

using namespace std::chrono_literals;

inline wire::Gid gid(std::uint8_t last) {
  wire::Gid made;
  made.octets[10] = made.octets[11] = 0xff;
  made.octets[12] = 10;
  made.octets[15] = last;
  return made;
}
inline IpEndpoint endpoint(std::uint8_t last, std::uint16_t port = 0) {
  return {.address = gid(last), .port = port};
}
inline IpEndpoint loopback(std::uint16_t port = 0) {
  IpEndpoint made = IpEndpoint::any(true);
  made.address.octets[12] = 127;
  made.address.octets[15] = 1;
  made.port = port;
  return made;
}

/// The time, and the datagrams between the adapters of a test. Nothing moves by itself.
struct Network {
  Instant now = Instant::at(1s);
  std::deque<cm::Datagram> on_the_way;
};

/// The services of an adapter that is an agent, a clock and a table of addresses.
class FakeServices final : public Services {
 public:
  FakeServices(Network& network, std::uint8_t slot, std::vector<wire::Gid> gids)
      : network_(network),
        agent_(
            {.slot = slot, .ca_guid = wire::Guid{slot}, .seed = slot, .communications_max = 64}) {
    for (const wire::Gid& address : gids) port_.gids.push_back({.gid = address});
    port_.name = "vb0";
    port_.interface_index = slot;
  }

  [[nodiscard]] device::PortInfo port() const override { return port_; }
  [[nodiscard]] bool is_removed() const noexcept override { return false; }
  [[nodiscard]] Instant now() const noexcept override { return network_.now; }
  void set_reader(Device* reader) noexcept override { reader_ = reader; }

  void lock() noexcept override {
    // As it is in an adapter: connections_mutex() is never taken with this one held.
    mutex_.lock();
    is_held_ = true;
  }
  [[nodiscard]] bool try_lock() noexcept override {
    if (!mutex_.try_lock()) return false;
    is_held_ = true;
    return true;
  }
  void unlock() noexcept override {
    is_held_ = false;
    mutex_.unlock();
  }

  [[nodiscard]] cm::Agent& agent() noexcept override {
    EXPECT_TRUE(is_held_);
    return agent_;
  }
  void send() noexcept override {
    EXPECT_TRUE(is_held_);
    while (auto datagram = agent_.poll_transmit()) network_.on_the_way.push_back(*datagram);
  }
  [[nodiscard]] std::optional<device::PortChange> poll_port_change() noexcept override {
    if (changes_.empty()) return std::nullopt;
    auto change = std::move(changes_.front());
    changes_.pop_front();
    return change;
  }
  [[nodiscard]] Status claim(const wire::Gid& address, wire::ServiceId service) override {
    EXPECT_TRUE(is_held_);
    if (refuses_claims_at == address) return Errc::kAddressInUse;
    return claims.insert({address.octets, service}).second ? Status(Ok{})
                                                           : Status(Errc::kAddressInUse);
  }
  void release(const wire::Gid& address, wire::ServiceId service) noexcept override {
    claims.erase({address.octets, service});
  }
  void attract(const wire::Gid&, wire::ServiceId) noexcept override { ++attracted; }
  [[nodiscard]] bool has_queue_pair(wire::QpNumber number) const noexcept override {
    return own_pairs.contains(number);
  }
  [[nodiscard]] Expected<wire::Gid, Error> find_node(std::uint32_t address) override {
    const auto found = nodes.find(address);
    if (found == nodes.end()) return Error::kHostUnreachable;
    return found->second;
  }
  [[nodiscard]] Outcome reach_subnet() override {
    EXPECT_FALSE(is_held_);
    return subnet_refusal ? Outcome(*subnet_refusal) : Outcome(Ok{});
  }
  [[nodiscard]] Expected<SubnetToken> ask_subnet(
      std::span<const std::byte, wire::Mad::kSize> octets, Duration patience) override {
    EXPECT_TRUE(is_held_);
    asked.push_back({.token = SubnetToken{next_token_++}, .patience = patience});
    std::ranges::copy(octets, asked.back().octets.begin());
    return asked.back().token;
  }
  [[nodiscard]] std::optional<SubnetAnswer> poll_subnet_answer() noexcept override {
    if (answers_.empty()) return std::nullopt;
    auto answer = answers_.front();
    answers_.pop_front();
    return answer;
  }
  void progress() noexcept override {}
  void leave() noexcept override {}

  // What the test does.
  /// The port of a subnet of InfiniBand. Before the device of the host exists.
  void be_native(const device::FabricPort& fabric) { port_.fabric = fabric; }
  void answer(const SubnetAnswer& answer) {
    answers_.push_back(answer);
    reader_->handle_news();
  }
  [[nodiscard]] bool has(const wire::Gid& address) const { return port_.has(address); }
  [[nodiscard]] bool has_lid(wire::Lid lid) const {
    return port_.fabric && port_.fabric->lid == lid;
  }
  void receive(const cm::Datagram& datagram) {
    {
      const std::lock_guard held(*this);
      const wire::LocalRoute& route = datagram.address.route;
      cm::Address seen{.local = datagram.address.remote, .remote = datagram.address.local};
      if (route.exists()) {  // as a native packet has it
        seen = {.local = port_.gids.front().gid,
                .route = {.source = route.destination, .destination = route.source}};
      }
      (void)agent_.handle_mad(network_.now, seen, datagram.octets);
      send();
    }
    if (reader_ != nullptr) reader_->handle_news();
  }
  void pass_time() {
    {
      const std::lock_guard held(*this);
      agent_.handle_timeout(network_.now);
      send();
    }
    reader_->handle_news();
  }
  void change_port(const device::PortChange& change) {
    for (const wire::Gid& address : change.gained) port_.gids.push_back({.gid = address});
    std::erase_if(port_.gids, [&](const device::GidEntry& entry) {
      return std::find(change.lost.begin(), change.lost.end(), entry.gid) != change.lost.end();
    });
    changes_.push_back(change);
    reader_->handle_news();
  }

  std::set<std::pair<std::array<std::uint8_t, 16>, wire::ServiceId>> claims;
  std::optional<wire::Gid> refuses_claims_at{};
  std::set<wire::QpNumber> own_pairs{wire::QpNumber{0x11}};
  int attracted = 0;
  struct Asked {
    SubnetToken token{};
    Duration patience{};
    MadOctets octets{};
  };
  std::deque<Asked> asked;  // the subnet administration
  std::map<std::uint32_t, wire::Gid> nodes;
  std::optional<Error> subnet_refusal{};

 private:
  std::uint32_t next_token_ = 1;
  std::deque<SubnetAnswer> answers_;
  Network& network_;
  cm::Agent agent_;
  device::PortInfo port_;
  std::deque<device::PortChange> changes_;
  Device* reader_ = nullptr;
  std::mutex mutex_;
  bool is_held_ = false;
};

/// A queue pair that takes note of what is done to it.
class FakePair final : public PairControl {
 public:
  [[nodiscard]] bool has_pair() const noexcept override { return exists; }
  [[nodiscard]] Outcome make_ready(const Depths& depths) override {
    ++readied;
    last_depths = depths;
    return refusal ? Outcome(*refusal) : Outcome(Ok{});
  }
  Outcome enter_error() override {
    ++errors;
    return Ok{};
  }
  [[nodiscard]] Outcome attach(const wire::Gid& group) override {
    if (refusal) return *refusal;
    groups.insert(group.octets);
    return Ok{};
  }
  void detach(const wire::Gid& group) noexcept override { groups.erase(group.octets); }
  void await_data(wire::CommId communication) noexcept override { awaited = communication; }

  bool exists = true;
  std::optional<Error> refusal{};
  int readied = 0;
  int errors = 0;
  Depths last_depths{};
  std::set<std::array<std::uint8_t, 16>> groups;
  wire::CommId awaited{};
};

/// A host with one device. Routes lead out of its first address, neighbours are found when the test
/// says so, and ports without a number count up from 40000.
class FakeHost final : public System {
 public:
  FakeHost(Network& network, std::uint8_t slot, std::vector<wire::Gid> gids,
           const std::optional<device::FabricPort>& fabric = {})
      : first_(gids.empty() ? wire::Gid{} : gids.front()),
        services_(make_services(network, slot, std::move(gids), fabric)),
        device_(std::unique_ptr<Services>(services_), nullptr) {
    EXPECT_TRUE(queue.open());
  }

  [[nodiscard]] std::vector<Device*> devices() override {
    return has_devices ? std::vector<Device*>{&device_} : std::vector<Device*>{};
  }
  [[nodiscard]] Expected<IpEndpoint, Error> route_source(const IpEndpoint&,
                                                         const IpEndpoint& source) override {
    if (no_route) return *no_route;
    IpEndpoint from = source;
    if (from.is_any()) from.address = routes_from.value_or(first_);
    return from;
  }
  [[nodiscard]] bool is_local(const IpEndpoint& at) override { return at.address == gid(99); }
  [[nodiscard]] Expected<std::uint16_t, Error> take_port(wire::PortSpace) override {
    ++given_ports;
    return next_port_++;
  }
  void give_port_back(wire::PortSpace, std::uint16_t) noexcept override { --given_ports; }
  void seek_neighbour(Id& id, const Route& route, Duration patience) override {
    sought = {.id = &id, .route = route, .patience = patience};
    if (finds_neighbours) find(Ok{});
  }
  void stop_seeking(Id& id) noexcept override {
    if (sought.id == &id) sought = {};
  }

  // What the test does.
  void find(Outcome outcome) {
    Id* const id = std::exchange(sought.id, nullptr);
    ASSERT_NE(id, nullptr);
    id->finish_resolving(sought.route, outcome);
  }
  [[nodiscard]] FakeServices& services() { return *services_; }
  [[nodiscard]] Device& device() { return device_; }
  std::unique_ptr<Id> make_id(FakePair& pair, wire::PortSpace space = wire::PortSpace::kTcp) {
    auto id = std::make_unique<Id>(*this, queue, space);
    id->adopt(this, pair);
    return id;
  }
  /// The next event that the program would see, acknowledged; null when there is none.
  std::unique_ptr<Event> next_event() { return next_event(queue); }
  static std::unique_ptr<Event> next_event(EventQueue& from) {
    while (auto event = Id::take_event(from, [](Event&) {})) {
      const bool is_shown = Id::prepare(*event);
      Id::acknowledge(*event);
      if (is_shown) return event;
    }
    return nullptr;
  }
  std::unique_ptr<Event> expect(EventKind kind) {
    auto event = next_event();
    EXPECT_NE(event, nullptr) << "waiting for event " << static_cast<int>(kind);
    if (event != nullptr) {
      EXPECT_EQ(event->kind, kind);
    }
    return event;
  }

  struct Sought {
    Id* id = nullptr;
    Route route{};
    Duration patience{};
  };
  Sought sought{};
  bool finds_neighbours = true;
  bool has_devices = true;
  std::optional<Error> no_route{};
  std::optional<wire::Gid> routes_from{};
  int given_ports = 0;
  EventQueue queue;

 private:
  static FakeServices* make_services(Network& network, std::uint8_t slot,
                                     std::vector<wire::Gid> gids,
                                     const std::optional<device::FabricPort>& fabric) {
    auto* const made = new FakeServices(network, slot, std::move(gids));
    if (fabric) made->be_native(*fabric);
    return made;
  }

  wire::Gid first_;
  FakeServices* services_;
  Device device_;
  std::uint16_t next_port_ = 40000;
};

/// Two hosts, 10.0.0.1 and 10.0.0.2.
struct TwoHosts {
  Network network;
  FakeHost client{network, 1, {gid(1)}};
  FakeHost server{network, 2, {gid(2)}};

  /// Datagrams arrive until there are none.
  void deliver() {
    while (!network.on_the_way.empty()) {
      const cm::Datagram next = network.on_the_way.front();
      network.on_the_way.pop_front();
      for (FakeHost* host : {&client, &server}) {
        if (host->services().has(next.address.remote)) host->services().receive(next);
      }
    }
  }
  void lose_all() { network.on_the_way.clear(); }
  void pass_time(Duration time) {
    network.now = network.now + time;
    client.services().pass_time();
    server.services().pass_time();
  }

  static constexpr std::uint16_t kPort = 7471;
  static Id::Parameters parameters(std::span<const std::byte> private_data = {}) {
    return {.responder_resources = 4,
            .initiator_depth = 3,
            .retry_count = 7,
            .rnr_retry_count = 7,
            .qpn = wire::QpNumber{0x11},
            .private_data = private_data};
  }
  std::unique_ptr<Id> listener(FakePair& pair, wire::PortSpace space = wire::PortSpace::kTcp) {
    auto id = server.make_id(pair, space);
    EXPECT_TRUE(id->bind(endpoint(2, kPort)));
    EXPECT_TRUE(id->listen(8));
    return id;
  }
  std::unique_ptr<Id> resolved(FakePair& pair, wire::PortSpace space = wire::PortSpace::kTcp) {
    auto id = client.make_id(pair, space);
    EXPECT_TRUE(id->resolve_address({}, endpoint(2, kPort), 1s));
    client.expect(EventKind::kAddressResolved);
    EXPECT_TRUE(id->resolve_route());
    client.expect(EventKind::kRouteResolved);
    return id;
  }
  /// The id of the request that has arrived.
  std::unique_ptr<Id> requested(FakePair& pair) {
    auto event = server.expect(EventKind::kRequest);
    if (event == nullptr) return nullptr;
    event->made->adopt(&server, pair);
    return std::move(event->made);
  }
};

}  // namespace verbatim::connect::test

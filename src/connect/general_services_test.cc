// SPDX-License-Identifier: Apache-2.0
// The general services of processes behind one address. Each process is an adapter of this one.
#include "connect/general_services.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/clock.h"
#include "device/test_management.h"
#include "host/peer_watch.h"
#include "udp/test_network.h"

namespace verbatim::connect {
namespace {

using device::test::FakeManagement;
using device::test::kLoopbackAddress;

constexpr wire::ServiceId kService{0x0106'1c06};

/// One process: an adapter, and general services whose calls a test makes itself.
class TestProcess {
 public:
  TestProcess() {
    std::string message;
    EXPECT_TRUE(adapter.open(message).ok()) << message;
    auto& management = FakeManagement::of(adapter);
    services.emplace(management.parts());
    management.on_arrival = [this](const Arrival& arrival) { handle(arrival); };
    EXPECT_TRUE(services->open().ok());
  }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  void listen() {
    const std::lock_guard lock(adapter.mutex());
    EXPECT_TRUE(services->claim(kLoopbackAddress, kService).ok());
    EXPECT_TRUE(services->agent().listen({.service_id = kService}).ok());
  }
  /// Sends a request to kService at the common address.
  void connect() {
    const std::lock_guard lock(adapter.mutex());
    auto asked = services->agent().connect(
        device::now(), {.address = {.local = kLoopbackAddress, .remote = kLoopbackAddress},
                        .service_id = kService,
                        .qpn = wire::QpNumber{77}});
    EXPECT_TRUE(asked.ok());
    services->send();
  }
  [[nodiscard]] bool has_forwarded() const {
    pollfd readable{.fd = services->descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 0) == 1;
  }
  void take_forwarded() {
    const std::lock_guard lock(adapter.mutex());
    services->take_forwarded();
  }
  /// Lets the time pass until the next timer, for the timers alone.
  void run_next_timer() {
    const std::lock_guard lock(adapter.mutex());
    services->run_timer(services->next_deadline());
  }
  /// The kinds of the events that have come, oldest first.
  [[nodiscard]] std::vector<cm::AgentEventKind> events() {
    const std::lock_guard lock(adapter.mutex());
    (void)adapter.work().run(device::now());  // answers that were forwarded to this process
    std::vector<cm::AgentEventKind> kinds;
    while (auto event = services->agent().poll_event()) kinds.push_back(event->kind);
    return kinds;
  }

  device::Adapter adapter{device::test::loopback_port(), &FakeManagement::make};
  std::optional<GeneralServices> services;
  bool damages = false;  // the datagrams that arrive
  int arrivals = 0;      // datagrams

 private:
  using Arrival = device::ManagementPort::Arrival;

  void handle(const Arrival& arrival) {
    ++arrivals;
    if (!damages) return services->handle(arrival);
    std::vector<std::byte> octets(arrival.incoming.octets.begin(), arrival.incoming.octets.end());
    octets[octets.size() / 2] ^= std::byte{1};
    link::Incoming incoming = arrival.incoming;
    incoming.octets = octets;
    const auto packet = wire::PacketView::parse(incoming.octets);
    ASSERT_TRUE(packet);
    services->handle({.incoming = incoming,
                      .packet = *packet,
                      .seed = arrival.seed,
                      .was_forwarded = arrival.was_forwarded});
  }
};

using Kinds = std::vector<cm::AgentEventKind>;

TEST(GeneralServices, AreTheManagementPortOfAnAdapterThatTheyWereMadeFor) {
  device::Adapter adapter(device::test::loopback_port(), &GeneralServices::make);
  EXPECT_EQ(&GeneralServices::of(adapter), &adapter.management());
  device::Adapter other(device::test::loopback_port(), &FakeManagement::make);
  EXPECT_DEATH((void)GeneralServices::of(other), "maker");
}

TEST(GeneralServices, ARequestReachesTheProcessThatHoldsTheService) {
  link::test::in_a_private_network([] {
    TestProcess listener;
    TestProcess client;
    listener.listen();
    listener.take_forwarded();  // that the client is alive
    EXPECT_FALSE(listener.has_forwarded());
    client.connect();
    ASSERT_TRUE(listener.has_forwarded());
    listener.take_forwarded();
    EXPECT_EQ(listener.events(), (Kinds{cm::AgentEventKind::kConnectRequest}));
    EXPECT_EQ(client.arrivals, 0) << "it passes through no other process";
  });
}

TEST(GeneralServices, ARequestForAServiceThatNoProcessHoldsWaitsAndIsThenRefused) {
  link::test::in_a_private_network([] {
    TestProcess client;
    client.connect();
    // After 1, 2, 4, 8, 16, 32 and 64 ms.
    for (int looks = 0; looks < 6; ++looks) client.run_next_timer();
    EXPECT_TRUE(client.events().empty());
    client.run_next_timer();
    EXPECT_EQ(client.events(), (Kinds{cm::AgentEventKind::kRejected}));
  });
}

TEST(GeneralServices, ARequestThatWaitsReachesAListenerThatComes) {
  link::test::in_a_private_network([] {
    TestProcess listener;
    TestProcess client;
    client.connect();
    listener.listen();
    client.run_next_timer();
    listener.take_forwarded();
    EXPECT_EQ(listener.events(), (Kinds{cm::AgentEventKind::kConnectRequest}));
    EXPECT_TRUE(client.events().empty());
  });
}

TEST(GeneralServices, AServiceIsFreeForOthersWhenItsProcessLeaves) {
  link::test::in_a_private_network([] {
    TestProcess first;
    TestProcess second;
    first.listen();
    const std::lock_guard lock(second.adapter.mutex());
    EXPECT_EQ(second.services->claim(kLoopbackAddress, kService).error(), Errc::kAddressInUse);
    first.services->leave();
    EXPECT_TRUE(second.services->claim(kLoopbackAddress, kService).ok());
  });
}

// The next process in the slot opens the same name.
TEST(GeneralServices, TheirEndFreesTheNameThatShowsThatTheProcessIsAlive) {
  link::test::in_a_private_network([] {
    TestProcess process;
    const std::uint32_t slot = process.adapter.slot().number();
    const host::OwnDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    host::PeerWatch next;
    EXPECT_EQ(next.open(slot, epoll.number()).error(), Errc::kAddressInUse);
    process.services.reset();
    EXPECT_TRUE(next.open(slot, epoll.number()).ok());
  });
}

TEST(GeneralServices, NoticeTheEndOfAnotherProcess) {
  link::test::in_a_private_network([] {
    TestProcess stays;
    std::optional<TestProcess> goes(std::in_place);
    stays.take_forwarded();  // the connection of the process that came later
    EXPECT_FALSE(stays.has_forwarded());
    goes->services.reset();
    EXPECT_TRUE(stays.has_forwarded());
  });
}

TEST(GeneralServices, ADatagramWithAWrongChecksumIsIgnored) {
  link::test::in_a_private_network([] {
    TestProcess process;
    process.listen();
    process.damages = true;
    process.connect();
    process.take_forwarded();
    EXPECT_EQ(process.arrivals, 1);
    EXPECT_TRUE(process.events().empty());
    process.damages = false;
    process.connect();
    process.take_forwarded();
    EXPECT_EQ(process.events(), (Kinds{cm::AgentEventKind::kConnectRequest}));
  });
}

}  // namespace
}  // namespace verbatim::connect

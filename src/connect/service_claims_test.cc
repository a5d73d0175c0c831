// SPDX-License-Identifier: Apache-2.0
// Services that processes of one host hold against each other. Sockets of the port are not needed.
#include "connect/service_claims.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cstring>

#include "device/udp_network.h"
#include "host/own_descriptor.h"
#include "host/test_process.h"

namespace verbatim::connect {
namespace {

constexpr wire::Gid kAddress{.octets = {0xfd, 1}};
constexpr wire::Gid kOtherAddress{.octets = {0xfd, 2}};
constexpr wire::ServiceId kService{0x0106'1c06};

/// The claims of one process.
struct Holder {
  Holder() {
    auto claimed = host::Slot::claim();
    EXPECT_TRUE(claimed.ok());
    slot = std::move(*claimed);
  }
  [[nodiscard]] Status claim(const wire::Gid& address) noexcept {
    return claims.claim(address, kService, epoll.number());
  }
  [[nodiscard]] bool has_news() const {
    pollfd readable{.fd = epoll.number(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 0) == 1;
  }

  device::PortInfo port;
  host::Slot slot;
  device::UdpNetwork network;
  host::OwnDescriptor epoll{::epoll_create1(EPOLL_CLOEXEC)};
  ServiceClaims claims{{.port = port, .slot = slot, .network = network}};
};

/// Runs `body` with two processes, the first of which holds the service at kAddress.
template <typename Body>
void with_a_claim(Body&& body) {
  host::test::in_a_private_network([&] {
    Holder holder;
    Holder other;
    ASSERT_TRUE(holder.claim(kAddress).ok());
    body(holder, other);
  });
}

constexpr std::array<std::byte, 3> kMessage{std::byte{1}, std::byte{2}, std::byte{3}};

TEST(ServiceClaims, OneProcessHoldsAServiceAtAnAddress) {
  with_a_claim([](Holder& first, Holder& second) {
    EXPECT_TRUE(first.claims.holds(service_at(kAddress, kService)));
    const auto again = second.claim(kAddress);
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error(), Errc::kAddressInUse);
    EXPECT_FALSE(second.claims.holds(service_at(kAddress, kService)));
    EXPECT_TRUE(second.claim(kOtherAddress).ok());
  });
}

TEST(ServiceClaims, AServiceIsFreeAfterItsRelease) {
  with_a_claim([](Holder& first, Holder& second) {
    first.claims.release(kAddress, kService);
    EXPECT_FALSE(first.claims.holds(service_at(kAddress, kService)));
    EXPECT_EQ(first.claims.count(), 0U);
    EXPECT_TRUE(second.claim(kAddress).ok());
    second.claims.leave();
    EXPECT_TRUE(first.claim(kAddress).ok());
  });
}

// No thread would read the requests that other processes forward.
TEST(ServiceClaims, AServiceWhoseSocketsCannotBeWatchedIsNotHeld) {
  host::test::in_a_private_network([] {
    Holder holder;
    Holder other;
    holder.epoll.close();
    const auto refused = holder.claim(kAddress);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error(), Errc::kNoMemory);
    EXPECT_EQ(holder.claims.count(), 0U);
    EXPECT_TRUE(other.claim(kAddress).ok());
  });
}

TEST(ServiceClaims, AMessageThatWasForwardedIsTakenOnce) {
  with_a_claim([](Holder& holder, Holder& other) {
    std::array<std::byte, 256> room{};
    EXPECT_FALSE(holder.has_news());
    EXPECT_FALSE(holder.claims.take_forwarded(0, room));
    ASSERT_TRUE(host::ServiceName::forward(other.slot.descriptor(), service_at(kAddress, kService),
                                           kMessage));
    EXPECT_TRUE(holder.has_news());
    const auto taken = holder.claims.take_forwarded(0, room);
    ASSERT_TRUE(taken);
    ASSERT_EQ(taken->size(), kMessage.size());
    EXPECT_EQ(std::memcmp(taken->data(), kMessage.data(), kMessage.size()), 0);
    EXPECT_FALSE(holder.claims.take_forwarded(0, room));
  });
}

TEST(ServiceClaims, AMessageInTheBoxThatIsNoRequestForTheServiceIsDropped) {
  with_a_claim([](Holder& holder, Holder& other) {
    ASSERT_TRUE(host::RequestBox::hand_over(other.slot.descriptor(), service_at(kAddress, kService),
                                            kMessage));
    std::array<std::byte, 256> room{};
    const auto taken = holder.claims.take_forwarded(0, room);
    ASSERT_TRUE(taken);
    EXPECT_TRUE(taken->empty());
    EXPECT_FALSE(holder.claims.take_forwarded(0, room));
  });
}

TEST(ServiceClaims, AServiceThatIsAttractedStandsInTheDirectory) {
  with_a_claim([](Holder& holder, Holder& other) {
    const auto services_seen = [&] {
      return other.claims.read_directory(kAddress.octets).value().services;
    };
    EXPECT_TRUE(services_seen().empty());
    holder.claims.attract(kAddress, kService);
    ASSERT_EQ(services_seen().size(), 1U);
    EXPECT_EQ(services_seen().front().slot, holder.slot.number());
    holder.claims.release(kAddress, kService);
    EXPECT_TRUE(services_seen().empty());
  });
}

}  // namespace
}  // namespace verbatim::connect

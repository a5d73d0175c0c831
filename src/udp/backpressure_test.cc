// SPDX-License-Identifier: Apache-2.0
#include "udp/backpressure.h"

#include <gtest/gtest.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "udp/test_network.h"

namespace verbatim::link {
namespace {

using std::chrono::milliseconds;
using test::in_a_private_network;

constexpr int kBufferOctets = 64 << 10;  // the system makes it twice as much
constexpr std::size_t kPacketOctets = 1000;

Instant at(int ms) { return Instant::at(milliseconds(ms)); }

/// A process that can see how full its own socket is, as any other could.
class Backpressured {
 public:
  Backpressured() {
    std::string message;
    auto joined = port_.join(std::array{LocalAddress{.gid = test::ipv4(127, 0, 0, 1)}}, message);
    EXPECT_TRUE(joined) << message;
    if (joined) place_ = std::move(*joined);
    EXPECT_EQ(::setsockopt(socket(), SOL_SOCKET, SO_RCVBUF, &kBufferOctets, sizeof kBufferOctets),
              0);
  }
  /// While sockets are handed out every look finds no room. So a look counts that finds room, or
  /// that comes while the socket itself says that it is half full.
  [[nodiscard]] std::size_t room(Instant now, std::uint32_t beyond = 0) {
    constexpr int kLooksMax = 10'000;
    for (int looks = 0; looks < kLooksMax; ++looks) {
      const bool may_have_no_room = is_half_full();
      const std::size_t octets = backpressure_.room_at(
          {.address = place_.receivers[0].address, .slot = place_.slot.number() + beyond}, now);
      if (octets > 0 || may_have_no_room) return octets;
      std::this_thread::sleep_for(milliseconds(1));
    }
    ADD_FAILURE() << "no room at a socket that is not half full";
    return 0;
  }
  void send() {
    SocketAddress to{};
    const socklen_t octets = store_address(to, place_.receivers[0].address.gid, kRocePort, 0);
    const test::Octets packet(kPacketOctets);
    const int from = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::sendto(from, packet.data(), packet.size(), 0, &to.base, octets),
              static_cast<ssize_t>(packet.size()));
    ::close(from);
    ++sent_;
  }
  /// Sends until there is no room; whether that came before the socket was full.
  [[nodiscard]] bool fill_up(Instant now) {
    const auto most = sent_ + static_cast<int>(memory().limit / kPacketOctets);
    while (room(now) > 0 && sent_ < most) send();
    return sent_ < most;
  }
  int drain() {
    int count = 0;
    char nothing = 0;
    while (::recv(socket(), &nothing, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0) ++count;
    return count;
  }
  [[nodiscard]] int sent() const { return sent_; }
  [[nodiscard]] int socket() const { return place_.receivers[0].socket.descriptor(); }

 private:
  /// In the system's count.
  struct Memory {
    std::size_t used = 0;
    std::size_t limit = 0;
  };
  [[nodiscard]] Memory memory() const {
    std::array<std::uint32_t, SK_MEMINFO_VARS> values{};
    socklen_t octets = sizeof values;
    EXPECT_EQ(::getsockopt(socket(), SOL_SOCKET, SO_MEMINFO, values.data(), &octets), 0);
    return {.used = values[SK_MEMINFO_RMEM_ALLOC], .limit = values[SK_MEMINFO_RCVBUF]};
  }
  [[nodiscard]] bool is_half_full() const {
    const Memory now = memory();
    return now.used >= now.limit / 2;
  }

  SharedPort port_;
  SharedPort::Place place_;
  Backpressure backpressure_{port_};
  int sent_ = 0;
};

TEST(Backpressure, EndsBeforeAnythingIsLostAndWhenThereIsRoomAgain) {
  in_a_private_network([] {
    Backpressured receiver;
    ASSERT_TRUE(receiver.fill_up(at(0)));
    EXPECT_GT(receiver.sent(), 10);
    EXPECT_EQ(receiver.room(at(1)), 0U);
    EXPECT_EQ(receiver.drain(), receiver.sent()) << "all are there";
    EXPECT_GE(receiver.room(at(2)), Backpressure::charge({.packets = 1, .octets = kPacketOctets}));
  });
}

TEST(Backpressure, NeverGrantsMoreThanFits) {
  in_a_private_network([] {
    Backpressured receiver;
    for (int turn = 0; turn < 100; ++turn) {
      std::size_t room = receiver.room(at(0));
      if (room == 0) break;
      // Everything that the grant allows, at once.
      while (room > 0) {
        receiver.send();
        room -= std::min(room, Backpressure::charge({.packets = 1, .octets = kPacketOctets}));
      }
    }
    EXPECT_EQ(receiver.room(at(0)), 0U);
    EXPECT_EQ(receiver.drain(), receiver.sent());
  });
}

TEST(Backpressure, GivesUpAReceiverThatTakesNothingUntilItDoes) {
  in_a_private_network([] {
    Backpressured receiver;
    ASSERT_TRUE(receiver.fill_up(at(0)));
    const Instant patience_ends = at(0) + Backpressure::kPatience;
    ASSERT_GT(patience_ends, at(249));
    EXPECT_EQ(receiver.room(at(249)), 0U);
    EXPECT_GT(receiver.room(patience_ends), 0U) << "lost, as in a network";
    EXPECT_GT(receiver.room(patience_ends + milliseconds(1)), 0U) << "a sender waits once";
    EXPECT_GT(receiver.drain(), 0);
    EXPECT_GT(receiver.room(patience_ends + milliseconds(2)), 0U);
    ASSERT_TRUE(receiver.fill_up(patience_ends + milliseconds(3)));
    EXPECT_EQ(receiver.room(patience_ends + milliseconds(4)), 0U) << "it is waited for again";
  });
}

TEST(Backpressure, HoldsBackNoSenderToOtherReceivers) {
  in_a_private_network([] {
    Backpressured receiver;
    EXPECT_EQ(receiver.room(at(0), 1), Backpressure::kUnlimited) << "a slot without a process";
  });
}

}  // namespace
}  // namespace verbatim::link

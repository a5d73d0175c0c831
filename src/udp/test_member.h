// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "udp/shared_port.h"
#include "udp/test_network.h"
#include "udp/udp_table.h"

/// Processes that share the port. Nothing but tests includes this.
namespace verbatim::link::test {

using Step = SharedPort::Step;

inline const wire::Gid kHome = ipv4(127, 0, 0, 1);
inline const wire::Gid kSecond = ipv4(127, 0, 0, 2);

inline Octets packet_for(std::uint32_t slot, std::uint8_t number = 0) {
  Octets packet(24, std::byte{0});
  packet[5] = static_cast<std::byte>(slot);
  packet[7] = std::byte{0x11};
  packet[20] = static_cast<std::byte>(number);
  return packet;
}

inline void send_to(const wire::Gid& address, const Octets& packet) {
  SocketAddress to{};
  const socklen_t octets = store_address(to, address, kRocePort, 0);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::sendto(socket, packet.data(), packet.size(), 0, &to.base, octets),
            static_cast<ssize_t>(packet.size()));
  ::close(socket);
}

inline bool has_packet(const UdpSocket& socket, int patience_ms = kPatienceMs) {
  pollfd readable{.fd = socket.descriptor(), .events = POLLIN, .revents = 0};
  std::array<std::byte, 64> octets{};
  return ::poll(&readable, 1, patience_ms) == 1 &&
         ::recv(socket.descriptor(), octets.data(), octets.size(), MSG_DONTWAIT) > 0;
}

/// What one process does with the port.
struct Member {
  SharedPort port;
  std::string message;
  std::vector<LocalAddress> addresses{{.gid = kHome}};
  SharedPort::Options options{};
  SharedPort::Place place{};
  Status joined = Errc::kTryAgain;

  Status join() {
    auto result = port.join(addresses, message, options);
    joined = result ? Status(Ok{}) : Status(result.error());
    if (result) place = std::move(*result);
    return joined;
  }
  [[nodiscard]] std::uint32_t slot() const { return place.slot.number(); }
  /// Whether packets for the slot of this process reach it, at each of its addresses.
  [[nodiscard]] bool is_reachable() {
    for (ReceivingSocket& receiver : place.receivers) {
      send_to(receiver.address.gid, packet_for(slot()));
      if (!has_packet(receiver.socket)) return false;
    }
    return true;
  }
};

/// A process with one Member, told what to do through a pipe.
class MemberProcess {
 public:
  explicit MemberProcess(std::vector<LocalAddress> addresses = {{.gid = kHome}},
                         void (*at_step)(Step) = nullptr, std::optional<uid_t> user = {}) {
    EXPECT_EQ(::pipe2(questions_.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(answers_.data(), O_CLOEXEC), 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(questions_[0]);
      ::close(answers_[1]);
      return;
    }
    ::close(questions_[1]);
    ::close(answers_[0]);
    if (user && ::setresuid(*user, *user, *user) != 0) ::_exit(1);
    Member member;
    member.addresses = std::move(addresses);
    member.options.at_step = at_step;
    std::uint32_t answer = member.join() ? member.slot() : 1000;
    for (char question = 0;;) {
      if (::write(answers_[1], &answer, sizeof answer) != sizeof answer) break;
      if (::read(questions_[0], &question, 1) != 1) break;
      answer = member.is_reachable() ? 1 : 0;
    }
    ::_exit(0);
  }
  MemberProcess(const MemberProcess&) = delete;
  MemberProcess& operator=(const MemberProcess&) = delete;
  ~MemberProcess() {
    finish(SIGKILL);
    ::close(questions_[1]);
    ::close(answers_[0]);
  }

  /// Its slot, once it has one.
  std::uint32_t slot() {
    if (!slot_) slot_ = answer();
    return *slot_;
  }
  bool is_reachable() {
    (void)slot();
    return ::write(questions_[1], "?", 1) == 1 && answer() == 1;
  }
  void signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }
  void wait_until_stopped() const {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  void finish(int number = SIGKILL) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    pid_ = 0;
  }
  /// Waits for one that ends by itself.
  void join() {
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    pid_ = 0;
  }

 private:
  std::uint32_t answer() {
    std::uint32_t octets = 2000;
    pollfd readable{.fd = answers_[0], .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 6 * kPatienceMs) != 1) return 3000;
    EXPECT_EQ(::read(answers_[0], &octets, sizeof octets), static_cast<ssize_t>(sizeof octets));
    return octets;
  }

  std::array<int, 2> questions_{};
  std::array<int, 2> answers_{};
  pid_t pid_ = 0;
  std::optional<std::uint32_t> slot_;
};

inline std::size_t sockets_there_are() {
  return count_sockets({.gid = kHome}, kRocePort).value_or(999);
}

}  // namespace verbatim::link::test

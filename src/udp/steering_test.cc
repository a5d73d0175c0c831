// SPDX-License-Identifier: Apache-2.0
#include "udp/steering.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>

#include "udp/test_network.h"

namespace verbatim::link {
namespace {

using test::Octets;

/// Runs a program as the kernel does: a load beyond the packet ends it with 0.
std::uint32_t run(const std::vector<sock_filter>& program, const Octets& packet) {
  std::uint32_t accumulator = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    switch (step.code) {
      case BPF_LD | BPF_ABS | BPF_W:
      case BPF_LD | BPF_ABS | BPF_H:
      case BPF_LD | BPF_ABS | BPF_B: {
        const std::size_t size = BPF_SIZE(step.code) == BPF_W   ? 4
                                 : BPF_SIZE(step.code) == BPF_H ? 2
                                                                : 1;
        if (step.k + size > packet.size()) return 0;
        accumulator = 0;
        for (std::size_t i = 0; i < size; ++i) {
          accumulator = accumulator << 8 | std::to_integer<std::uint32_t>(packet[step.k + i]);
        }
        break;
      }
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= step.k;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == step.k ? step.jt : step.jf;
        break;
      case BPF_RET | BPF_K:
        return step.k;
      case BPF_RET | BPF_A:
        return accumulator;
      default:
        ADD_FAILURE() << "an instruction that no program should have: " << step.code;
        return 0;
    }
  }
  ADD_FAILURE() << "the program ran off its end";
  return 0;
}

Octets packet_to(std::uint32_t qp, std::size_t octets = 24) {
  Octets packet(octets, std::byte{0xee});
  packet[4] = std::byte{0xc0};  // congestion bits, beside the number
  packet[5] = static_cast<std::byte>(qp >> 16);
  packet[6] = static_cast<std::byte>(qp >> 8);
  packet[7] = static_cast<std::byte>(qp);
  return packet;
}

/// A management datagram for queue pair 1: the MAD begins at 20, its data at 44.
Octets datagram(std::uint8_t mgmt_class, unsigned attribute) {
  Octets packet = packet_to(1, 20 + 256 + 4);
  packet[21] = static_cast<std::byte>(mgmt_class);
  packet[36] = static_cast<std::byte>(attribute >> 8);
  packet[37] = static_cast<std::byte>(attribute);
  packet[44] = std::byte{0x0a};  // the ID of the sender, or of a SIDR request
  packet[48] = std::byte{0x0b};  // the ID of the receiver
  const std::array<std::uint8_t, 8> service = {0, 0, 0, 0, 1, 6, 0x12, 0x34};
  for (std::size_t i = 0; i < 8; ++i) packet[52 + i] = static_cast<std::byte>(service[i]);
  return packet;
}

TEST(Steering, ReadsTheSlotFromTheQueuePairNumber) {
  const auto program = steering_program({});
  for (const std::uint32_t slot : {0U, 1U, 63U, 255U}) {
    EXPECT_EQ(run(program, packet_to(slot << 16 | 0x1234)), slot);
  }
  EXPECT_EQ(run(program, packet_to(0x01'0001)), 1U) << "not the management queue pair";
}

TEST(Steering, SendsAnswersOfTheConnectionManagerToTheProcessThatAsked) {
  const auto program = steering_program({});
  for (const unsigned attribute : {0x11U, 0x12U, 0x13U, 0x14U, 0x15U, 0x16U, 0x19U, 0x1aU}) {
    EXPECT_EQ(run(program, datagram(7, attribute)), 0x0bU) << attribute;
  }
  EXPECT_EQ(run(program, datagram(7, 0x18)), 0x0aU) << "SIDR_REP carries the asker's ID first";
}

TEST(Steering, SendsRequestsToTheProcessThatListens) {
  const std::array<ServiceRoute, 3> routes = {{{.service = 0x0106'1233, .slot = 3},
                                               {.service = 0x0106'1234, .slot = 44},
                                               {.service = 0, .slot = 5}}};
  for (const unsigned attribute : {0x10U, 0x17U}) {
    EXPECT_EQ(run(steering_program({}), datagram(7, attribute)), 0U);
    EXPECT_EQ(run(steering_program(routes), datagram(7, attribute)), 44U);
  }
}

TEST(Steering, SendsUnknownPacketsToTheFirst) {
  const auto program = steering_program({});
  EXPECT_EQ(run(program, datagram(3, 0x13)), 0U) << "another class";
  EXPECT_EQ(run(program, packet_to(1)), 0U) << "too short for a datagram";
  EXPECT_EQ(run(program, Octets(3)), 0U);
  EXPECT_EQ(run(program, {}), 0U);
}

/// What the filter of a slot makes of a packet, which it sees with the UDP header in front.
bool admits(std::uint32_t slot, const Octets& packet) {
  Octets datagram(8, std::byte{0x0b});
  datagram.insert(datagram.end(), packet.begin(), packet.end());
  return run(slot_filter(slot), datagram) != 0;
}

TEST(SlotFilter, AdmitsWhatIsSteeredToTheSlot) {
  for (const std::uint32_t slot : {0x0aU, 0x0bU, 0xeeU}) {
    for (const std::uint32_t qp : {0x0a'0011U, 0x0b'0001U, 0xee'ffffU}) {
      EXPECT_EQ(admits(slot, packet_to(qp)), qp >> 16 == slot) << qp;
    }
    for (unsigned attribute = 0; attribute < 0x20; ++attribute) {
      const Octets packet = datagram(7, attribute);
      const bool is_request = attribute == 0x10 || attribute == 0x17;
      const bool expected = !is_request && run(steering_program({}, 0xee), packet) == slot;
      EXPECT_EQ(admits(slot, packet), expected) << attribute;
    }
  }
}

TEST(SlotFilter, AdmitsNoRequestsAndNothingThatItDoesNotKnow) {
  const std::uint32_t one = 1;
  Octets request = datagram(7, 0x10);
  request[44] = request[48] = std::byte{one};
  EXPECT_FALSE(admits(one, request));
  request[37] = std::byte{0x17};
  EXPECT_FALSE(admits(one, request));
  request[21] = std::byte{3};  // another class
  EXPECT_FALSE(admits(one, request));
  EXPECT_FALSE(admits(0, packet_to(1))) << "too short for a datagram";
  EXPECT_FALSE(admits(0, {}));
}

TEST(Steering, TheKernelTakesTheLargestProgram) {
  if (!test::has_socket_options()) GTEST_SKIP() << "the system does not know the options of a link";
  const std::vector<ServiceRoute> routes(2 * kServiceRoutesMax, {.service = 1, .slot = 2});
  auto socket = UdpSocket::open_receiver({.gid = test::own_address(0)}, kRocePort);
  ASSERT_TRUE(socket.ok());
  EXPECT_TRUE(socket->steer(routes));
}

}  // namespace
}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
// A requester writes the same packets many at a time as it writes one by one.
#include <gtest/gtest.h>

#include <vector>

#include "transport/rc/rc_requester.h"
#include "transport/rc/test_requester.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using wire::Psn;

constexpr std::uint32_t kTrain = 8;

/// One call: the packets that it wrote, with identification 0.
std::vector<Octets> poll_run(RequesterRig& rig, std::uint32_t packets_max = kTrain,
                             std::size_t open_octets = 0) {
  Octets frame(kTrain * wire::kMaxTransportOctets, std::byte{0xee});
  const std::uint16_t identification = open_octets != 0 ? 3 : 0;
  const auto part =
      rig.machine().poll_train(rig.now(), {.frame = frame,
                                           .identification = identification,
                                           .packet_octets = open_octets,
                                           .packets_left = open_octets != 0 ? kTrain - 3 : 0,
                                           .packets_max = packets_max,
                                           .octets_max = kTrain * wire::kMaxTransportOctets});
  std::vector<Octets> packets;
  if (part.octets == 0) return packets;
  EXPECT_EQ(part.octets % part.packets, 0U) << "packets of one call are equally long";
  EXPECT_LE(part.packets, packets_max);
  const std::size_t each = part.octets / part.packets;
  if (part.identification != 0) {
    EXPECT_LE(part.packets, kTrain - 3);
  }
  for (std::size_t i = 0; i < part.packets; ++i) {
    const auto packet = std::span(frame).subspan(i * each, each);
    const auto number = static_cast<std::uint16_t>(part.identification + i);
    EXPECT_EQ(wire::verify_icrc(test_path().seed, packet), number);
    wire::change_identification(packet, number, 0);
    packets.emplace_back(packet.begin(), packet.end());
  }
  return packets;
}

std::vector<Octets> drain_runs(RequesterRig& rig, std::uint32_t packets_max = kTrain) {
  std::vector<Octets> all;
  std::size_t open_octets = 0;
  while (true) {
    const auto run = poll_run(rig, packets_max, open_octets);
    if (run.empty()) return all;
    all.insert(all.end(), run.begin(), run.end());
    open_octets = open_octets == 0 ? run.back().size() : 0;  // sometimes a train is open
  }
}

/// Every call begins a train.
std::size_t count_in_trains(RequesterRig& rig) {
  std::size_t count = 0;
  while (true) {
    const std::size_t run = poll_run(rig).size();
    if (run == 0) return count;
    count += run;
  }
}

/// Two requesters with the same requests send the same packets.
void compare(const RcRequester::Config& config, SendOpcode opcode,
             const std::vector<std::uint32_t>& pieces) {
  std::vector<Octets> sent[2];
  for (int turn = 0; turn < 2; ++turn) {
    RequesterRig rig(config);
    rig.arena().scribble(0, Arena::kOctets);
    for (int message = 0; message < 3; ++message) {
      SendRequest request = rig.request(opcode, 0);
      request.flags = SendFlags::kSignaled | SendFlags::kSolicited;
      request.immediate = wire::Immediate{0x0403'0201};
      std::vector<memory::Sge> list;
      std::size_t at = 64 * static_cast<std::size_t>(message);
      for (const std::uint32_t piece : pieces) {
        list.push_back(rig.arena().sge(at, piece));
        at += piece + 64;  // pieces do not touch each other, unless one is empty
      }
      request.list = rig.list(list);
      // Equal addresses, so that equal packets have equal headers.
      ASSERT_TRUE(rig.post(request));
    }
    sent[turn] = drain_runs(rig, turn == 0 ? 1 : kTrain);
  }
  EXPECT_EQ(sent[0], sent[1]);
}

TEST(RcRequesterRun, WritesThePacketsThatItWritesOneByOne) {
  for (const SendOpcode opcode :
       {SendOpcode::kSend, SendOpcode::kSendImm, SendOpcode::kSendInvalidate, SendOpcode::kWrite,
        SendOpcode::kWriteImm}) {
    for (const std::uint32_t mtu : {256U, 1024U, 4096U}) {
      auto config = RequesterRig::defaults();
      config.path_mtu = mtu;
      config.window_packets = 512;
      for (const std::vector<std::uint32_t>& pieces : {std::vector{0U},
                                                       {1U},
                                                       {mtu},
                                                       {2 * mtu},
                                                       {3 * mtu},
                                                       {10 * mtu},
                                                       {10 * mtu + 5},
                                                       {4 * mtu, 4 * mtu},
                                                       {3 * mtu + 8, 3 * mtu - 8},
                                                       {mtu / 2, 5 * mtu, 0U, 3 * mtu + 7}}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(opcode) << " with " << pieces.size()
                     << " pieces, the first of " << pieces[0] << ", MTU " << mtu);
        compare(config, opcode, pieces);
      }
    }
  }
}

TEST(RcRequesterRun, WritesAsManyAtOnceAsATrainTakes) {
  RequesterRig rig;
  rig.post(SendOpcode::kWrite, 20 * 256);
  EXPECT_EQ(poll_run(rig).size(), 1U) << "the first names the address";
  EXPECT_EQ(poll_run(rig).size(), kTrain);
  EXPECT_EQ(poll_run(rig, kTrain, 272).size(), kTrain - 3) << "what the open train still takes";
  EXPECT_EQ(poll_run(rig, kTrain, 300).size(), 6U) << "a train of other packets does not matter";
  EXPECT_TRUE(poll_run(rig).empty());
  EXPECT_EQ(rig.counters().packets_sent, 20U);
}

TEST(RcRequesterRun, AsksForTheSameAcknowledgementsAsOneByOne) {
  for (const std::uint32_t window : {1U, 2U, 3U, 7U, 16U, 40U}) {
    auto config = RequesterRig::defaults();
    config.window_packets = window;
    std::vector<bool> asks[2];
    for (int turn = 0; turn < 2; ++turn) {
      RequesterRig rig(config);
      rig.post(SendOpcode::kSend, 30 * 256);
      for (const Octets& packet : drain_runs(rig, turn == 0 ? 1 : kTrain)) {
        asks[turn].push_back(wire::PacketView::parse(packet)->bth().ack_request());
      }
    }
    ASSERT_LE(asks[1].size(), asks[0].size());
    asks[0].resize(asks[1].size());  // the rest waits for a train
    EXPECT_EQ(asks[0], asks[1]) << "window " << window;
  }
}

TEST(RcRequesterRun, DoesNotContinueWithAShortTrainWhileTheWindowWillOpen) {
  auto config = RequesterRig::defaults();
  config.window_packets = 40;
  RequesterRig rig(config);
  rig.post(SendOpcode::kSend, 60 * 256);
  EXPECT_EQ(count_in_trains(rig), 40U) << "five whole trains";
  rig.answer(Operation::kAcknowledge, Psn(102));
  EXPECT_EQ(count_in_trains(rig), 0U) << "there is room for three";
  rig.answer(Operation::kAcknowledge, Psn(109));
  EXPECT_EQ(count_in_trains(rig), 8U) << "a train, and two must wait";
  EXPECT_EQ(poll_run(rig, kTrain, 272).size(), 0U) << "the open one would take five";
  rig.answer(Operation::kAcknowledge, Psn(112));
  EXPECT_EQ(poll_run(rig, kTrain, 272).size(), 5U) << "so it does";
  rig.answer(Operation::kAcknowledge, Psn(147));
  EXPECT_EQ(count_in_trains(rig), 7U) << "the end of the message need not be long";
}

TEST(RcRequesterRun, AWindowThatLossesHaveNarrowedIsUsed) {
  auto config = RequesterRig::defaults();
  config.window_packets = 8;  // less than a train
  RequesterRig rig(config);
  rig.post(SendOpcode::kSend, 60 * 256);
  EXPECT_EQ(count_in_trains(rig), 8U);
  rig.answer(Operation::kAcknowledge, Psn(100));
  EXPECT_EQ(count_in_trains(rig), 0U);
  rig.answer(Operation::kAcknowledge, Psn(101));
  EXPECT_EQ(count_in_trains(rig), 2U) << "a fourth part of the window is worth it";
}

TEST(RcRequesterRun, ARepeatEndsWhereSomethingNewBegins) {
  RequesterRig rig;
  rig.post(SendOpcode::kSend, 20 * 256);
  EXPECT_EQ(poll_run(rig).size(), 8U);
  rig.answer(Operation::kAcknowledge, Psn(102), {},
             wire::Syndrome::nak(wire::Syndrome::Nak::kSequence));
  EXPECT_EQ(poll_run(rig).size(), 6U) << "102 to 107 again";
  EXPECT_EQ(rig.counters().packets_resent, 6U);
  EXPECT_EQ(poll_run(rig).size(), 8U);
  EXPECT_EQ(rig.counters().packets_resent, 6U);
}

TEST(RcRequesterRun, MemoryThatAKeyDoesNotCoverFailsAsOneByOne) {
  RequesterRig rig;
  const auto half = rig.arena().region(memory::Access::kNone, 0, 5 * 256);
  SendRequest request = rig.request(SendOpcode::kSend, 0);
  request.list = rig.list({{.address = rig.arena().address(), .octets = 10 * 256, .lkey = half}});
  ASSERT_TRUE(rig.post(request));
  EXPECT_EQ(drain_runs(rig).size(), 5U) << "as far as the key goes";
  const auto completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::kLocalProtection);
}

}  // namespace
}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
// Which packets of a train a responder handles at once, and which it leaves to handle_request().
#include <gtest/gtest.h>

#include <vector>

#include "transport/rc/rc_responder.h"
#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using wire::Psn;

constexpr std::uint32_t kMtu = 256;
constexpr std::size_t kPacketOctets = wire::Bth::kSize + kMtu + wire::kIcrcSize;

/// Middle packets of one message that arrive together, numbered by the sender's kernel.
class Train {
 public:
  Train(Operation operation, std::uint32_t first_psn, std::size_t count, std::uint64_t seed = 3)
      : payload(octets_of(count * kMtu, seed)) {
    for (std::size_t i = 0; i < count; ++i) {
      auto headers = request_headers(wire::Transport::kRc, operation,
                                     Psn(first_psn + static_cast<std::uint32_t>(i)));
      headers.bth.ack_request = false;
      append(headers, std::span(payload).subspan(i * kMtu, kMtu));
    }
  }
  void append(const wire::PacketHeaders& headers, std::span<const std::byte> data) {
    const TestPacket packet(headers, data);
    octets.insert(octets.end(), packet.octets().begin(), packet.octets().end());
    const auto number = static_cast<std::uint16_t>(octets.size() / kPacketOctets - 1);
    wire::change_identification(packet_at(number), 0, number);
  }
  [[nodiscard]] std::span<std::byte> packet_at(std::size_t index) {
    return std::span(octets).subspan(index * kPacketOctets, kPacketOctets);
  }
  /// Changes a header and corrects the ICRC.
  void rewrite(std::size_t index, const auto& change) {
    auto headers = wire::PacketHeaders{};
    headers.bth = wire::BthView::parse(packet_at(index))->value();
    change(headers.bth);
    const auto data = packet_at(index).subspan(wire::Bth::kSize, kMtu);
    const TestPacket packet(headers, Octets(data.begin(), data.end()));
    ASSERT_EQ(packet.octets().size(), kPacketOctets);
    std::ranges::copy(packet.octets(), packet_at(index).begin());
    wire::change_identification(packet_at(index), 0, static_cast<std::uint16_t>(index));
  }
  std::size_t deliver(RcRig& rig, std::size_t packet_octets = kPacketOctets) {
    return rig.machine().handle_train({.octets = octets,
                                       .packet_octets = packet_octets,
                                       .identification = 0,
                                       .seed = &seed_,
                                       .source = {},
                                       .destination = {}},
                                      wire::PKey::kDefault);
  }

  Octets payload;
  Octets octets;

 private:
  wire::IcrcSeed seed_ = test_path().seed;
};

/// A WRITE of `octets` has begun: its first packet, 500, is in place.
void begin_write(RcRig& rig, std::uint32_t octets) {
  auto headers = rig.headers(Operation::kWriteFirst, 500, octets);
  headers.bth.ack_request = false;
  rig.deliver(headers, octets_of(kMtu, 99));
}
void begin_send(RcRig& rig) {
  auto headers = rig.headers(Operation::kSendFirst, 500);
  headers.bth.ack_request = false;
  rig.deliver(headers, octets_of(kMtu, 99));
}

TEST(RcResponderTrain, TakesTheMiddleOfAWrite) {
  RcRig rig;
  begin_write(rig, 10 * kMtu);
  Train train(Operation::kWriteMiddle, 501, 8);
  EXPECT_EQ(train.deliver(rig), 8U);
  EXPECT_EQ(rig.remote(kMtu, 8 * kMtu), train.payload);
  EXPECT_EQ(rig.state().expected_psn, Psn(509));
  EXPECT_EQ(rig.machine().counters().requests, 9U);
  EXPECT_TRUE(rig.drain().empty()) << "no packet asks for an acknowledgement";
  rig.deliver(Operation::kWriteLast, 509, octets_of(kMtu));
  EXPECT_EQ(rig.drain().size(), 1U);
  EXPECT_FALSE(rig.state().failed);
}

TEST(RcResponderTrain, TakesTheMiddleOfASendPieceByPiece) {
  RcRig rig;
  rig.post_receive(std::vector{rig.arena().sge(0, 3 * kMtu), rig.arena().sge(4096, kMtu + 8),
                               rig.arena().sge(8192, 20 * kMtu)});
  begin_send(rig);
  Train train(Operation::kSendMiddle, 501, 8);
  EXPECT_EQ(train.deliver(rig), 2U) << "what the first piece holds";
  EXPECT_EQ(rig.arena().copy(kMtu, 2 * kMtu),
            Octets(train.payload.begin(), train.payload.begin() + 2 * kMtu));
  Train more(Operation::kSendMiddle, 503, 5);
  EXPECT_EQ(more.deliver(rig), 1U);
  EXPECT_EQ(rig.arena().copy(4096, kMtu),
            Octets(more.payload.begin(), more.payload.begin() + kMtu));
  Train edge(Operation::kSendMiddle, 504, 5);
  EXPECT_EQ(edge.deliver(rig), 0U) << "the next packet lies in two pieces";
  auto across = rig.headers(Operation::kSendMiddle, 504);
  rig.deliver(across, std::span(edge.payload).first(kMtu));
  Train last(Operation::kSendMiddle, 505, 4);
  EXPECT_EQ(last.deliver(rig), 4U);
  rig.deliver(Operation::kSendLast, 509, octets_of(8));
  const auto completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].octets, 9 * kMtu + 8);
  EXPECT_EQ(rig.arena().copy(8192 + kMtu - 8, 4 * kMtu), last.payload);
}

TEST(RcResponderTrain, AcknowledgesTheLastThatAsked) {
  RcRig rig;
  begin_write(rig, 10 * kMtu);
  Train train(Operation::kWriteMiddle, 501, 8);
  for (const std::size_t index : {1U, 4U}) {
    train.rewrite(index, [](wire::Bth& bth) { bth.ack_request = true; });
  }
  EXPECT_EQ(train.deliver(rig), 8U);
  const auto answers = rig.drain();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].psn(), Psn(505));
}

TEST(RcResponderTrain, StopsAtTheFirstThatIsNotTheNextOfTheMessage) {
  const auto taken = [](const auto& spoil) {
    RcRig rig;
    begin_write(rig, 10 * kMtu);
    Train train(Operation::kWriteMiddle, 501, 8);
    spoil(train);
    const std::size_t count = train.deliver(rig);
    EXPECT_EQ(rig.state().expected_psn, Psn(501 + static_cast<std::uint32_t>(count)));
    EXPECT_EQ(rig.remote(kMtu, count * kMtu),
              Octets(train.payload.begin(),
                     train.payload.begin() + static_cast<std::ptrdiff_t>(count * kMtu)));
    EXPECT_TRUE(rig.drain().empty()) << "it says nothing about the others";
    return count;
  };
  EXPECT_EQ(taken([](Train& train) { train.packet_at(3)[100] ^= std::byte{1}; }), 3U);
  EXPECT_EQ(taken([](Train& train) { train.packet_at(0)[271] ^= std::byte{1}; }), 0U);
  const auto rewritten = [&](std::size_t index, const auto& change) {
    return taken([&](Train& train) { train.rewrite(index, change); });
  };
  EXPECT_EQ(rewritten(5, [](wire::Bth& bth) { bth.psn = bth.psn + 1; }), 5U);
  EXPECT_EQ(rewritten(0, [](wire::Bth& bth) { bth.psn = bth.psn - 1; }), 0U);
  EXPECT_EQ(rewritten(2, [](wire::Bth& bth) { bth.dest_qp = kPeerQp; }), 2U);
  EXPECT_EQ(rewritten(0, [](wire::Bth& bth) { bth.dest_qp = kPeerQp; }), 0U);
  EXPECT_EQ(rewritten(4, [](wire::Bth& bth) { bth.pkey = wire::PKey{0x8001}; }), 4U);
  EXPECT_EQ(rewritten(0, [](wire::Bth& bth) { bth.pkey = wire::PKey{0x8001}; }), 0U);
  const auto last = wire::opcode_of(wire::Transport::kRc, Operation::kWriteLast);
  EXPECT_EQ(rewritten(7, [&](wire::Bth& bth) { bth.opcode = last; }), 7U);
  const auto send = wire::opcode_of(wire::Transport::kRc, Operation::kSendMiddle);
  EXPECT_EQ(rewritten(0, [&](wire::Bth& bth) { bth.opcode = send; }), 0U);
}

TEST(RcResponderTrain, NeverCompletesAWriteNorGoesBeyondIt) {
  RcRig rig;
  begin_write(rig, 5 * kMtu);
  Train train(Operation::kWriteMiddle, 501, 8);
  EXPECT_EQ(train.deliver(rig), 3U) << "the fifth must be a last";
  EXPECT_EQ(rig.remote(4 * kMtu, 5 * kMtu), Octets(5 * kMtu)) << "untouched";
}

TEST(RcResponderTrain, TakesNothingWithoutAMessageThatIsArriving) {
  RcRig rig;
  Train train(Operation::kWriteMiddle, 500, 2);
  EXPECT_EQ(train.deliver(rig), 0U);
  EXPECT_FALSE(rig.state().failed) << "nor does it judge";
}

TEST(RcResponderTrain, TakesNothingOfAnotherLength) {
  RcRig rig;
  begin_write(rig, 10 * kMtu);
  Train train(Operation::kWriteMiddle, 501, 8);
  EXPECT_EQ(train.deliver(rig, kPacketOctets - 4), 0U);
  train.octets.resize(kPacketOctets - 1);
  EXPECT_EQ(train.deliver(rig), 0U) << "not one whole packet";
  train.octets.clear();
  EXPECT_EQ(train.deliver(rig), 0U);
}

TEST(RcResponderTrain, ARightThatWasTakenAwayCountsAtOnce) {
  RcRig rig;
  begin_write(rig, 10 * kMtu);
  rig.state().access = memory::Access::kRemoteRead;
  Train train(Operation::kWriteMiddle, 501, 8);
  EXPECT_EQ(train.deliver(rig), 0U);
  rig.state().access = memory::Access::kRemoteWrite;
  ASSERT_TRUE(rig.arena().registry().deregister_region(rig.arena().key()));
  EXPECT_EQ(train.deliver(rig), 0U);
  rig.deliver(Operation::kWriteMiddle, 501, octets_of(kMtu));
  EXPECT_TRUE(rig.state().failed) << "one by one it is refused";
}

TEST(RcResponderTrain, ATrainWithTheMissingPacketsCancelsTheNak) {
  RcRig rig;
  begin_write(rig, 10 * kMtu);
  rig.deliver(Operation::kWriteMiddle, 503, octets_of(kMtu));  // owes a NAK for 501
  Train train(Operation::kWriteMiddle, 501, 4);
  EXPECT_EQ(train.deliver(rig), 4U);
  EXPECT_TRUE(rig.drain().empty());
}

}  // namespace
}  // namespace verbatim::transport

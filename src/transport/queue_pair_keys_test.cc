// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "transport/queue_pair_machine.h"
#include "transport/test_queue_pair.h"

namespace verbatim::transport::test {
namespace {

using wire::Operation;

/// Two ends of one connection, or two that exchange datagrams.
struct Pair {
  explicit Pair(QpType type) : a({.type = type, .index = 0}), b({.type = type, .index = 1}) {}
  void connect() {
    a.connect(b);
    b.connect(a);
  }
  TestEnd a;
  TestEnd b;
};

wire::PacketHeaders headers_of_a_request() {
  wire::PacketHeaders headers;
  headers.bth.ack_request = true;
  headers.deth = {.qkey = wire::QKey{0x1111}, .source_qp = wire::QpNumber{0x12}};
  return headers;
}

TEST(QueuePairKeys, DropsWhatIsOfAnotherPartition) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    Pair pair(type);
    pair.connect();
    ASSERT_TRUE(pair.a.post_receive(1).ok());
    auto headers = headers_of_a_request();
    headers.bth.pkey = wire::PKey{0x8001};
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongPartition), 1U);
    headers.bth.pkey = wire::PKey{0x7fff};  // a limited member of the same partition
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_EQ(pair.a.qp().receiver().dropped(PacketDrop::kWrongPartition), 1U);
    EXPECT_EQ(pair.a.receives().size(), 1U);
  }
}

TEST(QueuePairKeys, TellsOncePerPacketOfAWrongKey) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    Pair pair(type);
    pair.connect();
    ASSERT_TRUE(pair.a.post_receive(1).ok());
    auto headers = headers_of_a_request();
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_EQ(pair.a.qp().take_key_violation(), std::nullopt);
    headers.deth.qkey = wire::QKey{0x7777};
    headers.bth.pkey = wire::PKey{0x8001};
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_EQ(pair.a.qp().take_key_violation(), KeyViolation::kPKey) << "it is looked at first";
    EXPECT_EQ(pair.a.qp().take_key_violation(), std::nullopt);
    if (type != QpType::kUd) continue;
    headers.bth.pkey = wire::PKey::kDefault;
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_EQ(pair.a.qp().take_key_violation(), KeyViolation::kQKey);
  }
}

TEST(QueuePairKeys, UsesAnotherPartitionFromNowOn) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    Pair pair(type);
    pair.connect();
    constexpr wire::PKey kOther{0x8002};
    pair.a.qp().use_pkey(kOther);
    EXPECT_EQ(pair.a.qp().attributes().pkey, kOther);
    ASSERT_TRUE(pair.a.post_send(1).ok());
    const auto sent = pair.a.transmit();
    ASSERT_TRUE(sent);
    EXPECT_EQ(wire::PacketView::parse(sent->octets())->bth().pkey(), kOther);
    ASSERT_TRUE(pair.a.post_receive(1).ok());
    auto headers = headers_of_a_request();
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_TRUE(pair.a.receives().empty());
    headers.bth.pkey = kOther;
    pair.a.handle(pair.a.packet(Operation::kSendOnly, headers));
    EXPECT_EQ(pair.a.receives().size(), 1U);
  }
}

}  // namespace
}  // namespace verbatim::transport::test

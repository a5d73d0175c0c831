// SPDX-License-Identifier: Apache-2.0
// A packet that is discarded is counted once, by the check that refused it: the counters of an
// adapter show what attackers send.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "connect/general_services.h"
#include "device/adapter_registry.h"
#include "device/config.h"
#include "device/queue_pair.h"
#include "host/adapter_guard.h"
#include "stranger.h"

namespace verbatim::testing {
namespace {

using device::Adapter;
using transport::QpMask;
using transport::QpState;
using wire::Operation;
using wire::Transport;

constexpr std::chrono::seconds kPatience{30};
constexpr std::uint32_t kQKey = 0x11111111;
constexpr std::uint32_t kPsn = 500;
constexpr std::size_t kReceiveOctets = 64;
// The address of the connection's peer; no process is there.
constexpr std::uint32_t kPeerAddress = INADDR_LOOPBACK + 2;

using Counts = std::map<std::string, std::uint64_t>;

class AdapterHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string message;
    const auto config = device::read_config(message);
    ASSERT_TRUE(config.ok()) << message;
    const auto ports = device::find_ports(*config);
    ASSERT_EQ(ports.size(), 1U);
    auto opened = device::open_adapter(ports[0], &connect::GeneralServices::make, message);
    ASSERT_TRUE(opened.ok()) << message;
    adapter = *opened;
    const auto& gids = adapter->port().gids;
    while (!gids[gid_index].gid.is_ipv4_mapped()) ASSERT_LT(++gid_index, gids.size());
    {
      const std::lock_guard lock(adapter->mutex());
      domain = *adapter->domains().open();
    }
    queue = std::move(*device::CompletionQueue::create(adapter, 64, nullptr, nullptr, 0));
    connection = make_qp(transport::QpType::kRc);
    datagrams = make_qp(transport::QpType::kUd);
    unconnected = make_qp(transport::QpType::kRc);
    start(*connection, QpMask::kAccess,
          QpMask::kAddress | QpMask::kPathMtu | QpMask::kDestQp | QpMask::kReceivePsn |
              QpMask::kMaxDestReadAtomic | QpMask::kMinRnrTimer);
    start(*datagrams, QpMask::kQKey, QpMask::kNone);
    ASSERT_TRUE(near.is_ready() && elsewhere.is_ready());
  }
  void TearDown() override {
    connection.reset();
    datagrams.reset();
    unconnected.reset();
    queue.reset();
    const std::lock_guard lock(adapter->mutex());
    EXPECT_TRUE(adapter->domains().close(domain).ok());
  }

  std::unique_ptr<device::QueuePair> make_qp(transport::QpType type) {
    return std::move(*device::QueuePair::create(adapter, {.type = type,
                                                          .domain = domain,
                                                          .send_depth = 4,
                                                          .receive_depth = 4,
                                                          .send_sges = 1,
                                                          .receive_sges = 1,
                                                          .send_cq = queue.get(),
                                                          .receive_cq = queue.get()}));
  }
  void start(device::QueuePair& qp, QpMask of_init, QpMask of_rtr) {
    transport::QpAttributes wanted;
    wanted.qkey = wire::QKey{kQKey};
    wanted.access = memory::Access::kRemoteWrite | memory::Access::kRemoteRead;
    wanted.receive_psn = wire::Psn(kPsn);
    wanted.dest_qp = wire::QpNumber{0x3333};
    wanted.path_mtu = wire::PathMtu::k1024;
    wanted.max_dest_read_atomic = 4;
    const Adapter::Destination to{.gid_index = gid_index, .gid = Stranger::gid_of(kPeerAddress)};
    wanted.state = QpState::kInit;
    ASSERT_TRUE(
        qp.modify(QpMask::kState | QpMask::kPKeyIndex | QpMask::kPort | of_init, wanted, &to).ok());
    wanted.state = QpState::kReadyToReceive;
    ASSERT_TRUE(qp.modify(QpMask::kState | of_rtr, wanted, &to).ok());
  }

  /// All counters that are not zero, by name.
  Counts counts() {
    const std::lock_guard lock(adapter->mutex());
    Counts all;
    const auto& counters = adapter->layout().adapter().counters;
    for (std::size_t i = 0; i < wire::kWireErrorCount; ++i) {
      all[name_of(wire::WireError(static_cast<std::uint8_t>(i)))] = counters.malformed[i];
    }
    all["unknown queue pair"] = counters.unknown_qp;
    all["forwarded"] = counters.forwarded;
    all["memory fault"] = counters.memory_faults;
    all["overlong"] = adapter->link().counters().overlong;
    static constexpr const char* kDrops[] = {"state", "service", "source", "partition"};
    for (device::QueuePair* qp : {connection.get(), datagrams.get(), unconnected.get()}) {
      for (std::size_t i = 0; i < transport::kPacketDropCount; ++i) {
        all[kDrops[i]] +=
            qp->machine().receiver().dropped(transport::PacketDrop(static_cast<std::uint8_t>(i)));
      }
    }
    const auto& rc = connection->machine().receiver().rc().counters();
    all["duplicate"] = rc.duplicates;
    all["out of sequence"] = rc.out_of_sequence;
    all["not ready"] = rc.not_ready;
    all["refused"] = rc.refused;
    const auto& ud = datagrams->machine().receiver().ud().counters();
    all["Q_Key"] = ud.wrong_qkey;
    all["no receive"] = ud.no_receive;
    all["too long"] = ud.too_long;
    std::erase_if(all, [](const auto& entry) { return entry.second == 0; });
    return all;
  }

  /// Sends one packet; exactly this counter must change.
  void expect(const char* what, const Packet& packet, const Stranger& sender) {
    Counts expected = counts();
    ++expected[what];
    const Counts before = counts();
    sender.send(packet);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (counts() == before && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_EQ(counts(), expected) << "for a packet that is to count as: " << what;
  }
  void expect(const char* what, const Packet& packet) { expect(what, packet, near); }

  wire::PacketHeaders headers_for(const device::QueuePair& qp, Transport transport,
                                  Operation operation, std::uint32_t psn = kPsn) {
    wire::PacketHeaders headers =
        near.some_headers(transport, static_cast<std::uint32_t>(qp.number()), psn);
    headers.bth.opcode = opcode_of(transport, operation);
    headers.deth.qkey = wire::QKey{kQKey};
    return headers;
  }
  void post_receive(device::QueuePair& qp) {
    device::QueuePair::Posting posting(qp, device::QueuePair::Posting::Of::kReceives);
    const memory::Sge place{.address = reinterpret_cast<std::uintptr_t>(memory.data()),
                            .octets = kReceiveOctets,
                            .lkey = {}};
    ASSERT_TRUE(posting.receive({.wr_id = 1, .list = std::span(&place, 1)}).ok());
  }

  std::shared_ptr<Adapter> adapter;
  std::uint32_t gid_index = 0;
  memory::DomainId domain = memory::DomainId::kNone;
  std::unique_ptr<device::CompletionQueue> queue;
  std::unique_ptr<device::QueuePair> connection;
  std::unique_ptr<device::QueuePair> datagrams;
  std::unique_ptr<device::QueuePair> unconnected;
  std::array<std::byte, kReceiveOctets> memory{};
  Stranger near{kPeerAddress};
  Stranger elsewhere{INADDR_LOOPBACK + 1, 2};
};

TEST_F(AdapterHostile, WhatIsNoPacketIsCountedByItsFault) {
  const auto headers = headers_for(*connection, Transport::kRc, Operation::kWriteOnly);
  const Packet good = near.make(headers, 16);
  for (std::size_t octets = 0; octets < 32; octets += 4) {
    Packet cut = good;
    cut.resize(octets);
    near.seal(cut);
    expect("truncated", cut);
  }
  Packet version = good;
  version[1] |= std::byte{1};
  near.seal(version);
  expect("bad version", version);
  for (const int reserved : {0x15, 0x18, 0x1f, 0x5f, 0xc0, 0xff}) {
    Packet opcode = good;
    opcode[0] = std::byte{static_cast<std::uint8_t>(reserved)};
    near.seal(opcode);
    expect("unknown opcode", opcode);
  }
  Packet odd = good;
  odd.push_back(std::byte{0});
  near.seal(odd);
  expect("bad padding", odd);
  Packet loaded = near.make(headers_for(*connection, Transport::kRc, Operation::kAcknowledge));
  loaded.resize(loaded.size() + 8);
  near.seal(loaded);
  expect("unexpected payload", loaded);
  Packet spoilt = good;
  spoilt.back() ^= std::byte{1};
  expect("bad checksum", spoilt);
  expect("overlong", near.noise(9000));
}

TEST_F(AdapterHostile, PacketsForUnknownQueuePairsAreCounted) {
  auto headers = headers_for(*connection, Transport::kRc, Operation::kSendOnly);
  const auto own = static_cast<std::uint32_t>(connection->number());
  headers.bth.dest_qp = wire::QpNumber{own ^ 0x8000};
  expect("unknown queue pair", near.make(headers));
  headers.bth.dest_qp = wire::QpNumber::kMulticast;
  expect("unknown queue pair", near.make(headers));
  headers.bth.dest_qp = wire::QpNumber{own ^ 0x070000};  // of a process that does not exist
  expect("forwarded", near.make(headers));
}

TEST_F(AdapterHostile, AQueuePairCountsWhatIsNotForIt) {
  auto headers = headers_for(*connection, Transport::kRc, Operation::kSendOnly);
  expect("source", elsewhere.make(headers, 8), elsewhere);
  headers.bth.pkey = wire::PKey{0x8001};
  expect("partition", near.make(headers, 8));
  expect("service", near.make(headers_for(*connection, Transport::kUc, Operation::kSendOnly), 8));
  expect("service", near.make(headers_for(*datagrams, Transport::kRc, Operation::kSendOnly), 8));
  expect("state", near.make(headers_for(*unconnected, Transport::kRc, Operation::kSendOnly), 8));
}

TEST_F(AdapterHostile, AConnectionCountsWhatItRefuses) {
  const auto send = [&](std::uint32_t psn) {
    return near.make(headers_for(*connection, Transport::kRc, Operation::kSendOnly, psn), 8);
  };
  expect("out of sequence", send(kPsn + 1));
  expect("out of sequence", send(kPsn + 0x7fffff));
  expect("duplicate", send(kPsn - 1));
  expect("duplicate", send((kPsn - 0x7fffff) & 0xffffff));
  expect("not ready", send(kPsn));
  expect("refused",
         near.make(headers_for(*connection, Transport::kRc, Operation::kWriteMiddle), 1024));
  expect("state", send(kPsn));  // the connection is over
}

TEST_F(AdapterHostile, ADatagramQueueCountsWhatItRefuses) {
  auto headers = headers_for(*datagrams, Transport::kUd, Operation::kSendOnly);
  expect("no receive", near.make(headers, 8));
  post_receive(*datagrams);
  expect("too long", near.make(headers, kReceiveOctets));
  headers.deth.qkey = wire::QKey{kQKey + 1};
  expect("Q_Key", near.make(headers, 8));
}

TEST_F(AdapterHostile, WhatIsRefusedAnywayDoesNotWaitForAReceive) {
  auto refused = headers_for(*datagrams, Transport::kUd, Operation::kSendOnly);
  refused.deth.qkey = wire::QKey{kQKey + 1};
  auto unknown = refused;
  unknown.bth.dest_qp = wire::QpNumber{static_cast<std::uint32_t>(datagrams->number()) ^ 0x8000};
  Counts expected = counts();
  ++expected["Q_Key"];
  ++expected["unknown queue pair"];
  near.send(near.make(refused, 8));
  near.send(near.make(unknown, 8));  // when this was counted, the other has been handled
  const auto end = std::chrono::steady_clock::now() + kPatience;
  Counts seen = counts();
  while (!seen.contains("unknown queue pair") && std::chrono::steady_clock::now() < end) {
    seen = counts();
  }
  EXPECT_EQ(seen, expected);
  const host::AdapterGuard lock(adapter->mutex());
  EXPECT_EQ(datagrams->waiting_packets().count, 0);
}

}  // namespace
}  // namespace verbatim::testing

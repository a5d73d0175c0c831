// SPDX-License-Identifier: Apache-2.0
// Unreliable services: what arrives is what was sent; nothing else is promised.
#include <map>

#include "test_cluster.h"
#include "wire/headers/packet.h"

namespace verbatim::sim {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kHistories = 60;

/// How many copies of the packet that ends each message the network has carried, by its immediate.
class Copies : public Observer {
 public:
  void handle_frame(Instant, const NetworkFrame& frame, Fate fate) override {
    const auto packet = wire::PacketView::parse(frame.octets);
    if (!packet || !packet->info().has(wire::OpcodeInfo::kImmDt)) return;
    const bool arrives = fate == Fate::kDelivered || fate == Fate::kDuplicated ||
                         fate == Fate::kCorrupted;  // whose other copy may be whole
    if (!arrives) return;
    counts_[static_cast<std::uint32_t>(packet->imm_dt().immediate)] +=
        fate == Fate::kDuplicated ? 2 : 1;
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t immediate) { return counts_[immediate]; }

 private:
  std::map<std::uint32_t, std::uint32_t> counts_;
};

Faults random_faults(Prng& prng) {
  Faults faults{.delay = microseconds(5)};
  if (prng.one_in(4)) return faults;
  if (prng.one_in(2)) faults.loss_per_mille = static_cast<unsigned>(prng.below(200));
  if (prng.one_in(2)) faults.duplicate_per_mille = static_cast<unsigned>(prng.below(200));
  if (prng.one_in(2)) faults.corrupt_per_mille = static_cast<unsigned>(prng.below(100));
  if (prng.one_in(2)) faults.jitter = microseconds(prng.below(20));
  return faults;
}

bool is_harmless(const Faults& faults) {
  return faults.loss_per_mille == 0 && faults.duplicate_per_mille == 0 &&
         faults.corrupt_per_mille == 0 && faults.jitter == Duration{0};
}

/// SENDs and WRITEs with immediate over one unreliable connection; the immediate is the number.
void check_unreliable_connection(std::uint64_t seed) {
  constexpr std::uint32_t kMessages = 50;
  constexpr std::uint32_t kReceives = 4 * kMessages;  // more than copies
  constexpr std::size_t kMaxOctets = 5000;
  Prng prng(seed);
  const Faults faults = random_faults(prng);
  Copies copies;
  Cluster cluster(faults, prng.next(), &copies);
  add_endpoints(cluster, 2);
  Endpoint& from = cluster.endpoint(0);
  Endpoint& to = cluster.endpoint(1);
  for (Endpoint* endpoint : {&from, &to}) {
    (void)endpoint->create_qp({.type = QpType::kUc,
                               .send_depth = kMessages,
                               .receive_depth = kReceives,
                               .receive_cq = kReceiveCq});
  }
  const wire::Psn first_psn(wire::Psn::kMask - static_cast<std::uint32_t>(prng.below(60)));
  connect(from, 0, to, 0, {.mtu = wire::PathMtu::k1024, .psn_of_first = first_psn});

  Buffer source(from, kMessages * kMaxOctets);
  Buffer target(to, kMessages * kMaxOctets, kEverything);
  Buffer receives(to, kReceives * kMaxOctets);
  fill_random(source.octets, prng);
  for (std::uint64_t i = 0; i < kReceives; ++i) {
    const memory::Sge sge = receives.at(i * kMaxOctets, kMaxOctets);
    ASSERT_TRUE(to.qp(0).post_receive({.wr_id = i, .list = {&sge, 1}}).ok());
  }
  std::vector<std::size_t> lengths;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    lengths.push_back(prng.one_in(2) ? prng.below(1025) : prng.below(kMaxOctets + 1));
    const memory::Sge sge = source.at(i * kMaxOctets, lengths[i]);
    ASSERT_TRUE(from.qp(0)
                    .post_send({.wr_id = i,
                                .opcode = i % 3 == 0 ? SendOpcode::kWriteImm : SendOpcode::kSendImm,
                                .flags = SendFlags::kSignaled,
                                .list = {&sge, 1},
                                .remote_address = target.address + i * kMaxOctets,
                                .rkey = target.key,
                                .immediate = wire::Immediate{i}})
                    .ok());
  }
  run_until_quiet(cluster);

  const auto sent = collect(from, kSendCq);
  ASSERT_EQ(sent.size(), kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(sent[i].status, WcStatus::kSuccess);  // sent is done
  }
  const auto received = collect(to, kReceiveCq);
  EXPECT_TRUE(!is_harmless(faults) || received.size() == kMessages);
  std::vector<std::uint32_t> seen(kMessages);
  std::uint32_t previous = 0;
  for (std::size_t i = 0; i < received.size(); ++i) {
    const Completion& completion = received[i];
    ASSERT_EQ(completion.status, WcStatus::kSuccess);
    ASSERT_EQ(completion.wr_id, i);  // a lost message leaves its receive to the next
    const std::uint32_t number = completion.imm_or_key;
    ASSERT_LT(number, kMessages);
    ASSERT_EQ(completion.octets, lengths[number]);
    const auto expected = source.octets.subspan(number * kMaxOctets, lengths[number]);
    const std::size_t place = number % 3 == 0 ? number * kMaxOctets : i * kMaxOctets;
    const Buffer& where = number % 3 == 0 ? target : receives;
    EXPECT_TRUE(std::ranges::equal(where.octets.subspan(place, lengths[number]), expected));
    EXPECT_LE(++seen[number], copies.of(number)) << "the network did not duplicate it";
    EXPECT_TRUE(faults.jitter > Duration{0} || number >= previous) << "nor reorder it";
    previous = number;
  }
  EXPECT_TRUE(to.guards_are_intact());
  EXPECT_EQ(to.qp(0).machine().state(), QpState::kReadyToSend);
}

TEST(Unreliable, EveryMessageOfAConnectionArrivesWholeOrNotAtAll) {
  for (std::uint64_t seed = 1; seed <= kHistories && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check_unreliable_connection(seed);
  }
}

/// Datagrams between several endpoints, from each to any. The immediate names the datagram.
class Datagrams {
 public:
  static constexpr std::size_t kEndpoints = 4;
  static constexpr std::uint32_t kPerEndpoint = 40;
  static constexpr std::size_t kReceives = 400;
  static constexpr std::size_t kShort = 600;  // some receives are too short for some datagrams
  static constexpr std::size_t kLong = 4096;
  static constexpr wire::QKey kQKey{0x1234};

  explicit Datagrams(std::uint64_t seed)
      : prng_(seed), faults_(random_faults(prng_)), cluster_(faults_, prng_.next(), &copies_) {
    add_endpoints(cluster_, kEndpoints);
    for (std::size_t i = 0; i < kEndpoints; ++i) {
      Endpoint& endpoint = cluster_.endpoint(i);
      (void)endpoint.create_qp({.type = QpType::kUd,
                                .send_depth = kPerEndpoint,
                                .receive_depth = kReceives,
                                .receive_cq = kReceiveCq});
      ready_datagrams(endpoint, 0, kQKey);
      sources_.emplace_back(endpoint, kPerEndpoint * kLong);
      fill_random(sources_.back().octets, prng_);
      receives_.emplace_back(endpoint, kReceives * (kLong + transport::kGrhOctets));
      post_receives(i);
    }
  }

  void run() {
    for (std::size_t i = 0; i < kEndpoints; ++i) {
      for (std::uint32_t n = 0; n < kPerEndpoint; ++n) post_datagram(i, n);
    }
    run_until_quiet(cluster_);
    for (std::size_t i = 0; i < kEndpoints; ++i) check(i);
  }

 private:
  struct Datagram {
    std::size_t from;
    std::size_t to;
    std::span<const std::byte> data;
    bool is_welcome;  // has the right key
  };

  /// The first few are short: a datagram that does not fit must leave them to another.
  void post_receives(std::size_t i) {
    for (std::uint64_t n = 0; n < kReceives; ++n) {
      const std::size_t octets = transport::kGrhOctets + (n % 8 == 0 ? kShort : kLong);
      const memory::Sge sge = receives_[i].at(n * (kLong + transport::kGrhOctets), octets);
      ASSERT_TRUE(cluster_.endpoint(i).qp(0).post_receive({.wr_id = n, .list = {&sge, 1}}).ok());
    }
  }

  void post_datagram(std::size_t i, std::uint32_t n) {
    Endpoint& from = cluster_.endpoint(i);
    const std::size_t to = prng_.below(kEndpoints);
    const std::size_t octets = prng_.one_in(8) ? prng_.below(kLong + 1) : prng_.below(kShort + 1);
    const bool is_welcome = !prng_.one_in(6);
    const memory::Sge sge = sources_[i].at(n * kLong, octets);
    const auto path = from.path_to(cluster_.endpoint(to).address(), from.number_of(0),
                                   cluster_.endpoint(to).number_of(0));
    const auto name = static_cast<std::uint32_t>(all_.size());
    ASSERT_TRUE(from.qp(0)
                    .post_send({.wr_id = n,
                                .opcode = SendOpcode::kSendImm,
                                .list = {&sge, 1},
                                .immediate = wire::Immediate{name},
                                .path = &path,
                                .remote_qp = cluster_.endpoint(to).number_of(0),
                                .remote_qkey = is_welcome ? kQKey : wire::QKey{0x4321}})
                    .ok());
    all_.push_back({i, to, sources_[i].octets.subspan(n * kLong, octets), is_welcome});
  }

  void check(std::size_t i) {
    Endpoint& endpoint = cluster_.endpoint(i);
    EXPECT_TRUE(collect(endpoint, kSendCq).empty());  // unsignaled
    EXPECT_TRUE(endpoint.qp(0).machine().has_no_sends());
    std::uint64_t next = 0;
    for (const Completion& completion : collect(endpoint, kReceiveCq)) {
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      ASSERT_EQ(completion.wr_id, next++);
      ASSERT_LT(completion.imm_or_key, all_.size());
      const Datagram& datagram = all_[completion.imm_or_key];
      EXPECT_EQ(datagram.to, i);
      EXPECT_TRUE(datagram.is_welcome);
      const Endpoint& sender = cluster_.endpoint(datagram.from);
      EXPECT_EQ(completion.source_qp, sender.number_of(0));
      ASSERT_EQ(completion.octets, transport::kGrhOctets + datagram.data.size());
      const auto place = receives_[i].octets.subspan(
          completion.wr_id * (kLong + transport::kGrhOctets), completion.octets);
      EXPECT_TRUE(std::ranges::equal(place.subspan(transport::kGrhOctets), datagram.data));
      // In front of the payload is the IPv4 header, in the last 20 of 40 octets.
      const auto same = [](std::byte a, std::uint8_t b) { return a == std::byte{b}; };
      const auto ipv4_of = [](const Endpoint& of) {
        return std::span(of.address().octets).last(4);
      };
      EXPECT_EQ(place[20], std::byte{0x45});
      EXPECT_TRUE(std::ranges::equal(place.subspan(32, 4), ipv4_of(sender), same));
      EXPECT_TRUE(std::ranges::equal(place.subspan(36, 4), ipv4_of(endpoint), same));
      EXPECT_LE(++seen_[completion.imm_or_key], copies_.of(completion.imm_or_key));
    }
    EXPECT_TRUE(endpoint.guards_are_intact());
  }

  Prng prng_;
  Faults faults_;
  Copies copies_;
  Cluster cluster_;
  std::vector<Buffer> sources_;
  std::vector<Buffer> receives_;
  std::vector<Datagram> all_;
  std::map<std::uint32_t, std::uint32_t> seen_;
};

TEST(Unreliable, EveryDatagramArrivesWholeFromItsSenderOrNotAtAll) {
  for (std::uint64_t seed = 1; seed <= kHistories && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Datagrams(seed).run();
  }
}

}  // namespace
}  // namespace verbatim::sim

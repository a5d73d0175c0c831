// SPDX-License-Identifier: Apache-2.0
// Attackers send all kinds of packets to two processes that exchange data. This may cost the
// processes time, but must not crash them, change an octet, or end the connection.
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "stranger.h"
#include "world.h"

namespace verbatim::testing {
namespace {

using wire::Operation;
using wire::Transport;

constexpr std::size_t kMessageMax = 12'000;
constexpr std::size_t kReceives = 16;
constexpr std::uint32_t kFirstPsn = 0xfffffe;   // of every queue pair here
constexpr std::uint32_t kEnd = 0xe4d;           // the immediate of the last message
constexpr std::uint32_t kNoQueuePair = 0x3333;  // a queue pair number that does not exist
// The real connections stay within a few hundred thousand packets of kFirstPsn; these are far
// behind and far ahead of them.
constexpr std::uint32_t kFarPsns[2] = {0x300000, 0xd00000};
constexpr int kOfEachKind = 300;
constexpr int kFlood = 200'000;
constexpr int kFloodPiece = 250;  // packets, before other threads may run

const Attributes kPatient{.timeout = 16, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1};

/// The reason why a packet that would end a connection must not do so.
enum class Flaw : std::uint8_t { kNone, kSource, kPartition, kService, kChecksum };

/// A packet that must end a connection whose expected PSN it has, unless something about it is too
/// wrong for that; and what it is.
struct Poison {
  const char* what;
  Operation operation;
  std::size_t payload_octets = 0;
  std::uint32_t dma_octets = 64;
  std::uint32_t key_error = 0;
  std::int64_t offset = 0;
  std::uint8_t selectivity = 0;
  bool ends_it = true;
  Flaw flaw = Flaw::kNone;
};
constexpr Poison flawed(const char* what, Flaw flaw) noexcept {
  return {.what = what,
          .operation = Operation::kWriteOnly,
          .payload_octets = 64,
          .key_error = 0x100,
          .ends_it = false,
          .flaw = flaw};
}
constexpr std::array kPoisons{
    Poison{"a WRITE with a wrong key", Operation::kWriteOnly, 64, 64, 0x100},
    Poison{"a WRITE beyond its region", Operation::kWriteOnly, 64, 64, 0, 1},
    Poison{"a WRITE before its region", Operation::kWriteOnly, 64, 64, 0, -1},
    Poison{"a WRITE of another length", Operation::kWriteOnly, 64, 60},
    Poison{"a WRITE that announces too much", Operation::kWriteFirst, 1024, 0xffffffff},
    Poison{"the middle of a WRITE", Operation::kWriteMiddle, 1024},
    Poison{"the end of a SEND", Operation::kSendLast, 8},
    Poison{"a READ with a wrong key", Operation::kReadRequest, 0, 64, 0x100},
    Poison{"a READ of the whole address space", Operation::kReadRequest, 0, 0xffffffff},
    Poison{"an atomic with a wrong key", Operation::kFetchAdd, 0, 8, 0x100},
    Poison{"an atomic at an odd address", Operation::kCompareSwap, 0, 8, 0, 1},
    Poison{"a FLUSH of a reserved kind", Operation::kFlush, 0, 64, 0, 0, 3},
    Poison{"a SEND without a receive", Operation::kSendOnly, 8, 0, 0, 0, 0, false},
    Poison{"an acknowledgement of nothing", Operation::kAcknowledge, 0, 0, 0, 0, 0, false},
    Poison{"data that was not requested", Operation::kReadResponseOnly, 64, 0, 0, 0, 0, false},
    flawed("a wrong key from another address", Flaw::kSource),
    flawed("a wrong key in another partition", Flaw::kPartition),
    flawed("a wrong key over another service", Flaw::kService),
    flawed("a wrong key with a wrong ICRC", Flaw::kChecksum),
};

/// What the two processes tell each other before they begin.
struct Card {
  std::uint32_t qp = 0;
  std::uint32_t datagram_qp = 0;
  std::uint64_t address = 0;  // kMessageMax octets, then a counter
  std::uint32_t rkey = 0;
  std::uint64_t guarded_address = 0;  // 64 octets that no request may touch
  std::uint32_t guarded_rkey = 0;
  std::array<std::uint32_t, kPoisons.size()> victims{};
};

std::uint8_t octet_of(std::uint64_t message, std::size_t at) noexcept {
  return static_cast<std::uint8_t>(message * 31 + at * 7 + (at >> 8));
}
std::size_t octets_of_message(std::uint64_t message) noexcept {
  return 1 + message * 977 % kMessageMax;
}

class VerbsHostile : public Pair {
 protected:
  // ---- The process that receives ----

  /// A forked child cannot use its parent's device: it opens the device again.
  void start_anew() {
    qps.clear();
    cqs.clear();
    mrs.clear();
    context = ibv_open_device(device);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  }

  int answer(int to_parent) {
    start_anew();
    near_receives = make_cq(64);
    near = make_qp({.send_cq = make_cq(), .receive_cq = near_receives, .depth = kReceives});
    Buffer& memory = make_buffer(kMessageMax + 16);
    std::ranges::fill(memory.octets, std::uint8_t{0});
    Buffer& guarded = make_buffer(64);
    const auto before = guarded.octets;
    ibv_cq* datagrams = make_cq();
    ibv_qp* datagram_qp = make_qp({.type = IBV_QPT_UD, .send_cq = datagrams});
    EXPECT_EQ(to_init(datagram_qp), 0);
    EXPECT_EQ(to_rtr(datagram_qp, 0), 0);
    Buffer& letters = make_buffer(8 * 64);
    for (std::uint32_t i = 0; i < 8; ++i) {
      const ibv_sge place{
          .addr = letters.address() + i * 64, .length = 64, .lkey = letters.mr->lkey};
      EXPECT_EQ(receive(datagram_qp, i, place), 0);
    }
    Card own{.qp = near->qp_num,
             .datagram_qp = datagram_qp->qp_num,
             .address = (memory.address() + 7) & ~std::uint64_t{7},
             .rkey = memory.mr->rkey,
             .guarded_address = guarded.address(),
             .guarded_rkey = guarded.mr->rkey};
    ibv_cq* others = make_cq();
    std::array<ibv_qp*, kPoisons.size()> victims{};
    for (std::size_t i = 0; i < victims.size(); ++i) {
      victims[i] = make_qp({.send_cq = others});
      EXPECT_EQ(to_init(victims[i]), 0);
      EXPECT_EQ(to_rtr(victims[i], kNoQueuePair), 0);
      own.victims[i] = victims[i]->qp_num;
    }
    Card peer;
    EXPECT_EQ(::write(to_parent, &own, sizeof own), static_cast<ssize_t>(sizeof own));
    EXPECT_EQ(::read(to_parent, &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
    EXPECT_EQ(to_init(near), 0);
    EXPECT_EQ(to_rtr(near, peer.qp, kPatient), 0);
    EXPECT_EQ(to_rts(near, kPatient), 0);
    take_messages();
    const auto letters_read = collect_some(datagrams);
    EXPECT_FALSE(letters_read.empty()) << "not one datagram with the right Q_Key came";
    for (const ibv_wc& wc : letters_read) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.byte_len, 40U + 20U);
    }
    for (std::size_t i = 0; i < victims.size(); ++i) {
      EXPECT_EQ(state_of(victims[i]), kPoisons[i].ends_it ? IBV_QPS_ERR : IBV_QPS_RTR)
          << kPoisons[i].what;
    }
    EXPECT_EQ(guarded.octets, before);
    EXPECT_EQ(state_of(near), IBV_QPS_RTS);
    return HasFailure() ? 1 : 0;
  }

  /// Every message that was sent, once and in order, until the last.
  void take_messages() {
    std::array<Buffer*, kReceives> places{};
    for (std::size_t i = 0; i < kReceives; ++i) {
      places[i] = &make_buffer(kMessageMax);
      ASSERT_EQ(receive(near, i, places[i]->sge()), 0);
    }
    for (std::uint64_t message = 0;; ++message) {
      const ibv_wc wc = collect_one(near_receives);
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << "message " << message;
      if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
        EXPECT_EQ(wc.imm_data, kEnd);
        return;
      }
      ASSERT_EQ(wc.byte_len, octets_of_message(message));
      const Buffer& place = *places[wc.wr_id];
      for (std::size_t at = 0; at < wc.byte_len; ++at) {
        ASSERT_EQ(place.octets[at], octet_of(message, at)) << "message " << message << " at " << at;
      }
      ASSERT_EQ(receive(near, wc.wr_id, place.sge()), 0);
    }
  }
  static std::vector<ibv_wc> collect_some(ibv_cq* cq) {
    std::vector<ibv_wc> found;
    ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 1) found.push_back(wc);
    return found;
  }

  // ---- The process that exchanges data ----

  void talk_until(const std::atomic<bool>& attacked, const Card& peer) {
    Buffer& message = make_buffer(kMessageMax);
    Buffer& back = make_buffer(kMessageMax);
    Buffer& eight = make_buffer(8);
    const std::uint64_t counter = peer.address + kMessageMax;
    std::uint64_t adds = 0;
    for (std::uint64_t n = 0; !attacked.load() || n < 200; ++n) {
      ibv_sge part = message.sge();
      part.length = static_cast<std::uint32_t>(octets_of_message(n));
      for (std::size_t at = 0; at < part.length; ++at) message.octets[at] = octet_of(n, at);
      ASSERT_EQ(send(near, n, part), 0);
      ASSERT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS) << "SEND " << n;
      if (n % 4 != 0) continue;
      ibv_sge into = back.sge();
      into.length = part.length;
      ASSERT_EQ(rdma(near, n, IBV_WR_RDMA_WRITE, part, peer.address, peer.rkey), 0);
      ASSERT_EQ(rdma(near, n, IBV_WR_RDMA_READ, into, peer.address, peer.rkey), 0);
      ASSERT_EQ(atomic(near, n, eight.sge(), counter, peer.rkey, 1), 0);
      for (const ibv_wc& wc : collect(near_sends, 3)) ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(std::memcmp(back.octets.data(), message.octets.data(), part.length), 0);
      std::uint64_t value = 0;
      std::memcpy(&value, eight.octets.data(), sizeof value);
      ASSERT_EQ(value, adds++);
    }
    ibv_send_wr last{};
    last.opcode = IBV_WR_SEND_WITH_IMM;
    last.imm_data = kEnd;
    ibv_sge one = message.sge();
    one.length = 1;
    ASSERT_EQ(post(near, last, one), 0);
    ASSERT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  }
};

/// All attacks: on the two queue pairs that exchange data, on queue pairs that may fail, and on the
/// host.
class Attack {
 public:
  Attack(const Card& one, const Card& other) : targets_{one.qp, other.qp}, card_(one) {}

  void run() {
    ASSERT_TRUE(near_.is_ready() && elsewhere_.is_ready());
    poison();
    for (int i = 0; i < kOfEachKind; ++i) {
      const std::uint32_t qp = targets_[static_cast<std::size_t>(i) % 2];
      near_.send(make_for_no_queue_pair());
      near_.send(near_.make_some(Transport::kRc, qp, far_psn()));
      near_.send(make_answer(qp));
      near_.send(make_of_another_service(qp));
      near_.send(make_with_opcode(static_cast<std::uint8_t>(i), qp));
      near_.send(make_spoilt(qp));
      near_.send(make_in_wrong_partition(qp));
      elsewhere_.send(elsewhere_.make_some(Transport::kRc, qp, any_psn()));
      near_.send(make_datagram(0x1dea, 20));  // a wrong Q_Key
      near_.send(make_datagram(kQKey, 100));  // longer than the receive
      near_.send(near_.noise(5000 + near_.prng().below(50'000)));
      send_pieces(qp);
      breathe();
    }
    send_every_length();
    flood();
    for (int i = 0; i < 20; ++i) {
      near_.send(make_datagram(kQKey, 20));
      breathe();
    }
  }

 private:
  static constexpr std::uint32_t kQKey = 0x11111111;
  static void breathe() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

  std::uint32_t far_psn() {
    return static_cast<std::uint32_t>(near_.prng().between(kFarPsns[0], kFarPsns[1]));
  }
  std::uint32_t any_psn() {
    return (kFirstPsn + static_cast<std::uint32_t>(near_.prng().below(1000))) & 0xffffff;
  }

  /// Exactly the PSN that is expected, and exactly what is forbidden.
  void poison() {
    for (std::size_t i = 0; i < kPoisons.size(); ++i) {
      const Poison& poison = kPoisons[i];
      wire::PacketHeaders headers = near_.some_headers(Transport::kRc, card_.victims[i], kFirstPsn);
      headers.bth.opcode = opcode_of(Transport::kRc, poison.operation);
      const auto key = wire::MemoryKey{card_.guarded_rkey ^ poison.key_error};
      const std::uint64_t address =
          card_.guarded_address + static_cast<std::uint64_t>(poison.offset);
      headers.reth = {.address = address, .rkey = key, .dma_octets = poison.dma_octets};
      headers.atomic_eth = {.address = address, .rkey = key, .swap_or_add = 1, .compare = 0};
      headers.aeth = {.syndrome = wire::Syndrome::nak(wire::Syndrome::Nak::kRemoteOperation),
                      .msn = 0};
      headers.feth = {.selectivity = poison.selectivity, .placement = 1};
      if (poison.flaw == Flaw::kPartition) headers.bth.pkey = wire::PKey{0x8001};
      if (poison.flaw == Flaw::kService) {
        headers.bth.opcode = opcode_of(Transport::kUc, poison.operation);
      }
      Stranger& sender = poison.flaw == Flaw::kSource ? elsewhere_ : near_;
      Packet packet = sender.make(headers, poison.payload_octets);
      if (poison.flaw == Flaw::kChecksum) packet.back() ^= std::byte{1};
      for (int again = 0; again < 3; ++again) {
        sender.send(packet);
        breathe();
      }
    }
  }
  Packet make_for_no_queue_pair() {
    static constexpr std::uint32_t kSpecial[] = {0, 1, 0xffffff, kNoQueuePair};
    Prng& prng = near_.prng();
    auto qp = static_cast<std::uint32_t>(prng.below(1U << 24));  // of any process, there or not
    if (prng.one_in(4)) qp = kSpecial[prng.below(4)];
    if (qp == targets_[0] || qp == targets_[1] || qp == card_.datagram_qp) qp = kNoQueuePair;
    for (const std::uint32_t victim : card_.victims) {
      if (qp == victim) qp = kNoQueuePair;
    }
    const auto transport = prng.one_in(2) ? Transport::kRc : Transport::kUd;
    return near_.make_some(transport, qp, any_psn());
  }
  /// An ACK, NAK, RNR NAK or response that belongs to nothing in flight.
  Packet make_answer(std::uint32_t qp) {
    static constexpr Operation kAnswers[] = {
        Operation::kAcknowledge,      Operation::kAtomicAcknowledge, Operation::kReadResponseFirst,
        Operation::kReadResponseLast, Operation::kReadResponseOnly,
    };
    wire::PacketHeaders headers = near_.some_headers(Transport::kRc, qp, far_psn());
    headers.bth.opcode = opcode_of(Transport::kRc, kAnswers[near_.prng().below(5)]);
    const bool may_carry = describe(headers.bth.opcode).payload != wire::PayloadRule::kNone;
    return near_.make(headers, may_carry ? 1024 : 0);
  }
  Packet make_of_another_service(std::uint32_t qp) {
    static constexpr Transport kOthers[] = {Transport::kUc, Transport::kUd, Transport::kXrc};
    return near_.make_some(kOthers[near_.prng().below(3)], qp, any_psn());
  }
  /// Any opcode at all, with enough octets for any header.
  Packet make_with_opcode(std::uint8_t opcode, std::uint32_t qp) {
    Packet packet = near_.noise(128);
    wire::Bth bth;
    bth.opcode = wire::Opcode(opcode);
    bth.dest_qp = wire::QpNumber{qp};
    bth.psn = wire::Psn(far_psn());
    bth.emit(std::span(packet).first<wire::Bth::kSize>());
    near_.seal(packet);
    return packet;
  }
  /// A valid packet with one flipped bit. (In such a short packet every bit is detected.)
  Packet make_spoilt(std::uint32_t qp) {
    Packet packet;
    do {
      packet = near_.make_some(Transport::kRc, qp, any_psn());
    } while (packet.size() > 160);
    const std::size_t bit = near_.prng().below(packet.size() * 8 - 32) + 32;
    packet[bit / 8] ^= std::byte{static_cast<std::uint8_t>(1U << (bit % 8))};
    return packet;
  }
  Packet make_in_wrong_partition(std::uint32_t qp) {
    wire::PacketHeaders headers = near_.some_headers(Transport::kRc, qp, any_psn());
    headers.bth.opcode = opcode_of(Transport::kRc, Operation::kSendOnly);
    headers.bth.pkey = wire::PKey{0x8001};
    return near_.make(headers, 10);
  }
  Packet make_datagram(std::uint32_t qkey, std::size_t payload_octets) {
    wire::PacketHeaders headers = near_.some_headers(Transport::kUd, card_.datagram_qp, 1);
    headers.bth.opcode = opcode_of(Transport::kUd, Operation::kSendOnly);
    headers.deth.qkey = wire::QKey{qkey};
    return near_.make(headers, payload_octets);
  }
  void send_pieces(std::uint32_t qp) {
    const Packet packet = near_.make_some(Transport::kRc, qp, far_psn());
    (void)near_.send_fragments(packet,
                               near_.prng().one_in(2));  // needs rights that the user may not have
  }
  /// Random octets, and truncated valid packets, both with a right ICRC if there is room.
  void send_every_length() {
    for (std::size_t octets = 0; octets <= 100; ++octets) {
      for (const std::uint32_t qp : targets_) {
        near_.send(near_.noise(octets));
        Packet cut = near_.make_some(Transport::kRc, qp, far_psn());
        cut.resize(octets);
        near_.seal(cut);
        near_.send(cut);
      }
      breathe();
    }
  }
  void flood() {
    std::vector<Packet> packets;
    for (int i = 0; i < 500; ++i) {
      packets.push_back(make_for_no_queue_pair());
      packets.push_back(
          near_.make_some(Transport::kRc, targets_[static_cast<std::size_t>(i) % 2], far_psn()));
    }
    for (int sent = 0; sent < kFlood; sent += kFloodPiece) {
      for (int i = 0; i < kFloodPiece; ++i) {
        near_.send(packets[static_cast<std::size_t>(sent + i) % packets.size()]);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::array<std::uint32_t, 2> targets_;
  Card card_;
  Stranger near_;
  Stranger elsewhere_{INADDR_LOOPBACK + 1, 2};
};

TEST_F(VerbsHostile, TwoProcessesContinueWhateverAttackersSend) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ends[0]);
    ::_exit(answer(ends[1]));
  }
  ::close(ends[1]);
  near_sends = make_cq();
  near = make_qp({.send_cq = near_sends, .depth = kReceives});
  Card peer;
  ASSERT_EQ(::read(ends[0], &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
  const Card own{.qp = near->qp_num};
  ASSERT_EQ(to_init(near), 0);
  ASSERT_EQ(to_rtr(near, peer.qp, kPatient), 0);
  ASSERT_EQ(to_rts(near, kPatient), 0);
  ASSERT_EQ(::write(ends[0], &own, sizeof own), static_cast<ssize_t>(sizeof own));
  std::atomic<bool> attacked{false};
  std::thread strangers([&] {
    Attack(peer, own).run();
    attacked = true;
  });
  talk_until(attacked, peer);
  strangers.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the other process says what is wrong";
  EXPECT_EQ(state_of(near), IBV_QPS_RTS);
  EXPECT_TRUE(has_no_event());
  ::close(ends[0]);
}

}  // namespace
}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
// A requester with requests of every kind in flight, and a peer that answers at random. The
// requester never writes outside of the lists of its requests, completes only posted requests,
// keeps the order, and completes nothing as successful after a failure.
#include <cstdint>
#include <deque>
#include <vector>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "transport/rc/test_requester.h"

namespace verbatim::transport::test {
namespace {

constexpr std::uint32_t kLandingOctets = 16 * 1024;  // what requests may name of the arena

RcRequester::Config config_of(verbatim::test::FuzzInput& input) {
  auto config = RequesterRig::defaults();
  const std::uint8_t switches = input.octet();
  config.path_mtu = 256U << ((switches & 7) % 5);
  config.transport = (switches & 8) != 0 ? wire::Transport::kXrc : wire::Transport::kRc;
  if ((switches & 16) != 0) config.ack_timeout = Duration::zero();
  if ((switches & 32) != 0) config.first_psn = wire::Psn(0xff'fff0);
  config.window_packets = 1 + input.below(64);
  config.read_chunk_packets = 1 + input.below(32);
  config.retry_limit = static_cast<std::uint8_t>(input.below(8));
  config.rnr_retry_limit = static_cast<std::uint8_t>(input.below(8));
  config.max_read_atomic = static_cast<std::uint8_t>(input.below(6));
  return config;
}

class History {
 public:
  explicit History(verbatim::test::FuzzInput& input) : input_(input), rig_(config_of(input)) {}

  void run() {
    while (!input_.is_empty()) {
      step();
      check_completions();
      check_window();
    }
    rig_.machine().flush();
    check_completions();
    VB_ASSERT(due_.empty());  // each was reported, or was unsignaled and succeeded
    check_memory();
  }

 private:
  struct Due {
    std::uint64_t wr_id = 0;
    bool is_signaled = false;
  };

  void step() {
    switch (input_.below(8)) {
      case 0:
        post();
        break;
      case 1:
        send(1 + input_.below(8));
        break;
      case 2:
        send(256);
        break;
      case 3:
        answer_honestly();
        break;
      case 4:
        answer_anyhow();
        break;
      case 5:
        (void)rig_.sleep();  // sometimes for ever
        break;
      case 6:
        rig_.pass(std::chrono::microseconds(input_.two_octets()));
        rig_.machine().handle_timeout(rig_.now());
        break;
      default:
        change_something();
        break;
    }
  }

  void post() {
    static constexpr SendOpcode kOpcodes[] = {SendOpcode::kWrite,      SendOpcode::kWriteImm,
                                              SendOpcode::kSend,       SendOpcode::kSendImm,
                                              SendOpcode::kRead,       SendOpcode::kCompareSwap,
                                              SendOpcode::kFetchAdd,   SendOpcode::kLocalInvalidate,
                                              SendOpcode::kBindWindow, SendOpcode::kSendInvalidate,
                                              SendOpcode::kFlush,      SendOpcode::kAtomicWrite};
    const SendOpcode opcode = input_.pick(kOpcodes);
    SendRequest request = rig_.request(opcode, 0);
    request.flags = SendFlags(input_.octet() & 0x07);
    request.list = rig_.list(list_for(opcode));
    request.invalidate_key = request.bind.window_key = rig_.arena().key();
    if (rig_.post(request)) {
      due_.push_back({request.wr_id, has(request.flags, SendFlags::kSignaled)});
    }
  }
  std::vector<memory::Sge> list_for(SendOpcode opcode) {
    switch (opcode) {
      case SendOpcode::kCompareSwap:
      case SendOpcode::kFetchAdd:
      case SendOpcode::kAtomicWrite:
        return {rig_.arena().sge(input_.octet(), 8)};
      case SendOpcode::kFlush:
      case SendOpcode::kLocalInvalidate:
      case SendOpcode::kBindWindow:
        return {};
      default:
        break;
    }
    std::vector<memory::Sge> list;
    for (std::uint32_t left = input_.below(4); left > 0; --left) {
      list.push_back(rig_.arena().sge(input_.octet(), input_.two_octets() % 4096));
      if (input_.below(32) == 31) list.back().lkey = wire::MemoryKey{0x666};
    }
    return list;
  }

  void send(std::uint32_t most) {
    const bool was_over = rig_.machine().has_failed();
    for (std::uint32_t i = 0; i < most; ++i) {
      auto packet = rig_.poll();
      if (!packet) return;
      VB_ASSERT(!was_over);
      sent_.push_back(std::move(*packet));
      if (sent_.size() > 64) sent_.pop_front();
    }
  }

  /// A correct answer to the oldest packet that was not answered.
  void answer_honestly() {
    if (sent_.empty()) return;
    const TestPacket packet = sent_.front();
    sent_.pop_front();
    const auto view = packet.view();
    switch (view.operation()) {
      case wire::Operation::kReadRequest:
        rig_.answer_read(packet, Octets(view.reth().dma_octets, kAnswer));
        break;
      case wire::Operation::kCompareSwap:
      case wire::Operation::kFetchAdd:
        rig_.atomic_ack(packet.psn(), ~std::uint64_t{0});
        break;
      case wire::Operation::kFlush:
      case wire::Operation::kAtomicWrite:
        rig_.answer(wire::Operation::kReadResponseOnly, packet.psn());
        break;
      default:
        rig_.ack(packet.psn());
        break;
    }
  }

  void answer_anyhow() {
    using wire::Operation;
    static constexpr Operation kOperations[] = {
        Operation::kAcknowledge,      Operation::kReadResponseFirst, Operation::kReadResponseMiddle,
        Operation::kReadResponseLast, Operation::kReadResponseOnly,  Operation::kAtomicAcknowledge,
        Operation::kAcknowledge,      Operation::kSendOnly};
    const Operation operation = input_.pick(kOperations);
    const std::uint8_t distance = input_.octet();
    wire::Psn psn = rig_.machine().next_psn() - distance;
    if (distance == 255) psn = wire::Psn(input_.four_octets());
    static constexpr std::uint8_t kSyndromes[] = {0x1f, 0x00, 0x60, 0x61, 0x62, 0x63, 0x64,
                                                  0x21, 0x2c, 0x3f, 0x40, 0x7f, 0x80};
    const wire::Syndrome syndrome(input_.pick(kSyndromes));
    answer(operation, psn, syndrome);
  }
  void answer(wire::Operation operation, wire::Psn psn, wire::Syndrome syndrome) {
    const auto rule = wire::describe(wire::opcode_of(rig_.config().transport, operation)).payload;
    std::size_t octets = rule == wire::PayloadRule::kNone ? 0 : rig_.config().path_mtu;
    if (octets > 0 && input_.below(2) == 1) octets = input_.two_octets() % 4097;
    rig_.answer(operation, psn, Octets(octets, kAnswer), syndrome);
  }

  void change_something() {
    switch (input_.below(4)) {
      case 0:
        rig_.machine().pause(input_.below(2) == 1);
        break;
      case 1:
        rig_.machine().handle_fault_while_sending();
        break;
      case 2: {
        auto config = rig_.config();
        config.retry_limit = static_cast<std::uint8_t>(input_.below(8));
        config.max_read_atomic = static_cast<std::uint8_t>(input_.below(6));
        if (input_.below(2) == 1) config.ack_timeout = Duration::zero();
        rig_.machine().reconfigure(config, test_path());
        break;
      }
      default:
        if (rig_.machine().has_failed()) rig_.machine().flush();
        break;
    }
  }

  /// In the order of posting, each once; unsignaled ones only when they fail; no success after a
  /// failure, and one failure only.
  void check_completions() {
    for (const Completion& completion : rig_.completions()) {
      while (!due_.empty() && due_.front().wr_id != completion.wr_id) {
        VB_ASSERT(!due_.front().is_signaled && !has_failed_);
        due_.pop_front();
      }
      VB_ASSERT(!due_.empty());
      const bool succeeded = completion.status == WcStatus::kSuccess;
      VB_ASSERT(!succeeded || (due_.front().is_signaled && !has_failed_));
      VB_ASSERT(!has_failed_ || completion.status == WcStatus::kFlushed);
      has_failed_ = has_failed_ || !succeeded;
      due_.pop_front();
    }
    VB_ASSERT(rig_.queue().tail() - rig_.queue().head() <= RequesterRig::kDepth);
    if (!rig_.queue().is_empty()) return;
    for (const Due& due : due_) VB_ASSERT(!due.is_signaled && !has_failed_);
    due_.clear();
  }

  /// A READ may reach beyond the window by its own length; nothing is acknowledged that was not
  /// sent, or the difference would be negative.
  void check_window() {
    if (rig_.machine().has_failed()) return;
    const auto& config = rig_.config();
    VB_ASSERT(rig_.machine().in_flight() < config.window_packets + config.read_chunk_packets);
  }

  void check_memory() {
    VB_ASSERT(rig_.arena().guards_hold());
    VB_ASSERT(is_all(rig_.arena().octets().subspan(kLandingOctets), {}));
  }

  static constexpr std::byte kAnswer{0xee};
  verbatim::test::FuzzInput& input_;
  RequesterRig rig_;
  std::deque<TestPacket> sent_;  // the newest of what was sent and not answered
  std::deque<Due> due_;          // posted and not reported
  bool has_failed_ = false;
};

}  // namespace
}  // namespace verbatim::transport::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput input(data, size);
  verbatim::transport::test::History(input).run();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A responder with regions, windows and receives, and a peer that sends at random. Nothing is
// written but the memory that keys and receives name, no receive completes twice, and every answer
// is for a request that has arrived.
#include <cstdint>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "memory/window.h"
#include "transport/rc/test_fuzzed_receiver.h"

namespace verbatim::transport::test {
namespace {

using memory::Access;
using wire::Operation;

constexpr std::size_t kRegionOctets = FuzzedReceiver::kRegionOctets;

class History {
 public:
  explicit History(verbatim::test::FuzzInput& input)
      : input_(input),
        switches_(input.octet()),
        receiver_(input, (switches_ & 1) != 0),
        transport_((switches_ & 3) == 3 ? wire::Transport::kXrc : wire::Transport::kRc),
        responder_(&parts_.state(), parts_.replay(), parts_.landing(), transport_) {
    Arena& arena = parts_.arena();
    receiver_.add(
        *arena.registry().register_region({.domain = kHome,
                                           .address = arena.address(Receiver::kRemote + 5),
                                           .octets = kRegionOctets - 5,
                                           .access = kAllRights | Access::kZeroBased}));
    receiver_.add(*arena.registry().allocate_window(kHome, memory::KeyKind::kWindowType2B));
    bind_window();
    ResponderState& state = parts_.state();
    state.path_mtu = 256U << (input.below(5));
    state.replay_limit = static_cast<std::uint8_t>(input.below(kMaxReadAtomic + 1));
    if ((switches_ & 4) != 0) state.expected_psn = wire::Psn(0xff'fff8);
    if ((switches_ & 8) != 0) state.access = Access(input.octet());
  }

  void run() {
    while (!input_.is_empty()) {
      step();
      check_state();
    }
    send(1U << 16);
    responder_.landing().flush();
    (void)receiver_.take_completions();
    receiver_.check_memory();
  }

 private:
  void step() {
    switch (input_.below(8)) {
      case 0:
        receiver_.post_receive();
        break;
      case 1:
        send(1 + input_.below(8));
        break;
      case 2:
        send(256);
        break;
      case 3:
        change_something();
        break;
      default:
        request();
        break;
    }
  }

  void bind_window() {
    const auto refused =
        memory::bind_type2(parts_.arena().keys(), {.domain = kHome, .qp = kOurQp},
                           {.window_key = receiver_.keys()[3],
                            .new_key = receiver_.keys()[3],
                            .region_key = receiver_.keys()[0],
                            .address = parts_.arena().address(Receiver::kRemote + 64),
                            .octets = 1024,
                            .access = Access::kRemoteRead | Access::kRemoteWrite});
    (void)refused;  // it may be bound, or its region gone
  }

  void request() {
    static constexpr Operation kOperations[] = {
        Operation::kSendFirst,          Operation::kSendMiddle,         Operation::kSendLast,
        Operation::kSendLastImm,        Operation::kSendOnly,           Operation::kSendOnlyImm,
        Operation::kWriteFirst,         Operation::kWriteMiddle,        Operation::kWriteLast,
        Operation::kWriteLastImm,       Operation::kWriteOnly,          Operation::kWriteOnlyImm,
        Operation::kReadRequest,        Operation::kCompareSwap,        Operation::kFetchAdd,
        Operation::kSendLastInvalidate, Operation::kSendOnlyInvalidate, Operation::kFlush,
        Operation::kAtomicWrite};
    const Operation operation = input_.pick(kOperations);
    auto headers = request_headers(transport_, operation, psn());
    const std::uint8_t detail = input_.octet();
    headers.bth.ack_request = (detail & 1) != 0;
    headers.bth.solicited = (detail & 2) != 0;
    headers.reth.rkey = headers.atomic_eth.rkey = headers.ieth.rkey = key();
    headers.reth.address = headers.atomic_eth.address = address((detail & 4) != 0);
    headers.atomic_eth.swap_or_add = headers.atomic_eth.compare = input_.octet();
    headers.feth = {.selectivity = static_cast<std::uint8_t>(detail >> 3 & 3),
                    .placement = static_cast<std::uint8_t>(detail >> 5)};
    headers.xrceth.srq = wire::SrqNumber{std::uint32_t{detail} >> 7};
    const std::size_t octets = payload_octets(headers.bth.opcode);
    headers.reth.dma_octets = dma_octets(octets);
    const TestPacket packet(headers, Octets(octets, std::byte{0xee}));
    responder_.handle_request(packet.view(), named(headers.xrceth.srq));
  }
  wire::Psn psn() {
    const std::uint8_t choice = input_.octet();
    const wire::Psn expected = parts_.state().expected_psn;
    if (choice < 160) return expected;
    if (choice < 240) return expected - (choice - 159U);
    if (choice < 255) return expected + (choice - 239U);
    return wire::Psn(input_.four_octets());
  }
  wire::MemoryKey key() {
    const std::uint32_t choice = input_.below(8);
    if (choice < receiver_.keys().size()) return receiver_.keys()[choice];
    return choice == 7 ? wire::MemoryKey{input_.four_octets()} : receiver_.keys()[0];
  }
  std::uint64_t address(bool is_offset) {
    const std::uint64_t offset = input_.two_octets() % (kRegionOctets + 16);
    if (is_offset) return offset;
    return parts_.arena().address(Receiver::kRemote) + (offset & ~std::uint64_t{7});
  }
  std::size_t payload_octets(wire::Opcode opcode) {
    const std::uint32_t mtu = parts_.state().path_mtu;
    const bool is_honest = input_.below(8) != 0;
    switch (wire::describe(opcode).payload) {
      case wire::PayloadRule::kNone:
        return 0;
      case wire::PayloadRule::kExactlyMtu:
        return is_honest ? mtu : input_.two_octets() % 4097;
      case wire::PayloadRule::kOneToMtu:
      case wire::PayloadRule::kUpToMtu:
        return is_honest ? input_.two_octets() % (mtu + 1) : input_.two_octets() % 4097;
      case wire::PayloadRule::kEight:
        return is_honest ? 8 : input_.below(17);
    }
    return 0;
  }
  std::uint32_t dma_octets(std::size_t octets) {
    switch (input_.below(5)) {
      case 0:
        return input_.four_octets();
      case 1:
        return static_cast<std::uint32_t>(octets) + parts_.state().path_mtu;
      case 2:
        return input_.two_octets() % kRegionOctets;
      default:
        return static_cast<std::uint32_t>(octets);
    }
  }
  SharedReceiveRing named(wire::SrqNumber number) {
    const bool exists = number == wire::SrqNumber{0} && !queue_is_gone_;
    return exists ? parts_.shared() : SharedReceiveRing{};
  }

  void send(std::uint32_t most) {
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    for (std::uint32_t i = 0; i < most; ++i) {
      const std::size_t octets = responder_.poll_transmit(test_path(), frame, 0);
      if (octets == 0) {
        VB_ASSERT(!responder_.owes_answers());
        return;
      }
      check_answer(TestPacket::written(std::span(frame).first(octets)));
    }
  }
  /// Nothing is acknowledged or answered that was not accepted, and nothing refused beyond it.
  void check_answer(const TestPacket& packet) {
    const auto view = packet.view();
    VB_ASSERT(view.info().is_response && view.transport() == transport_);
    const std::int32_t ahead = view.psn().distance_from(parts_.state().expected_psn);
    const bool accepts = !view.info().has(wire::OpcodeInfo::kAeth) ||
                         view.aeth().syndrome.kind() == wire::Syndrome::Kind::kAck;
    VB_ASSERT(accepts ? ahead < 0 : ahead <= 0);
  }

  void change_something() {
    Arena& arena = parts_.arena();
    switch (input_.below(6)) {
      case 0:
        parts_.state().replay_limit = static_cast<std::uint8_t>(input_.below(kMaxReadAtomic + 1));
        break;
      case 1:
        bind_window();
        break;
      case 2:
        // kBusy while the window is bound to it; the key stays in the list when it is gone.
        (void)arena.registry().deregister_region(receiver_.keys()[input_.below(3)]);
        break;
      case 3:
        if (input_.below(4) == 0) responder_.handle_fault_while_executing();
        break;
      case 4:
        if (input_.below(4) == 0) responder_.handle_fault_while_answering();
        break;
      default:
        queue_is_gone_ = queue_is_gone_ || input_.below(4) == 0;
        break;
    }
  }

  void check_state() {
    const ResponderState& state = parts_.state();
    VB_ASSERT(state.replay_count <= kMaxReadAtomic);
    std::uint32_t pending = 0;
    for (std::uint32_t i = 0; i < state.replay_count; ++i) {
      if (parts_.replay()[(state.replay_oldest + i) % kMaxReadAtomic].pending) ++pending;
    }
    VB_ASSERT(state.replay_pending == pending);
    (void)receiver_.take_completions();
  }
  verbatim::test::FuzzInput& input_;
  std::uint8_t switches_;
  FuzzedReceiver receiver_;
  Receiver& parts_ = receiver_.parts();
  wire::Transport transport_;
  RcResponder responder_;
  bool queue_is_gone_ = false;  // XRC: the shared receive queue was destroyed
};

}  // namespace
}  // namespace verbatim::transport::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput input(data, size);
  verbatim::transport::test::History(input).run();
  return 0;
}

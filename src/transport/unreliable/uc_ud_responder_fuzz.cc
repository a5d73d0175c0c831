// SPDX-License-Identifier: Apache-2.0
// Unreliable responders with regions and receives, and a network that delivers random packets.
// Nothing is written but the memory that keys and receives name, and no receive completes twice.
#include <cstdint>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "transport/rc/test_fuzzed_receiver.h"
#include "transport/unreliable/uc_responder.h"
#include "transport/unreliable/ud_responder.h"

namespace verbatim::transport::test {
namespace {

using memory::Access;
using wire::Operation;

constexpr std::size_t kRegionOctets = FuzzedReceiver::kRegionOctets;
constexpr wire::QKey kQKey{0x1234};

class History {
 public:
  explicit History(verbatim::test::FuzzInput& input)
      : input_(input),
        switches_(input.octet()),
        receiver_(input, (switches_ & 1) != 0),
        uc_(&parts_.state(), parts_.landing()),
        ud_(&parts_.state(), parts_.landing()) {
    parts_.state().path_mtu = 256U << (input.below(5));
    parts_.state().qkey = kQKey;
    if ((switches_ & 4) != 0) parts_.state().access = Access(input.octet());
  }

  void run() {
    while (!input_.is_empty()) {
      step();
      check_completions();
    }
    uc_.landing().flush();
    check_completions();
    receiver_.check_memory();
  }

 private:
  [[nodiscard]] bool is_datagram() const noexcept { return (switches_ & 2) != 0; }

  void step() {
    switch (input_.below(6)) {
      case 0:
        receiver_.post_receive();
        break;
      case 1:
        if (input_.below(16) == 0)
          (void)parts_.arena().registry().deregister_region(receiver_.keys()[0]);
        break;
      default:
        is_datagram() ? datagram() : packet();
        break;
    }
  }

  void packet() {
    static constexpr Operation kOperations[] = {
        Operation::kSendFirst,    Operation::kSendMiddle,  Operation::kSendLast,
        Operation::kSendLastImm,  Operation::kSendOnly,    Operation::kSendOnlyImm,
        Operation::kWriteFirst,   Operation::kWriteMiddle, Operation::kWriteLast,
        Operation::kWriteLastImm, Operation::kWriteOnly,   Operation::kWriteOnlyImm};
    const Operation operation = input_.pick(kOperations);
    const std::uint8_t skip = input_.octet();
    const wire::Psn psn = parts_.state().expected_psn + (skip < 200 ? 0U : skip - 200U);
    auto headers = request_headers(wire::Transport::kUc, operation, psn);
    const std::uint32_t mtu = parts_.state().path_mtu;
    const bool is_full =
        operation == Operation::kSendFirst || operation == Operation::kSendMiddle ||
        operation == Operation::kWriteFirst || operation == Operation::kWriteMiddle;
    std::uint32_t octets = is_full ? mtu : input_.two_octets() % (mtu + 1);
    if (input_.below(16) == 0) octets = input_.two_octets() % 4097;
    const std::uint32_t choice = input_.below(4);
    headers.reth = {
        .address =
            parts_.arena().address(Receiver::kRemote) + input_.two_octets() % (kRegionOctets + 16),
        .rkey = choice < receiver_.keys().size() ? receiver_.keys()[choice] : receiver_.keys()[0],
        .dma_octets = octets + (input_.below(2) == 0 ? 0U : input_.two_octets())};
    if (choice == 3) headers.reth.rkey = wire::MemoryKey{input_.four_octets()};
    uc_.handle_request(TestPacket(headers, Octets(octets, std::byte{0xee})).view());
  }

  void datagram() {
    const auto operation = input_.below(2) == 0 ? Operation::kSendOnly : Operation::kSendOnlyImm;
    auto headers = request_headers(wire::Transport::kUd, operation, wire::Psn(input_.two_octets()));
    headers.deth = {.qkey = input_.below(8) == 0 ? wire::QKey{input_.four_octets()} : kQKey,
                    .source_qp = wire::QpNumber{input_.octet()}};
    const Octets network_header(kGrhOctets, std::byte{0xdd});
    ud_.handle_request(
        TestPacket(headers, Octets(input_.two_octets() % 4097, std::byte{0xee})).view(),
        std::span<const std::byte, kGrhOctets>(network_header));
  }

  void check_completions() {
    for (const Completion& completion : receiver_.take_completions()) {
      VB_ASSERT(completion.wr_id > newest_);  // in the order of posting, each once
      newest_ = completion.wr_id;
    }
  }
  verbatim::test::FuzzInput& input_;
  std::uint8_t switches_;
  FuzzedReceiver receiver_;
  Receiver& parts_ = receiver_.parts();
  UcResponder uc_;
  UdResponder ud_;
  std::uint64_t newest_ = 0;  // wr_id of the last completion
};

}  // namespace
}  // namespace verbatim::transport::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput input(data, size);
  verbatim::transport::test::History(input).run();
  return 0;
}

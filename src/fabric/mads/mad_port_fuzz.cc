// SPDX-License-Identifier: Apache-2.0
// A port whose programs and peers do arbitrary things. It sends nothing but whole datagrams,
// delivers nothing to a client that is closed, and is empty when all clients are closed and time
// has passed.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "fabric/mads/mad_port.h"
#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"

namespace verbatim::fabric {
namespace {

using std::chrono::milliseconds;

constexpr std::array kClasses{wire::MgmtClass::kSubnetAdministration, wire::MgmtClass{0x32},
                              wire::MgmtClass::kPerformance, wire::MgmtClass::kSubnetDirectedRoute,
                              wire::MgmtClass{0}};
constexpr std::array<std::uint8_t, 8> kMethods{0x01, 0x02, 0x05, 0x07, 0x12, 0x81, 0x92, 0x14};
constexpr std::uint32_t kClients = 3;

class History {
 public:
  explicit History(test::FuzzInput& choices) : choices_(choices) {
    port_.set_identity({.base_lid = wire::Lid{1}, .lmc = 1});
  }

  void run() {
    while (!choices_.is_empty()) {
      step();
      drain();
    }
    for (std::uint32_t client = 0; client < kClients; ++client) {
      port_.close_client(ClientId{client});
    }
    VB_ASSERT(port_.outstanding_count() == 0);
    VB_ASSERT(port_.reception_count() == 0 && port_.held_octets() == 0);
    VB_ASSERT(!port_.next_timeout());
    while (port_.poll_transmit(now_)) continue;
    VB_ASSERT(!port_.poll_delivery());
  }

 private:
  void step() {
    switch (choices_.octet_below(12)) {
      case 0:
        register_agent();
        break;
      case 1:
        (void)port_.unregister_agent(client(), agent());  // it may not exist
        break;
      case 2:
        if (choices_.octet_below(8) == 0) port_.close_client(client());
        break;
      case 3:
        now_ = now_ + milliseconds(choices_.octet());
        port_.handle_timeout(now_);
        break;
      case 4:
        if (const auto next = port_.next_timeout()) now_ = std::max(now_, *next);
        port_.handle_timeout(now_);
        break;
      case 5:
      case 6:
      case 7:
        post();
        break;
      default:
        arrive();
        break;
    }
  }
  void register_agent() {
    Registration registration{.mgmt_class = kClasses[choices_.octet_below(kClasses.size())],
                              .class_version = 1,
                              .oui = {0, 0, choices_.octet_below(3)},
                              .rmpp = RmppMode{choices_.octet_below(3)}};
    registration.qpn = wire::QpNumber{choices_.octet_below(2)};
    if (choices_.octet_below(2) == 0)
      registration.methods.set(kMethods[choices_.octet_below(8)] & 0x7f);
    (void)port_.register_agent(client(), registration);  // most are refused
  }
  void post() {
    UserMad mad{.agent = agent(),
                .timeout = milliseconds(choices_.octet() & 0x0f),
                .retries = choices_.octet_below(3)};
    mad.address = {.lid = wire::Lid{choices_.octet_below(4)}, .qpn = wire::QpNumber::kGsi};
    const auto octets = datagram();
    mad.octets.assign(octets.begin(), octets.end());
    mad.octets.resize(choices_.octet_below(4) == 0 ? choices_.two_octets() % 9000 : 256);
    (void)port_.post_send(now_, client(), std::move(mad));  // most are refused
  }
  /// An answer to something the port has sent, or something else.
  void arrive() {
    ManagementPacket packet{.source = wire::Lid{choices_.octet_below(4)},
                            .destination = wire::Lid{1},
                            .dest_qp = wire::QpNumber{choices_.octet_below(2)},
                            .mad = datagram()};
    if (!sent_.empty() && choices_.octet_below(4) != 0) {
      packet = sent_[choices_.octet() % sent_.size()];
      std::swap(packet.source, packet.destination);
      std::swap(packet.source_qp, packet.dest_qp);
      packet.mad[3] ^= std::byte{0x80};
      if (choices_.octet_below(2) == 0) rmpp().emit(packet.mad);
    }
    (void)port_.handle_packet(now_, packet);
  }
  std::array<std::byte, wire::Mad::kSize> datagram() {
    std::array<std::byte, wire::Mad::kSize> octets{};
    wire::Mad{
        .header = {.mgmt_class = kClasses[choices_.octet_below(kClasses.size())],
                   .class_version = 1,
                   .method = wire::MadMethod{kMethods[choices_.octet_below(8)]},
                   .transaction = wire::TransactionId{(std::uint64_t{choices_.below(8)} << 32) |
                                                      choices_.octet_below(4)}}}
        .emit(octets);
    octets[39] = std::byte{choices_.octet_below(3)};
    if (choices_.octet_below(2) == 0) rmpp().emit(octets);
    if (choices_.octet_below(16) == 0) octets[choices_.octet()] = std::byte{choices_.octet()};
    return octets;
  }
  wire::Rmpp rmpp() {
    const std::uint8_t flags = choices_.octet();
    const std::uint8_t segment = choices_.octet_below(4);
    return {.type = wire::RmppType{choices_.octet_below(6)},
            .is_active = (flags & 0x30) != 0,
            .is_first = (flags & 1) != 0 || segment == 1,
            .is_last = (flags & 2) != 0,
            .status = wire::RmppStatus{(flags & 12) != 12 ? std::uint8_t{0} : choices_.octet()},
            .segment = segment,
            .extent = choices_.octet()};
  }
  [[nodiscard]] ClientId client() { return ClientId{choices_.octet_below(kClients)}; }
  [[nodiscard]] AgentId agent() { return AgentId{choices_.octet_below(4)}; }

  void drain() {
    for (int i = 0; i < 8; ++i) {  // some packets wait, as before a slow owner
      const auto packet = port_.poll_transmit(now_);
      if (!packet) break;
      VB_ASSERT(packet->view());
      sent_.push_back(*packet);
    }
    if (sent_.size() > 64) sent_.erase(sent_.begin(), sent_.end() - 32);
    while (const auto delivery = port_.poll_delivery()) {
      VB_ASSERT(static_cast<std::uint32_t>(delivery->client) < kClients);
      const UserMad& mad = delivery->mad;
      VB_ASSERT(mad.status == 0 || mad.octets.size() == UserMad::kUnansweredOctets);
      VB_ASSERT(mad.status != 0 || mad.octets.size() >= wire::Rmpp::kEnd);
    }
  }

  test::FuzzInput& choices_;
  MadPort port_;
  Instant now_{};
  std::vector<ManagementPacket> sent_{};
};

}  // namespace
}  // namespace verbatim::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput choices(data, size);
  verbatim::fabric::History(choices).run();
  return 0;
}

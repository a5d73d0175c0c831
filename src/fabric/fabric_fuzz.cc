// SPDX-License-Identifier: Apache-2.0
// A small fabric whose programs send arbitrary datagrams and packets and whose user pulls cables
// and power. None of them makes it stop, loop or show a state that contradicts itself, and each
// packet of a program is done exactly once, at the latest when all cables are pulled out.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "fabric/fabric.h"
#include "fabric/topology/generate.h"
#include "wire/headers/smp.h"

namespace verbatim::fabric {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::uint16_t, 20> kAttributes{
    0x0001, 0x0002, 0x0010, 0x0011, 0x0012, 0x0013, 0x0014, 0x0015, 0x0016, 0x0017,
    0x0018, 0x0019, 0x001b, 0x001d, 0x0020, 0x0031, 0x0032, 0x0050, 0xff17, 0xff90};
constexpr std::array<std::uint8_t, 6> kMethods{0x01, 0x02, 0x05, 0x07, 0x81, 0x03};
constexpr std::array<wire::MgmtClass, 5> kClasses{
    wire::MgmtClass::kSubnetDirectedRoute, wire::MgmtClass::kSubnetLidRouted,
    wire::MgmtClass::kPerformance, wire::MgmtClass{0x32}, wire::MgmtClass{0x21}};
constexpr ClientId kClient{1};
constexpr std::size_t kStepsMax = 100;  // of one history: each may take many events

Topology small_tree() {
  std::string message;
  auto topology = tree_topology("2x1", {}, message);
  VB_ASSERT(topology);
  return std::move(topology).value();
}

class History {
 public:
  explicit History(test::FuzzInput& choices)
      : choices_(choices), fabric_(small_tree(), options_of(choices)) {
    for (std::uint32_t node = 0; node < fabric_.topology().nodes.size(); ++node) {
      const bool is_switch = fabric_.topology().nodes[node].kind == NodeKind::kSwitch;
      ends_.push_back({.node = node, .port = is_switch ? std::uint8_t{0} : std::uint8_t{1}});
    }
    for (const PortEnd end : ends_) {
      for (const wire::MgmtClass mgmt_class : kClasses) claim(end, mgmt_class);
    }
  }

  void run() {
    for (std::size_t step = 0; step < kStepsMax && !choices_.is_empty(); ++step) {
      act();
      pass(milliseconds(choices_.octet_below(4)));
      check();
    }
    pass(milliseconds(500));
    for (const PortEnd end : ends_) fabric_.close_client(now_, end, kClient);
    pass(milliseconds(500));
    check();
    for (const TopologyLink& link : fabric_.topology().links) {
      (void)fabric_.set_cable(now_, link.a, false);
    }
    pass(milliseconds(500));
    VB_ASSERT(std::ranges::all_of(posted_, [](bool is_done) { return is_done; }));
    VB_ASSERT(fabric_.waiting_lanes().empty());
  }

 private:
  /// Half of the histories have slow links, on which packets wait.
  static FabricOptions options_of(test::FuzzInput& choices) {
    const std::uint8_t seed = choices.octet();
    return {.seed = seed, .slowdown = seed % 2 == 0 ? 0U : 10'000U};
  }

  void claim(PortEnd end, wire::MgmtClass mgmt_class) {
    const bool is_subnet = mgmt_class == wire::MgmtClass::kSubnetDirectedRoute ||
                           mgmt_class == wire::MgmtClass::kSubnetLidRouted;
    Registration registration{.qpn = is_subnet ? wire::QpNumber::kSmi : wire::QpNumber::kGsi,
                              .mgmt_class = mgmt_class,
                              .class_version = 1,
                              .oui = {0, 0x14, 0x05}};
    if (choices_.octet_below(2) == 0)
      registration.methods.set(kMethods[choices_.octet_below(6)] & 0x7f);
    VB_ASSERT(fabric_.register_agent(end, kClient, registration));
  }

  void act() {
    switch (choices_.octet_below(10)) {
      case 0: {
        const auto& links = fabric_.topology().links;
        (void)fabric_.set_cable(now_, links[choices_.octet() % links.size()].a,
                                choices_.octet_below(2) == 0);
        break;
      }
      case 1:
        fabric_.set_power(now_, some_end().node, choices_.octet_below(4) != 0);
        break;
      case 2:
        fabric_.set_is_sm(now_, some_end(), choices_.octet_below(2) == 0);
        break;
      case 3:
        bring_up();
        break;
      case 4:
        post_data();
        break;
      default:
        post();
        break;
    }
  }
  [[nodiscard]] PortEnd some_end() { return ends_[choices_.octet() % ends_.size()]; }

  /// The LID and state of a port by a right datagram, so that histories come further.
  void bring_up() {
    const PortEnd end = some_end();
    wire::Smp smp{.method = wire::MadMethod::kSet, .attribute = wire::SmpAttribute::kPortInfo};
    smp.attribute_modifier = choices_.octet_below(4);
    smp.data[17] = std::byte{choices_.octet_below(6)};                    // LID
    smp.data[19] = std::byte{choices_.octet_below(6)};                    // LID of the manager
    smp.data[32] = std::byte{choices_.octet_below(5)};                    // state
    smp.data[33] = static_cast<std::byte>(choices_.octet_below(4) << 4);  // physical state
    smp.data[36] = std::byte{0x50};
    smp.data[43] = std::byte{0x10};
    std::array<std::byte, wire::Mad::kSize> octets;
    smp.emit(octets);
    send(end, octets, 0);
  }
  void post_data() {
    PortEnd from = some_end();
    from.port = 1;
    if (fabric_.topology().nodes[from.node].kind == NodeKind::kSwitch) {
      from = *fabric_.peer_of(from);  // a host
    }
    const DataPacket packet{.handle = static_cast<std::uint32_t>(posted_.size()),
                            .source = wire::Lid{choices_.octet_below(6)},
                            .destination = some_destination(),
                            .level = wire::ServiceLevel{choices_.octet_below(16)},
                            .pkey = wire::PKey{choices_.two_octets()},
                            .dest_qp = wire::QpNumber{choices_.octet()},
                            .words = choices_.two_octets()};
    posted_.push_back(false);
    fabric_.post_data(now_, from, packet);
    drain();
  }
  [[nodiscard]] wire::Lid some_destination() {
    switch (choices_.octet_below(4)) {
      case 0:
        return wire::Lid{choices_.two_octets()};
      case 1:
        return wire::Lid{static_cast<std::uint16_t>(0xc000U + choices_.octet_below(32))};
      default:
        return wire::Lid{choices_.octet_below(8)};
    }
  }
  void post() {
    const auto index = choices_.octet_below(kClasses.size());
    std::array<std::byte, wire::Mad::kSize> octets{};
    wire::Mad mad{
        .header = {
            .mgmt_class = kClasses[index],
            .class_version = static_cast<std::uint8_t>(choices_.octet_below(8) == 0 ? 2 : 1),
            .method = wire::MadMethod{kMethods[choices_.octet_below(6)]},
            .status = choices_.octet_below(8) == 0 ? choices_.two_octets() : std::uint16_t{0},
            .transaction = wire::TransactionId{choices_.octet()},
            .attribute_id = kAttributes[choices_.octet_below(kAttributes.size())],
            .attribute_modifier = modifier()}};
    if (index == 0) {
      const unsigned pointer = choices_.octet_below(8) == 0 ? choices_.octet() : 0U;
      const unsigned count =
          choices_.octet_below(16) == 0 ? choices_.octet() : choices_.octet_below(5);
      mad.header.class_specific = static_cast<std::uint16_t>((pointer << 8) | count);
    }
    for (std::uint8_t left = choices_.octet_below(24); left > 0; --left) {
      mad.data[choices_.octet() % mad.data.size()] = std::byte{choices_.octet()};
    }
    mad.emit(octets);
    if (index == 0) {
      octets[32] = octets[33] = octets[34] = octets[35] = std::byte{0xff};
      for (std::size_t hop = 1; hop <= 4; ++hop)
        octets[128 + hop] = std::byte{choices_.octet_below(4)};
    }
    send(some_end(), octets, index);
  }
  [[nodiscard]] std::uint32_t modifier() {
    const std::uint32_t low = choices_.octet();
    switch (choices_.octet_below(4)) {
      case 0:
        return low;
      case 1:
        return 0x8000'0000U | low;
      case 2:
        return (low << 24) | (low << 16) | choices_.octet();
      default:
        return low & 3;
    }
  }
  void send(PortEnd end, std::span<const std::byte> octets, std::size_t index) {
    UserMad mad{.agent = AgentId{static_cast<std::uint32_t>(index)},
                .timeout = milliseconds(choices_.octet_below(3)),
                .retries = choices_.octet_below(2),
                .octets = {octets.begin(), octets.end()}};
    mad.address.lid = index == 0 ? wire::Lid::kPermissive : wire::Lid{choices_.octet_below(8)};
    if (choices_.octet_below(32) == 0) mad.address.lid = wire::Lid{choices_.two_octets()};
    mad.address.qpn = index <= 1 ? wire::QpNumber::kSmi : wire::QpNumber::kGsi;
    mad.address.qkey = wire::QKey::kGsi;
    (void)fabric_.post_send(now_, end, kClient, std::move(mad));  // a transaction may be repeated
  }

  void pass(Duration time) {
    const Instant end = now_ + time;
    while (true) {
      fabric_.advance(now_);
      drain();
      const Instant next = fabric_.next_due().value_or(end);
      if (next >= end) break;
      now_ = std::max(now_, next);
      VB_ASSERT(++passes_ < 100'000);  // time goes on
    }
    now_ = end;
    fabric_.advance(now_);
    drain();
    passes_ = 0;
  }
  void drain() {
    while (const auto event = fabric_.poll_delivery()) {
      const UserMad& mad = event->delivery.mad;
      VB_ASSERT(mad.status == 0 ? mad.octets.size() == wire::Mad::kSize
                                : mad.octets.size() == UserMad::kUnansweredOctets);
    }
    while (const auto outcome = fabric_.poll_data()) {
      VB_ASSERT(outcome->handle < posted_.size() && !posted_[outcome->handle]);
      posted_[outcome->handle] = outcome->kind == DataOutcome::Kind::kDone;
    }
    while (const auto port = fabric_.poll_change()) (void)fabric_.port_status(*port);
  }
  void check() {
    const PortCensus census = fabric_.census();
    VB_ASSERT(census.active <= census.linked && census.linked <= census.cabled);
    for (const TopologyLink& link : fabric_.topology().links) {
      const PortStatus a = fabric_.port_status(link.a);
      const PortStatus b = fabric_.port_status(link.b);
      const auto is_up = [](const PortStatus& status) {
        return status.state >= wire::PortState::kInitialize;
      };
      VB_ASSERT(is_up(a) == is_up(b));
      VB_ASSERT(!is_up(a) || (fabric_.has_cable(link.a) && fabric_.has_power(link.a.node) &&
                              fabric_.has_power(link.b.node)));
      VB_ASSERT(a.state <= wire::PortState::kActive && a.state != wire::PortState::kNoChange);
    }
  }

  test::FuzzInput& choices_;
  Fabric fabric_;
  std::vector<PortEnd> ends_{};
  Instant now_{};
  std::vector<bool> posted_{};  // by handle: it is done
  std::size_t passes_ = 0;
};

}  // namespace
}  // namespace verbatim::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput choices(data, size);
  verbatim::fabric::History(choices).run();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/byte_order.h"
#include "fabric/machine.h"
#include "fabric/node/performance_agent.h"
#include "wire/management/trap_details.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::MgmtClass;
using wire::SmpAttribute;

/// Bounds of the time between two repetitions of a trap; the subnet timeout chooses.
constexpr Duration kTrapIntervalMin = std::chrono::milliseconds(10);
constexpr std::int64_t kTimeoutUnit = 4096;  // nanoseconds

bool is_subnet_class(MgmtClass mgmt_class) noexcept {
  return mgmt_class == MgmtClass::kSubnetLidRouted || mgmt_class == MgmtClass::kSubnetDirectedRoute;
}

bool is_request(MadMethod method) noexcept {
  return method == MadMethod::kGet || method == MadMethod::kSet;
}

void add_violations(std::uint16_t& count, std::uint32_t more) noexcept {
  count = static_cast<std::uint16_t>(count + std::min<std::uint32_t>(more, 0xffffU - count));
}

/// What Linux and the agents of devices answer to a request that is for none of them.
void make_unsupported(ManagementPacket& packet) noexcept {
  const std::span<std::byte, wire::Mad::kSize> mad(packet.mad);
  const bool is_directed = packet.view()->mgmt_class() == MgmtClass::kSubnetDirectedRoute;
  const unsigned status = static_cast<unsigned>(wire::SmpStatus::kUnsupportedMethodOrAttribute);
  store_be<std::uint8_t, 3>(mad, static_cast<std::uint8_t>(MadMethod::kGetResp));
  store_be<std::uint16_t, 4>(
      mad, static_cast<std::uint16_t>(status | (is_directed ? wire::Smp::kReturningBit : 0U)));
}

}  // namespace

/// A packet has reached the node that it is for. `at` is the port at which it arrived; port 0 of a
/// switch for one of its own.
void Fabric::Machine::deliver(Instant now, PortEnd at, ManagementPacket& packet) {
  const auto mad = packet.view();
  if (!mad || is_subnet_class(mad->mgmt_class()) != packet.is_subnet_management()) {
    return drop(now, at, DropReason::kMalformed, packet);
  }
  packet.is_subnet_management() ? deliver_subnet(now, at, packet)
                                : deliver_general(now, at, packet);
}

void Fabric::Machine::deliver_subnet(Instant now, PortEnd at, ManagementPacket& packet) {
  const auto mad = packet.view();
  const SmpAttribute attribute{mad->attribute_id()};
  if (is_request(mad->method()) && attribute != SmpAttribute::kSmInfo) {
    return answer_subnet(now, at, packet);
  }
  if (mad->method() == MadMethod::kTrapRepress && attribute == SmpAttribute::kNotice) {
    const bool is_own = places_[at.node].node.traps().handle_repress(now, mad->transaction());
    arm_traps(at.node);
    if (is_own) return;
  }
  hand_to_program(now, at, packet);
}

void Fabric::Machine::answer_subnet(Instant now, PortEnd at, ManagementPacket& packet) {
  if (!wire::SmpView::parse(*packet.view())) {
    const std::span<std::byte, wire::Mad::kSize> mad(packet.mad);
    make_unsupported(packet);
    const unsigned direction = load_be_at<std::uint16_t>(mad.data() + 4) & wire::Smp::kReturningBit;
    store_be<std::uint16_t, 4>(
        mad, static_cast<std::uint16_t>(direction |
                                        static_cast<unsigned>(wire::SmpStatus::kBadVersion)));
    return answer(now, at, packet);
  }
  Node& node = places_[at.node].node;
  const SmpOutcome outcome =
      answer_smp(now, node, {.ingress = at.port, .source = packet.source}, packet.mad);
  if (!outcome.is_answered) {
    arm_traps(at.node);
    return drop(now, at, DropReason::kBadMKey, packet);
  }
  answer(now, at, packet);
  follow_up(now, at, outcome);
}

/// What the fabric does about a request that the agent has carried out.
void Fabric::Machine::follow_up(Instant now, PortEnd at, const SmpOutcome& outcome) {
  if (outcome.changed_port) {
    const PortEnd changed{.node = at.node, .port = *outcome.changed_port};
    list_change(changed);
    refresh_lanes(now, changed);
  }
  if (outcome.changed_arbitration) {
    refresh_lanes(now, {.node = at.node, .port = *outcome.changed_arbitration});
  }
  if (outcome.order) obey(now, at.node, *outcome.order);
}

std::optional<wire::Smp> Fabric::Machine::administer(Instant now, PortEnd at,
                                                     const wire::Smp& request) {
  std::array<std::byte, wire::Smp::kSize> mad{};
  request.emit(mad);
  Node& node = places_[at.node].node;
  const SmpOutcome outcome = answer_smp(now, node, {.ingress = at.port}, mad);
  arm_traps(at.node);
  if (!outcome.is_answered) return std::nullopt;
  follow_up(now, at, outcome);
  return wire::SmpView::parse(*wire::MadView::parse(mad))->value();
}

void Fabric::Machine::deliver_general(Instant now, PortEnd at, ManagementPacket& packet) {
  if (!has_right_keys(now, at, packet)) return;
  const auto mad = packet.view();
  if (mad->mgmt_class() == MgmtClass::kPerformance && is_request(mad->method())) {
    settle_waits(at.node);
    answer_performance(places_[at.node].node, packet.mad);
    return answer(now, at, packet);
  }
  hand_to_program(now, at, packet);
}

/// Queue pair 1 takes packets of the port's partitions, with its own Q_Key, and with a GRH only to
/// a GID of the port (IBA Vol 1, 9.6.1).
bool Fabric::Machine::has_right_keys(Instant now, PortEnd at, const ManagementPacket& packet) {
  const PortEnd end = management_end(at);
  Port& here = port(end);
  const bool has_pkey = here.is_in_partition(packet.pkey);
  const bool has_qkey = packet.qkey == wire::QKey::kGsi;
  if (has_pkey && has_qkey) {
    if (!packet.global_route) return true;
    for (std::size_t i = 0; i < Port::kGuidsMax; ++i) {
      if (here.gid(i) == packet.global_route->destination) return true;
    }
    drop(now, at, DropReason::kNotForThisPort, packet);
    return false;
  }
  drop(now, at, has_pkey ? DropReason::kBadQKey : DropReason::kBadPKey, packet);
  BadKeyReport report{.key = has_pkey ? BadKeyReport::Key::kQKey : BadKeyReport::Key::kPKey,
                      .last = {.source = packet.source,
                               .destination = packet.destination,
                               .key = has_pkey ? static_cast<std::uint32_t>(packet.qkey)
                                               : static_cast<std::uint32_t>(packet.pkey),
                               .level = packet.level,
                               .source_qp = packet.source_qp,
                               .dest_qp = packet.dest_qp}};
  if (packet.global_route) {
    report.last.source_gid = packet.global_route->source;
    report.last.destination_gid = packet.global_route->destination;
  }
  count_bad_keys(now, end, report);
  return false;
}

/// The counters stop at their largest value (14.2.5.6).
void Fabric::Machine::count_bad_keys(Instant now, PortEnd end, const BadKeyReport& report) {
  const bool is_pkey = report.key == BadKeyReport::Key::kPKey;
  wire::PortInfo& info = port(end).info;
  add_violations(is_pkey ? info.pkey_violations : info.qkey_violations, report.count);
  list_change(end);
  places_[end.node].node.raise_trap(
      now, end.port,
      {.type = wire::NoticeType::kSecurity,
       .number = is_pkey ? wire::TrapNumber::kBadPKey : wire::TrapNumber::kBadQKey,
       .details = report.last.details()});
  arm_traps(end.node);
}

void Fabric::Machine::hand_to_program(Instant now, PortEnd at, ManagementPacket& packet) {
  const PortEnd end = management_end(at);
  const MadVerdict verdict = mad_port(end).handle_packet(now, packet);
  take_outgoing(now, end);
  switch (verdict) {
    case MadVerdict::kDelivered:
    case MadVerdict::kSegment:
      return;
    case MadVerdict::kUnclaimed:
      if (!is_request(packet.view()->method())) {
        return drop(now, at, DropReason::kUnclaimed, packet);
      }
      make_unsupported(packet);
      return answer(now, at, packet);
    case MadVerdict::kUnmatched:
      return drop(now, at, DropReason::kUnmatched, packet);
    case MadVerdict::kMalformed:
      return drop(now, at, DropReason::kMalformed, packet);
    case MadVerdict::kBadPKey:
      return drop(now, at, DropReason::kBadPKey, packet);
    case MadVerdict::kNoRoom:
      return drop(now, at, DropReason::kNoRoom, packet);
  }
}

/// Sends the answer in `packet` to where the request in it came from.
void Fabric::Machine::answer(Instant now, PortEnd at, ManagementPacket& packet) {
  const PortEnd from = management_end(at);
  const wire::Lid own =
      port(from).has_lid(packet.destination) ? packet.destination : port(from).info.lid;
  packet.destination = std::exchange(packet.source, own);
  std::swap(packet.source_qp, packet.dest_qp);
  if (packet.global_route) {
    std::swap(packet.global_route->source, packet.global_route->destination);
  }
  const auto mad = packet.view();
  const bool is_directed = mad->mgmt_class() == MgmtClass::kSubnetDirectedRoute;
  // A request by LID without LIDs comes from the other end of the link.
  if (packet.destination == wire::Lid::kPermissive && !is_directed && at.port != 0) {
    return transmit(now, at, {.packet = packet});
  }
  originate(now, from, {.packet = packet});
}

void Fabric::Machine::arm_traps(std::uint32_t node) {
  alarms_.set(static_cast<std::uint32_t>(mad_ports_.size() + node),
              places_[node].node.traps().next_due());
}

void Fabric::Machine::send_traps(Instant now, std::uint32_t index) {
  Node& node = places_[index].node;
  const PortEnd first = management_end({.node = index, .port = 1});
  const Duration interval =
      std::max(kTrapIntervalMin, Duration(kTimeoutUnit << port(first).info.subnet_timeout));
  while (const auto trap = node.traps().poll(now, interval)) {
    const PortEnd from{.node = index, .port = trap->port};
    const Port& sender = port(from);
    if (!sender.passes_subnet_management()) continue;
    wire::Smp smp{.route = wire::SmpRoute::kLid,
                  .method = MadMethod::kTrap,
                  .transaction = trap->transaction,
                  .attribute = SmpAttribute::kNotice};
    trap->notice.emit(smp.data);
    ManagementPacket packet{.source = sender.info.lid,
                            .destination = sender.info.sm_lid,
                            .level = wire::ServiceLevel{sender.info.sm_level}};
    smp.emit(packet.mad);
    originate(now, from, {.packet = packet});
  }
  arm_traps(index);
}

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/subnet_agent.h"

#include <algorithm>

#include "base/byte_order.h"
#include "fabric/node/attribute_access.h"
#include "wire/management/trap_details.h"

namespace verbatim::fabric {
namespace {

using wire::SmpAttribute;
using wire::SmpStatus;

SmpStatus read_node_info(const AttributeAccess& access) {
  if (access.is_set) return SmpStatus::kUnsupportedMethodOrAttribute;
  access.node.info(access.ingress).emit(access.data);
  return SmpStatus::kOk;
}

SmpStatus read_description(const AttributeAccess& access) {
  if (access.is_set) return SmpStatus::kUnsupportedMethodOrAttribute;
  std::ranges::fill(access.data, std::byte{0});
  const auto text = std::as_bytes(std::span(access.node.description()));
  std::ranges::copy(text.first(std::min(text.size(), access.data.size())), access.data.begin());
  return SmpStatus::kOk;
}

SmpStatus access_of_switch(const AttributeAccess& access, SmpAttribute attribute) {
  if (!access.node.is_switch()) return SmpStatus::kUnsupportedMethodOrAttribute;
  if (attribute == SmpAttribute::kSwitchInfo) return access_switch_info(access);
  if (attribute == SmpAttribute::kLinearForwardingTable) return access_linear_table(access);
  return access_multicast_table(access);
}

SmpStatus carry_out(const AttributeAccess& access, SmpAttribute attribute) {
  switch (attribute) {
    case SmpAttribute::kNodeInfo:
      return read_node_info(access);
    case SmpAttribute::kNodeDescription:
      return read_description(access);
    case SmpAttribute::kPortInfo:
      return access_port_info(access);
    case SmpAttribute::kGuidInfo:
      return access_guid_info(access);
    case SmpAttribute::kPKeyTable:
      return access_pkey_table(access);
    case SmpAttribute::kSlToVlTable:
      return access_lane_map(access);
    case SmpAttribute::kVlArbitrationTable:
      return access_arbitration(access);
    case SmpAttribute::kSwitchInfo:
    case SmpAttribute::kLinearForwardingTable:
    case SmpAttribute::kMulticastForwardingTable:
      return access_of_switch(access, attribute);
    case SmpAttribute::kNotice:  // IsNoticeSupported is not set
    case SmpAttribute::kSmInfo:
    case SmpAttribute::kLedInfo:
      break;
  }
  return SmpStatus::kUnsupportedMethodOrAttribute;
}

void report_bad_mkey(Instant now, Node& node, const SmpArrival& arrival, const wire::SmpView& smp) {
  wire::BadMKey bad{.lid = arrival.source,
                    .dr_source = smp.dr_source(),
                    .method = smp.method(),
                    .attribute_id = static_cast<std::uint16_t>(smp.attribute()),
                    .attribute_modifier = smp.attribute_modifier(),
                    .mkey = smp.mkey(),
                    .is_directed = smp.is_directed(),
                    .hop_count = smp.hop_count()};
  if (smp.is_directed()) std::ranges::copy(smp.return_path(), bad.return_path.begin());
  node.raise_trap(now, node.management_port(arrival.ingress),
                  {.type = wire::NoticeType::kSecurity,
                   .number = wire::TrapNumber::kBadMKey,
                   .details = bad.details()});
}

SmpStatus status_of(Instant now, Node& node, const SmpArrival& arrival, const wire::SmpView& smp,
                    wire::AttributeData data, SmpOutcome& outcome) {
  if (smp.method() != wire::MadMethod::kGet && smp.method() != wire::MadMethod::kSet) {
    return SmpStatus::kUnsupportedMethod;
  }
  const AttributeAccess access{.now = now,
                               .node = node,
                               .ingress = arrival.ingress,
                               .is_set = smp.method() == wire::MadMethod::kSet,
                               .modifier = smp.attribute_modifier(),
                               .mkey = smp.mkey(),
                               .data = data,
                               .outcome = outcome};
  return carry_out(access, smp.attribute());
}

void make_answer(std::span<std::byte, wire::Smp::kSize> mad, SmpStatus status, bool is_directed) {
  const unsigned direction = is_directed ? wire::Smp::kReturningBit : 0U;
  store_be<std::uint8_t, 3>(mad, static_cast<std::uint8_t>(wire::MadMethod::kGetResp));
  store_be<std::uint16_t, 4>(mad,
                             static_cast<std::uint16_t>(static_cast<unsigned>(status) | direction));
}

}  // namespace

SmpOutcome answer_smp(Instant now, Node& node, const SmpArrival& arrival,
                      std::span<std::byte, wire::Smp::kSize> mad) {
  SmpOutcome outcome;
  const auto smp = wire::SmpView::parse(*wire::MadView::parse(mad));
  const bool is_directed = smp->is_directed();
  Port& guard = node.port(node.management_port(arrival.ingress));
  if (!guard.mkey_guard.admits(now, guard.info, smp->method(), smp->mkey())) {
    report_bad_mkey(now, node, arrival, *smp);
    return outcome;
  }
  outcome.is_answered = true;
  const auto data = mad.subspan<64, wire::Smp::kDataSize>();
  make_answer(mad, status_of(now, node, arrival, *smp, data, outcome), is_directed);
  return outcome;
}

}  // namespace verbatim::fabric

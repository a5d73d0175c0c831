// SPDX-License-Identifier: Apache-2.0
#include "connect/subnet_group.h"

#include <algorithm>

#include "wire/management/sa_message.h"

namespace verbatim::connect {
namespace {

using wire::MulticastRecord;

// The fourth octet of a GID that an IP address has become.
constexpr std::uint8_t kIpoib = 0x1b;
constexpr std::uint8_t kRdmaCm = 0x01;

/// ff12, the signature, and the P_Key.
wire::Gid gid_with(std::uint8_t family, std::uint8_t signature, wire::PKey pkey) noexcept {
  const auto key = static_cast<unsigned>(pkey);
  return {.octets = {0xff, 0x12, family, signature, static_cast<std::uint8_t>(key >> 8),
                     static_cast<std::uint8_t>(key)}};
}

constexpr std::uint8_t kIpv4 = 0x40;
constexpr std::uint8_t kIpv6 = 0x60;

/// ff1x:a01b: a GID that subnet administration has made, as Linux recognises it.
bool is_given_gid(const wire::Gid& address) noexcept {
  return address.octets[0] == 0xff && (address.octets[1] & 0xf0) == 0x10 &&
         address.octets[2] == 0xa0 && address.octets[3] == kIpoib;
}

template <typename Record>
MadOctets message_of(wire::MadMethod method, const Record& record, std::uint64_t mask) noexcept {
  MadOctets octets;
  wire::SaMessage{.method = method, .component_mask = mask}.emit(record, octets);
  return octets;
}

}  // namespace

wire::Gid group_gid_of(const IpEndpoint& group, wire::PortSpace space, wire::PKey pkey) noexcept {
  if (group.is_any()) return {};
  if (group.ib || (!group.is_ipv4 && is_given_gid(group.address))) return group.address;
  const std::uint8_t signature = space == wire::PortSpace::kUdp ? kRdmaCm : kIpoib;
  const auto& from = group.address.octets;
  wire::Gid gid = gid_with(group.is_ipv4 ? kIpv4 : kIpv6, signature, pkey);
  if (group.is_ipv4) {
    std::copy(from.begin() + 12, from.end(), gid.octets.begin() + 12);
    gid.octets[12] &= 0x0f;
  } else {
    std::copy(from.begin() + 6, from.end(), gid.octets.begin() + 6);
  }
  return gid;
}

wire::Gid broadcast_gid_of(wire::PKey pkey) noexcept {
  wire::Gid gid = gid_with(kIpv4, kIpoib, pkey);
  std::fill(gid.octets.begin() + 12, gid.octets.end(), std::uint8_t{0xff});
  return gid;
}

MadOctets query_of_group(const wire::Gid& group, const wire::Gid& port_gid) noexcept {
  return message_of(wire::MadMethod::kGet, MulticastRecord{.group = group, .port_gid = port_gid},
                    MulticastRecord::kGroup);
}

MadOctets join_of(const SubnetGroup& group, wire::PortSpace space) noexcept {
  using Record = MulticastRecord;
  std::uint64_t mask = Record::kGroup | Record::kPortGid | Record::kPKey | Record::kJoinState |
                       Record::kQKey | Record::kServiceLevel | Record::kFlowLabel |
                       Record::kTrafficClass;
  if (space == wire::PortSpace::kIpoib) {
    mask |= Record::kRate | Record::kRateSelector | Record::kMtu | Record::kMtuSelector |
            Record::kHopLimit;
  }
  return message_of(wire::MadMethod::kSet, group.record, mask);
}

MadOctets leave_of(const SubnetGroup& group) noexcept {
  return message_of(
      wire::MadMethod::kDelete, group.record,
      MulticastRecord::kGroup | MulticastRecord::kPortGid | MulticastRecord::kJoinState);
}

void take_parameters(const MulticastRecord& broadcast, wire::PortSpace space,
                     MulticastRecord& record) noexcept {
  record.level = broadcast.level;
  record.flow_label = broadcast.flow_label;
  record.traffic_class = broadcast.traffic_class;
  if (space != wire::PortSpace::kIpoib) return;
  record.qkey = broadcast.qkey;
  record.rate_selector = record.mtu_selector = wire::RecordSelector::kExactly;
  record.rate = broadcast.rate;
  record.mtu = broadcast.mtu;
  record.hop_limit = broadcast.hop_limit;
}

}  // namespace verbatim::connect

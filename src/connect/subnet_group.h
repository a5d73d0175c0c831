// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "connect/ip_endpoint.h"
#include "wire/cm/service_id.h"
#include "wire/headers/mad.h"
#include "wire/management/multicast_record.h"

/// Multicast groups of ids in a subnet of InfiniBand, and the requests about them to subnet
/// administration.
namespace verbatim::connect {

/// The GID of a group, as Linux makes it of an IP address (RFC 4391, 4): a scope that is
/// link-local, the signature of IPv4 or IPv6, the P_Key, and the lower bits of the address. Ids of
/// the UDP port space have a signature of rdma_cm in place of that of IPoIB. An IPv6 address that
/// is a GID given by subnet administration, and a GID, stay what they are; the wildcard address
/// becomes zero, for which subnet administration chooses a group.
[[nodiscard]] wire::Gid group_gid_of(const IpEndpoint& group, wire::PortSpace space,
                                     wire::PKey pkey) noexcept;
/// The group of all ports of a partition, from which others take their parameters.
[[nodiscard]] wire::Gid broadcast_gid_of(wire::PKey pkey) noexcept;

/// The membership of an id in one group, from the request of the program on.
struct SubnetGroup {
  enum class Phase : std::uint8_t {
    kAsksBroadcast,  // for the parameters of the broadcast group
    kJoins,          // has asked to join
    kJoined,
  };
  std::uint32_t number = 0;  // of those of one id
  wire::Gid address{};       // as the program names it
  void* context = nullptr;   // of the program
  Phase phase = Phase::kAsksBroadcast;
  wire::MulticastRecord record{};

  /// Whether subnet administration may know of it.
  [[nodiscard]] bool may_be_member() const noexcept { return phase != Phase::kAsksBroadcast; }
};

using MadOctets = std::array<std::byte, wire::Mad::kSize>;
[[nodiscard]] MadOctets query_of_group(const wire::Gid& group, const wire::Gid& port_gid) noexcept;
/// Of an id of the IPoIB port space the group has all parameters of the broadcast group.
[[nodiscard]] MadOctets join_of(const SubnetGroup& group, wire::PortSpace space) noexcept;
[[nodiscard]] MadOctets leave_of(const SubnetGroup& group) noexcept;

/// Takes those parameters of the broadcast group that another group of its partition has.
void take_parameters(const wire::MulticastRecord& broadcast, wire::PortSpace space,
                     wire::MulticastRecord& record) noexcept;

}  // namespace verbatim::connect

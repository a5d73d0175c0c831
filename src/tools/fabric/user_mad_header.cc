// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/user_mad_header.h"

#include <arpa/inet.h>

#include <limits>
#include <utility>

#include "wire/management/rmpp.h"

namespace verbatim::tools {
namespace {

constexpr std::uint32_t kForever = std::numeric_limits<std::uint32_t>::max();
/// For a program that waits for ever. A transaction that outlives the fabric is no limit.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

}  // namespace

fabric::UserMad mad_of(const host::UserMadHeader& header, std::vector<std::byte>&& message) {
  fabric::UserMad mad;
  mad.agent = fabric::AgentId{header.agent};
  mad.timeout =
      header.timeout_ms == kForever ? kLongest : std::chrono::milliseconds(header.timeout_ms);
  mad.retries = header.retries;
  mad.pkey_index = header.pkey_index;
  mad.address = {.lid = wire::Lid{ntohs(header.lid_be)},
                 .qpn = wire::QpNumber{ntohl(header.qpn_be) & wire::kQpNumberMask},
                 .qkey = wire::QKey{ntohl(header.qkey_be)},
                 .level = wire::ServiceLevel{header.service_level},
                 .path_bits = header.path_bits,
                 .has_grh = header.has_grh != 0,
                 .gid_index = header.gid_index,
                 .hop_limit = header.hop_limit,
                 .traffic_class = header.traffic_class,
                 .flow_label = ntohl(header.flow_label_be),
                 .gid = wire::Gid{header.gid}};
  mad.octets = std::move(message);
  return mad;
}

host::UserMadHeader header_of(const fabric::UserMad& mad) {
  host::UserMadHeader header;
  header.agent = static_cast<std::uint32_t>(mad.agent);
  header.status = mad.status;
  header.timeout_ms =
      mad.timeout == kLongest ? kForever : static_cast<std::uint32_t>(mad.timeout.count());
  header.retries = mad.retries;
  header.qpn_be = htonl(static_cast<std::uint32_t>(mad.address.qpn));
  header.qkey_be = htonl(static_cast<std::uint32_t>(mad.address.qkey));
  header.lid_be = htons(static_cast<std::uint16_t>(mad.address.lid));
  header.service_level = static_cast<std::uint8_t>(mad.address.level);
  header.path_bits = mad.address.path_bits;
  header.has_grh = mad.address.has_grh ? 1 : 0;
  header.gid_index = mad.address.gid_index;
  header.hop_limit = mad.address.hop_limit;
  header.traffic_class = mad.address.traffic_class;
  header.gid = mad.address.gid.octets;
  header.flow_label_be = htonl(mad.address.flow_label);
  header.pkey_index = mad.pkey_index;
  return header;
}

Expected<fabric::Registration> registration_of(const host::FabricCall& call) {
  const bool is_known =
      (call.flags & ~kRegistrationFlags) == 0 && call.rmpp_version <= wire::Rmpp::kVersion;
  if (!is_known || (call.management_class == 0 && call.flags != 0)) return Errc::kInvalidArgument;
  fabric::Registration registration;
  registration.qpn = wire::QpNumber{call.qpn};
  registration.mgmt_class = wire::MgmtClass{call.management_class};
  registration.class_version = call.class_version;
  registration.oui = {static_cast<std::uint8_t>(call.oui >> 16),
                      static_cast<std::uint8_t>(call.oui >> 8),
                      static_cast<std::uint8_t>(call.oui)};
  registration.methods =
      (fabric::MethodMask(call.methods[1]) << 64) | fabric::MethodMask(call.methods[0]);
  if (call.rmpp_version != 0) {
    registration.rmpp = call.flags != 0 ? fabric::RmppMode::kUser : fabric::RmppMode::kPort;
  }
  return registration;
}

}  // namespace verbatim::tools

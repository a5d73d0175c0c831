// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/address.h"
#include "cm/timing.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_rej.h"
#include "wire/cm/cm_rep.h"
#include "wire/cm/cm_req.h"
#include "wire/cm/cm_sidr.h"
#include "wire/cm/reject_reason.h"
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"
#include "wire/headers/psn.h"

/// The requests of a user to an Agent. Spans are borrowed for the call. Private data that is longer
/// than its field is refused with kInvalidArgument, never truncated. The peer sees it padded with
/// zeroes to the length of the field.
namespace verbatim::cm {

/// Names a listener of one Agent; zero names none.
enum class ListenerId : std::uint32_t {};

struct ListenRequest {
  wire::ServiceId service_id{};
  std::uint64_t service_mask = ~std::uint64_t{0};  // the bits of the service ID that must agree
  std::optional<wire::Gid> address{};  // only requests to this address; nothing: any address
  std::uint32_t backlog = 1024;        // most requests that the user has not taken yet
};

/// A connection request: the contents of a CmReq of the side that sends it.
struct ConnectRequest {
  static constexpr std::size_t kPrivateOctetsMax = wire::CmReq::kPrivateOctets;
  Address address{};
  Travel travel{};
  wire::ServiceId service_id{};
  wire::CmTransport transport = wire::CmTransport::kRc;  // kExtended is XRC; kRd is refused
  wire::QpNumber qpn{};
  wire::Psn starting_psn{};  // of the first packet that the peer sends
  wire::PathMtu path_mtu = wire::PathMtu::k1024;
  std::uint8_t responder_resources = 0;  // READs and atomics accepted at a time
  std::uint8_t initiator_depth = 0;      // READs and atomics that this end sends at a time
  std::uint8_t retry_count = 7;          // 3 bits
  std::uint8_t rnr_retry_count = 7;      // 3 bits; 7 means without limit
  bool end_to_end_flow_control = false;
  bool uses_srq = false;
  TimeCode ack_delay = kAckDelay;
  TimeCode life_time = kPacketLifeTime;         // both make up the local ACK timeout
  TimeCode remote_response = kResponseTimeout;  // time for the peer to answer
  TimeCode local_response = kResponseTimeout;   // time for this end to answer
  std::uint8_t max_cm_retries = kCmRetriesMax;  // of each message; 4 bits
  wire::Ece ece{};
  std::span<const std::byte> private_data{};  // rdma_cm: an IpCmHeader, then the user's data
};

/// The user's answer to AgentEventKind::kConnectRequest: the contents of a CmRep.
struct AcceptRequest {
  static constexpr std::size_t kPrivateOctetsMax = wire::CmRep::kPrivateOctets;
  wire::QpNumber qpn{};
  wire::Psn starting_psn{};  // of the first packet that the peer sends
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t rnr_retry_count = 7;  // 3 bits; 7 means without limit
  bool end_to_end_flow_control = false;
  bool uses_srq = false;
  TimeCode ack_delay = kAckDelay;
  wire::Ece ece{};
  std::span<const std::byte> private_data{};
};

/// The user's refusal of a kConnectRequest or of a kReply.
struct RejectRequest {
  static constexpr std::size_t kInfoOctetsMax = wire::CmRej::kInfoOctetsMax;
  static constexpr std::size_t kPrivateOctetsMax = wire::CmRej::kPrivateOctets;
  wire::RejectReason reason = wire::RejectReason::kConsumer;
  std::span<const std::byte> info{};  // additional information, as the reason defines it
  std::span<const std::byte> private_data{};
};

/// Asks which queue pair takes datagrams for a service (SIDR).
struct ServiceRequest {
  static constexpr std::size_t kPrivateOctetsMax = wire::CmSidrReq::kPrivateOctets;
  Address address{};
  wire::ServiceId service_id{};
  wire::PKey pkey = wire::PKey::kDefault;
  TimeCode response = kResponseTimeout;
  std::uint8_t max_cm_retries = kCmRetriesMax;
  std::span<const std::byte> private_data{};  // rdma_cm: an IpCmHeader, then the user's data
};

/// The user's answer to AgentEventKind::kServiceRequest.
struct ServiceAnswer {
  static constexpr std::size_t kInfoOctetsMax = wire::CmSidrRep::kInfoOctetsMax;
  static constexpr std::size_t kPrivateOctetsMax = wire::CmSidrRep::kPrivateOctets;
  wire::SidrStatus status = wire::SidrStatus::kValid;
  wire::QpNumber qpn{};
  wire::QKey qkey{};
  wire::Ece ece{};
  std::span<const std::byte> info{};
  std::span<const std::byte> private_data{};
};

}  // namespace verbatim::cm

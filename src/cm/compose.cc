// SPDX-License-Identifier: Apache-2.0
#include "cm/compose.h"

#include <array>

#include "base/byte_order.h"
#include "wire/headers/lrh.h"

namespace verbatim::cm {
namespace {

using wire::CmExtendedTransport;
using wire::CmTransport;

constexpr std::uint8_t kThreeBits = 7;
constexpr std::uint8_t kFourBits = 15;

bool is_qp_number(wire::QpNumber qpn) noexcept {
  return static_cast<std::uint32_t>(qpn) <= wire::kQpNumberMask;
}

bool is_mtu(wire::PathMtu mtu) noexcept {
  return mtu >= wire::PathMtu::k256 && mtu <= wire::PathMtu::k4096;
}

wire::CmPath path_of(const ConnectRequest& request) noexcept {
  const Travel& travel = request.travel;
  const wire::LocalRoute& route = request.address.route;
  return {.local_lid = route.exists() ? route.source : wire::Lid::kPermissive,
          .remote_lid = route.exists() ? route.destination : wire::Lid::kPermissive,
          .local_gid = request.address.local,
          .remote_gid = request.address.remote,
          .flow_label = travel.flow_label,
          .packet_rate = travel.packet_rate,
          .traffic_class = travel.traffic_class,
          .hop_limit = travel.hop_limit,
          .level = wire::ServiceLevel{travel.service_level},
          .subnet_local = travel.hop_limit <= 1,
          .local_ack_timeout =
              static_cast<std::uint8_t>(ack_timeout_of(request.ack_delay, request.life_time))};
}

Travel travel_of(const wire::CmReq& req) noexcept {
  return {.flow_label = req.primary.flow_label,
          .traffic_class = req.primary.traffic_class,
          .hop_limit = req.primary.hop_limit,
          .service_level = static_cast<std::uint8_t>(req.primary.level),
          .packet_rate = req.primary.packet_rate,
          .pkey = req.pkey};
}

/// The address of the peer as its request names it. A request over RoCE has no LIDs.
Address address_of(const wire::CmReq& req) noexcept {
  Address address{.local = req.primary.remote_gid, .remote = req.primary.local_gid};
  if (req.primary.local_lid != wire::Lid::kPermissive) {
    address.route = {.source = req.primary.remote_lid,
                     .destination = req.primary.local_lid,
                     .level = req.primary.level};
  }
  return address;
}

void set_info(wire::CmRej& rej, std::span<const std::byte> info) noexcept {
  fill(rej.info_field, info);
  rej.info_octets = static_cast<std::uint8_t>(std::min(info.size(), rej.info_field.size()));
}

bool is_transport_we_have(const wire::CmReq& req) noexcept {
  switch (req.transport) {
    case CmTransport::kRc:
    case CmTransport::kUc:
      return true;
    case CmTransport::kRd:
      return false;
    case CmTransport::kExtended:
      return req.extended_transport == CmExtendedTransport::kXrc;
  }
  return false;
}

}  // namespace

bool is_valid(const ConnectRequest& request, wire::PathMtu path_mtu_max) noexcept {
  return request.private_data.size() <= ConnectRequest::kPrivateOctetsMax &&
         request.transport != CmTransport::kRd && is_qp_number(request.qpn) &&
         is_mtu(request.path_mtu) && request.path_mtu <= path_mtu_max &&
         request.retry_count <= kThreeBits && request.rnr_retry_count <= kThreeBits &&
         request.max_cm_retries <= kFourBits && request.travel.service_level <= kFourBits &&
         !request.address.remote.is_multicast();
}

bool is_valid(const AcceptRequest& request) noexcept {
  return request.private_data.size() <= AcceptRequest::kPrivateOctetsMax &&
         is_qp_number(request.qpn) && request.rnr_retry_count <= kThreeBits;
}

wire::CmReq compose_req(const Communication& communication, const ConnectRequest& request,
                        wire::Guid ca_guid) noexcept {
  const bool is_xrc = request.transport == CmTransport::kExtended;
  wire::CmReq req{
      .transaction = communication.transaction,
      .local_comm_id = communication.id,
      .ece = request.ece,
      .service_id = request.service_id,
      .local_ca_guid = ca_guid,
      .local_qpn = request.qpn,
      .responder_resources = request.responder_resources,
      .initiator_depth = request.initiator_depth,
      .remote_cm_response_timeout = static_cast<std::uint8_t>(request.remote_response),
      .local_cm_response_timeout = static_cast<std::uint8_t>(request.local_response),
      .transport = request.transport,
      .extended_transport = is_xrc ? CmExtendedTransport::kXrc : CmExtendedTransport::kNone,
      .end_to_end_flow_control = request.end_to_end_flow_control,
      .uses_srq = request.uses_srq,
      .starting_psn = request.starting_psn,
      .retry_count = request.retry_count,
      .rnr_retry_count = request.rnr_retry_count,
      .max_cm_retries = request.max_cm_retries,
      .pkey = request.travel.pkey,
      .path_mtu = request.path_mtu,
      .primary = path_of(request)};
  fill(req.private_data, request.private_data);
  return req;
}

wire::CmRep compose_rep(const Communication& communication, const AcceptRequest& request,
                        wire::Guid ca_guid) noexcept {
  wire::CmRep rep{.transaction = communication.transaction,
                  .local_comm_id = communication.id,
                  .remote_comm_id = *communication.remote_id,
                  .ece = request.ece,
                  .starting_psn = request.starting_psn,
                  .responder_resources = request.responder_resources,
                  .initiator_depth = request.initiator_depth,
                  .target_ack_delay = static_cast<std::uint8_t>(request.ack_delay),
                  .failover = communication.has_alternate ? wire::CmFailover::kNotSupported
                                                          : wire::CmFailover::kAccepted,
                  .end_to_end_flow_control = request.end_to_end_flow_control,
                  .rnr_retry_count = request.rnr_retry_count,
                  .uses_srq = request.uses_srq,
                  .local_ca_guid = ca_guid};
  if (communication.settings.transport == CmTransport::kExtended) {
    rep.local_eecn = static_cast<std::uint32_t>(request.qpn);
  } else {
    rep.local_qpn = request.qpn;
  }
  fill(rep.private_data, request.private_data);
  return rep;
}

wire::CmRej compose_rej(const Communication& communication, wire::CmRej::Rejected rejected,
                        const RejectRequest& request) noexcept {
  wire::CmRej rej{.transaction = communication.transaction,
                  .local_comm_id = communication.id,
                  .remote_comm_id = communication.remote_id.value_or(wire::CommId{}),
                  .rejected = rejected,
                  .reason = request.reason};
  set_info(rej, request.info);
  fill(rej.private_data, request.private_data);
  return rej;
}

wire::CmRej compose_timeout(const Communication& communication, wire::Guid ca_guid) noexcept {
  std::array<std::byte, 8> guid;
  store_be<std::uint64_t, 0>(std::span(guid), static_cast<std::uint64_t>(ca_guid));
  return compose_rej(communication, wire::CmRej::Rejected::kOther,
                     {.reason = wire::RejectReason::kTimeout, .info = guid});
}

wire::CmMra compose_mra(const Communication& communication, TimeCode service_timeout) noexcept {
  using Received = wire::CmMra::Received;
  const bool is_request = communication.state == State::kReqReceived;
  return {.transaction = communication.transaction,
          .local_comm_id = communication.id,
          .remote_comm_id = *communication.remote_id,
          .received = is_request ? Received::kReq : Received::kRep,
          .service_timeout = static_cast<std::uint8_t>(service_timeout)};
}

wire::CmSidrRep compose_sidr_rep(const Communication& communication,
                                 const ServiceAnswer& answer) noexcept {
  wire::CmSidrRep rep{.transaction = communication.transaction,
                      .request_id = *communication.remote_id,
                      .status = answer.status,
                      .ece = answer.ece,
                      .qpn = answer.qpn,
                      .service_id = communication.service_id,
                      .qkey = answer.qkey,
                      .info_octets = static_cast<std::uint8_t>(answer.info.size())};
  fill(rep.info_field, answer.info);
  fill(rep.private_data, answer.private_data);
  return rep;
}

QpSettings settings_from(const wire::CmReq& req) noexcept {
  return {.address = address_of(req),
          .travel = travel_of(req),
          .transport = req.transport,
          .path_mtu = req.path_mtu,
          .remote_qpn = req.local_qpn,
          .send_psn = req.starting_psn,
          .responder_resources = req.initiator_depth,
          .initiator_depth = req.responder_resources,
          .retry_count = req.retry_count,
          .rnr_retry_count = req.rnr_retry_count,
          .ack_timeout = TimeCode{req.primary.local_ack_timeout},
          .peer_uses_srq = req.uses_srq,
          .end_to_end_flow_control = req.end_to_end_flow_control};
}

void apply(const wire::CmRep& rep, QpSettings& settings) noexcept {
  const bool is_xrc = settings.transport == CmTransport::kExtended;
  const auto announced = static_cast<std::uint8_t>(settings.ack_timeout);
  const TimeCode life_time{static_cast<std::uint8_t>(announced > 0 ? announced - 1 : 0)};
  settings.remote_qpn = is_xrc ? wire::QpNumber{rep.local_eecn} : rep.local_qpn;
  settings.send_psn = rep.starting_psn;
  settings.responder_resources = rep.initiator_depth;
  settings.initiator_depth = rep.responder_resources;
  settings.rnr_retry_count = rep.rnr_retry_count;
  settings.ack_timeout = ack_timeout_of(TimeCode{rep.target_ack_delay}, life_time);
  settings.peer_uses_srq = rep.uses_srq;
  settings.end_to_end_flow_control = rep.end_to_end_flow_control;
}

std::optional<wire::CmRej> objection_to(const wire::CmReq& req, const Address& from,
                                        wire::PathMtu path_mtu_max) noexcept {
  if (!is_transport_we_have(req)) {
    return refusal_of(req, wire::RejectReason::kInvalidTransportType);
  }
  if (!is_mtu(req.path_mtu) || req.path_mtu > path_mtu_max) {
    return refusal_of(req, wire::RejectReason::kInvalidPathMtu);
  }
  if (req.primary.remote_gid != from.local) {
    wire::CmRej rej = refusal_of(req, wire::RejectReason::kPrimaryGid);
    set_info(rej, std::as_bytes(std::span(from.local.octets)));
    return rej;
  }
  const wire::Lid lid = from.route.source;
  if (from.route.exists() && req.primary.remote_lid != lid) {
    wire::CmRej rej = refusal_of(req, wire::RejectReason::kPrimaryLid);
    std::array<std::byte, sizeof lid> octets;
    store_be<std::uint16_t, 0>(std::span(octets), static_cast<std::uint16_t>(lid));
    set_info(rej, octets);
    return rej;
  }
  return std::nullopt;
}

wire::CmRej refusal_of(const wire::CmReq& req, wire::RejectReason reason) noexcept {
  return {.transaction = req.transaction,
          .remote_comm_id = req.local_comm_id,
          .rejected = wire::CmRej::Rejected::kReq,
          .reason = reason};
}

}  // namespace verbatim::cm

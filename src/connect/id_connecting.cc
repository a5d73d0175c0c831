// SPDX-License-Identifier: Apache-2.0
// How an id connects to a peer, and answers requests.
#include <algorithm>
#include <array>

#include "connect/device.h"
#include "connect/id.h"
#include "wire/cm/ip_cm_header.h"

namespace verbatim::connect {
namespace {

/// The private data of a request: the header of rdma_cm, unless it is one between GIDs, then the
/// user's data.
struct RequestData {
  std::array<std::byte, wire::CmSidrReq::kPrivateOctets> octets{};
  std::size_t used = 0;
  [[nodiscard]] std::span<const std::byte> span() const noexcept {
    return std::span(octets).first(used);
  }
};
Expected<RequestData, Error> request_data(const Route& ends, std::span<const std::byte> user,
                                          std::size_t room) noexcept {
  RequestData data;
  const std::size_t before = ends.destination.ib ? 0 : wire::IpCmHeader::kSize;
  data.used = before + user.size();
  if (data.used > room) return Error::kInvalidArgument;
  if (before != 0) {
    const auto header =
        wire::IpCmHeader::between(ends.source.address, ends.destination.address, ends.source.port);
    header.emit(std::span(data.octets).first<wire::IpCmHeader::kSize>());
  }
  std::ranges::copy(user, data.octets.begin() + static_cast<std::ptrdiff_t>(before));
  return data;
}

/// The parameters of packets on a path of a subnet.
cm::Travel travel_on(const wire::PathRecord& path) noexcept {
  return {.flow_label = path.flow_label,
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .service_level = static_cast<std::uint8_t>(path.level),
          .packet_rate = path.rate,
          .pkey = path.pkey};
}

constexpr std::uint8_t kTimeCodeBits = 0x1f;

/// What the path of a subnet changes in a request.
void follow(const wire::PathRecord& path, cm::ConnectRequest& request) noexcept {
  request.travel = travel_on(path);
  const bool is_mtu = path.mtu >= wire::PathMtu::k256 && path.mtu <= wire::PathMtu::k4096;
  if (is_mtu) request.path_mtu = std::min(path.mtu, request.path_mtu);
  request.life_time = cm::TimeCode{std::min(path.life_time, kTimeCodeBits)};
}

}  // namespace

/// A program may name a queue pair that it has created itself. A number of another process's queue
/// pair is refused: the peer would connect to that process. 0 names none.
bool Id::names_own_queue_pair(wire::QpNumber qpn) const {
  if (qpn == wire::QpNumber{}) return true;
  Services& services = ends_.device->services();
  const ServicesGuard lock(services);
  return services.has_queue_pair(qpn);
}

void Id::remember(wire::CommId communication) {
  communication_ = communication;
  ends_.device->add_communication(communication, *this);
}

wire::ServiceId Id::remote_service() const noexcept {
  if (const auto& ib = ends_.destination.ib) return wire::ServiceId{ib->service};
  return wire::service_id_of({.space = space_, .port = ends_.destination.port});
}

Outcome Id::connect(const Parameters& parameters) {
  if (state_ != IdState::kRouteResolved) return Error::kInvalidArgument;
  if (!options_.is_datagram && !names_own_queue_pair(parameters.qpn)) {
    return Error::kInvalidArgument;
  }
  terms_.responder_resources = parameters.responder_resources;
  terms_.initiator_depth = parameters.initiator_depth;
  state_ = IdState::kConnecting;
  Outcome asked =
      options_.is_datagram ? ask_for_service(parameters) : ask_for_connection(parameters);
  if (!asked) state_ = IdState::kRouteResolved;
  return asked;
}

Outcome Id::ask_for_connection(const Parameters& parameters) {
  const auto data =
      request_data(ends_, parameters.private_data, cm::ConnectRequest::kPrivateOctetsMax);
  if (!data) return data.error();
  const auto& timeout = options_.ack_timeout;
  cm::ConnectRequest request;
  request.address = {.local = ends_.local, .remote = ends_.remote, .route = ends_.local_route()};
  request.travel.traffic_class = options_.traffic_class;
  request.travel.flow_label =
      (ends_.source.port * 31U + ends_.destination.port) & 0x000f'ffffU;  // as Linux chooses it
  request.service_id = remote_service();
  request.qpn = parameters.qpn;
  request.starting_psn = terms_.starting_psn;
  request.path_mtu = ends_.device->port().active_mtu;
  request.responder_resources = parameters.responder_resources;
  request.initiator_depth = parameters.initiator_depth;
  request.retry_count = parameters.retry_count;
  request.rnr_retry_count = parameters.rnr_retry_count;
  request.end_to_end_flow_control = parameters.flow_control;
  request.uses_srq = parameters.uses_srq;
  if (ends_.path) follow(*ends_.path, request);
  if (timeout && *timeout > 0) {
    request.life_time = cm::TimeCode{static_cast<std::uint8_t>(*timeout - 1)};
  }
  request.ece = options_.local_ece;
  request.private_data = data->span();
  return ends_.device->with_agent([&](cm::Agent& agent, Instant now)
                                      VB_REQUIRES(connections_mutex()) -> Status {
                                        auto made = agent.connect(now, request);
                                        if (!made) return made.error();
                                        remember(*made);
                                        return Ok{};
                                      });
}

Outcome Id::ask_for_service(const Parameters& parameters) {
  const auto data =
      request_data(ends_, parameters.private_data, cm::ServiceRequest::kPrivateOctetsMax);
  if (!data) return data.error();
  cm::ServiceRequest request;
  request.address = {.local = ends_.local, .remote = ends_.remote, .route = ends_.local_route()};
  if (ends_.path) request.pkey = ends_.path->pkey;
  request.service_id = remote_service();
  request.private_data = data->span();
  return ends_.device->with_agent([&](cm::Agent& agent, Instant now)
                                      VB_REQUIRES(connections_mutex()) -> Status {
                                        auto made = agent.resolve_service(now, request);
                                        if (!made) return made.error();
                                        remember(*made);
                                        return Ok{};
                                      });
}

Outcome Id::accept(const Parameters& parameters) {
  if (state_ != IdState::kRequested || !names_own_queue_pair(parameters.qpn)) {
    return Error::kInvalidArgument;
  }
  if (options_.is_datagram) return accept_datagrams(parameters);
  terms_.responder_resources = parameters.responder_resources;
  terms_.initiator_depth = parameters.initiator_depth;
  if (auto ready = make_ready({.responder_resources = parameters.responder_resources,
                               .initiator_depth = parameters.initiator_depth});
      !ready) {
    return ready;
  }
  state_ = IdState::kConnecting;
  Outcome accepted = ends_.device->with_agent([&](cm::Agent& agent, Instant now) {
    auto answered = agent.accept(now, communication_,
                                 {.qpn = parameters.qpn,
                                  .starting_psn = terms_.starting_psn,
                                  .responder_resources = parameters.responder_resources,
                                  .initiator_depth = parameters.initiator_depth,
                                  .rnr_retry_count = parameters.rnr_retry_count,
                                  .end_to_end_flow_control = parameters.flow_control,
                                  .uses_srq = parameters.uses_srq,
                                  .ece = options_.local_ece,
                                  .private_data = parameters.private_data});
    if (answered && has_pair()) pair_->await_data(communication_);
    return answered;
  });
  if (!accepted) {
    state_ = IdState::kRequested;
    (void)fail_pair();  // the first failure is reported
  }
  return accepted;
}

Outcome Id::answer_service(const cm::ServiceAnswer& answer) {
  return ends_.device->with_agent([&](cm::Agent& agent, Instant now) {
    return agent.answer_service(now, communication_, answer);
  });
}

Outcome Id::accept_datagrams(const Parameters& parameters) {
  Outcome answered = answer_service(
      {.qpn = parameters.qpn, .qkey = kDatagramQKey, .private_data = parameters.private_data});
  if (answered) state_ = IdState::kConnected;
  return answered;
}

Outcome Id::reject(wire::RejectReason reason, std::span<const std::byte> private_data) {
  if (!has_communication()) return Error::kInvalidArgument;
  if (options_.is_datagram) {
    return answer_service({.status = wire::SidrStatus::kRejected, .private_data = private_data});
  }
  return ends_.device->with_agent([&](cm::Agent& agent, Instant now) {
    return agent.reject(now, communication_, {.reason = reason, .private_data = private_data});
  });
}

Outcome Id::establish() {
  if (has_pair() || !has_communication()) return Error::kInvalidArgument;
  Outcome done = ends_.device->with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.establish(now, communication_); });
  if (done) state_ = IdState::kConnected;
  return done;
}

Outcome Id::disconnect() {
  if (!has_communication() || options_.is_datagram) return Error::kInvalidArgument;
  if (auto failed = fail_pair(); !failed) return failed;
  return ends_.device->with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.disconnect(now, communication_); });
}

Outcome Id::note_first_data() {
  if (!has_communication()) return Error::kInvalidArgument;
  return ends_.device->with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.handle_first_data(now, communication_); });
}

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
// rdma_listen(3), rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_establish(3),
// rdma_disconnect(3), rdma_notify(3), rdma_set_local_ece(3).
#include <algorithm>
#include <cstring>

#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "abi/rdmacm/ports.h"
#include "abi/rdmacm/wildcards.h"
#include "wire/ip_cm_header.h"

namespace verbatim::abi {
namespace {

constexpr std::uint32_t kBacklogMax = 1024;  // as Linux has it unless told otherwise

std::span<const std::byte> octets_at(const void* data, std::size_t octets) noexcept {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : octets};
}

/// What rdma_cm puts before the user's data in a request.
struct RequestData {
  std::array<std::byte, wire::CmSidrReq::kPrivateOctets> octets{};
  std::size_t used = 0;
  [[nodiscard]] std::span<const std::byte> span() const noexcept {
    return std::span(octets).first(used);
  }
};
Expected<RequestData> request_data(const IdHandle& id, std::span<const std::byte> user,
                                   std::size_t room) noexcept {
  RequestData data;
  data.used = wire::IpCmHeader::kSize + user.size();
  if (data.used > room) return Errc::kInvalidArgument;
  const auto header =
      wire::IpCmHeader::between(id.source.address, id.destination.address, id.source.port);
  header.emit(std::span(data.octets).first<wire::IpCmHeader::kSize>());
  std::ranges::copy(user, data.octets.begin() + wire::IpCmHeader::kSize);
  return data;
}

/// What a program asks for, with what it left open filled in.
rdma_conn_param parameters_of(const IdHandle& id, const rdma_conn_param* given,
                              std::uint8_t responder_default, std::uint8_t initiator_default) {
  rdma_conn_param param{};
  param.responder_resources = RDMA_MAX_RESP_RES;
  param.initiator_depth = RDMA_MAX_INIT_DEPTH;
  param.retry_count = param.rnr_retry_count = 7;
  if (given != nullptr) param = *given;
  if (param.responder_resources == RDMA_MAX_RESP_RES) {
    param.responder_resources = std::min(responder_default, kResourcesMax);
  }
  if (param.initiator_depth == RDMA_MAX_INIT_DEPTH) {
    param.initiator_depth = std::min(initiator_default, kResourcesMax);
  }
  param.retry_count = std::min<std::uint8_t>(param.retry_count, 7);
  param.rnr_retry_count = std::min<std::uint8_t>(param.rnr_retry_count, 7);
  if (id.id.qp != nullptr) {
    param.qp_num = id.id.qp->qp_num;
    param.srq = id.id.qp->srq != nullptr ? 1 : 0;
  }
  return param;
}

/// A program may name a queue pair that it has made itself. The number of another process's queue
/// pair would tell the peer that this process speaks for it. 0 names none.
bool names_own_queue_pair(const IdHandle& id, const rdma_conn_param& param) {
  const std::lock_guard lock(id.device->adapter().mutex());
  return param.qp_num == 0 || id.device->adapter().has_queue_pair(wire::QpNumber{param.qp_num});
}

void remember(IdHandle& id, wire::CommId communication) {
  id.communication = communication;
  id.device->communications[static_cast<std::uint32_t>(communication)] = &id;
}

Status ask_for_connection(IdHandle& id, const rdma_conn_param& param) {
  const auto data = request_data(id, octets_at(param.private_data, param.private_data_len),
                                 cm::ConnectRequest::kPrivateOctetsMax);
  if (!data) return data.error();
  const auto life_time = id.ack_timeout && *id.ack_timeout > 0
                             ? cm::TimeCode{static_cast<std::uint8_t>(*id.ack_timeout - 1)}
                             : cm::kPacketLifeTime;
  cm::ConnectRequest request;
  request.address = {.local = id.local_gid, .remote = id.remote_gid};
  request.travel.traffic_class = id.traffic_class;
  request.travel.flow_label =
      (id.source.port * 31U + id.destination.port) & 0x000f'ffffU;  // as Linux chooses it
  request.service_id = id.service_at(id.destination.port);
  request.qpn = wire::QpNumber{param.qp_num};
  request.starting_psn = id.starting_psn;
  request.path_mtu = id.device->port().active_mtu;
  request.responder_resources = param.responder_resources;
  request.initiator_depth = param.initiator_depth;
  request.retry_count = param.retry_count;
  request.rnr_retry_count = param.rnr_retry_count;
  request.end_to_end_flow_control = param.flow_control != 0;
  request.uses_srq = param.srq != 0;
  request.life_time = life_time;
  request.ece = id.local_ece;
  request.private_data = data->span();
  return id.device->with_agent([&](cm::Agent& agent, Instant now) -> Status {
    auto made = agent.connect(now, request);
    if (!made) return made.error();
    remember(id, *made);
    return Ok{};
  });
}

Status ask_for_service(IdHandle& id, const rdma_conn_param& param) {
  const auto data = request_data(id, octets_at(param.private_data, param.private_data_len),
                                 cm::ServiceRequest::kPrivateOctetsMax);
  if (!data) return data.error();
  cm::ServiceRequest request;
  request.address = {.local = id.local_gid, .remote = id.remote_gid};
  request.service_id = id.service_at(id.destination.port);
  request.private_data = data->span();
  return id.device->with_agent([&](cm::Agent& agent, Instant now) -> Status {
    auto made = agent.resolve_service(now, request);
    if (!made) return made.error();
    remember(id, *made);
    return Ok{};
  });
}

Status answer_service(IdHandle& id, const cm::ServiceAnswer& answer) {
  return id.device->with_agent([&](cm::Agent& agent, Instant now) {
    return agent.answer_service(now, id.communication, answer);
  });
}

int accept_datagrams(IdHandle& id, const rdma_conn_param& param) {
  const Status answered =
      answer_service(id, {.qpn = wire::QpNumber{param.qp_num},
                          .qkey = wire::QKey{kUdpQKey},
                          .private_data = octets_at(param.private_data, param.private_data_len)});
  if (answered) id.state = IdState::kConnected;
  return as_minus_one(answered);
}

int reject_with(IdHandle& id, wire::RejectReason reason, const void* data, std::uint8_t octets) {
  if (id.communication == wire::CommId{}) return fail(EINVAL);
  const auto private_data = octets_at(data, octets);
  if (id.is_datagram()) {
    return as_minus_one(
        answer_service(id, {.status = wire::SidrStatus::kRejected, .private_data = private_data}));
  }
  return as_minus_one(id.device->with_agent([&](cm::Agent& agent, Instant now) {
    return agent.reject(now, id.communication, {.reason = reason, .private_data = private_data});
  }));
}

}  // namespace

namespace cm_functions {

int listen(rdma_cm_id* id, int backlog) {
  IdHandle& handle = handle_of(id);
  if (handle.state == IdState::kIdle) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    if (bind_addr(id, reinterpret_cast<sockaddr*>(&any)) != 0) return -1;
  }
  if (handle.state != IdState::kBound) return fail(EINVAL);
  if (auto claimed = claim_service(handle); !claimed) return as_minus_one(claimed);
  const bool is_given = backlog > 0 && backlog < static_cast<int>(kBacklogMax);
  handle.backlog = is_given ? static_cast<std::uint32_t>(backlog) : kBacklogMax;
  if (auto listens = listen_everywhere(handle); !listens) return as_minus_one(listens);
  handle.state = IdState::kListening;
  return 0;
}

int connect(rdma_cm_id* id, rdma_conn_param* given) {
  IdHandle& handle = handle_of(id);
  const bool is_ready = handle.state == IdState::kRouteResolved;
  if (!is_ready) return fail(EINVAL);
  const auto param = parameters_of(handle, given, kResourcesMax, kResourcesMax);
  if (!handle.is_datagram() && !names_own_queue_pair(handle, param)) return fail(EINVAL);
  handle.responder_resources = param.responder_resources;
  handle.initiator_depth = param.initiator_depth;
  handle.state = IdState::kConnecting;
  const Status asked =
      handle.is_datagram() ? ask_for_service(handle, param) : ask_for_connection(handle, param);
  if (!asked) {
    handle.state = IdState::kRouteResolved;
    return as_minus_one(asked);
  }
  return complete(handle);
}

int accept(rdma_cm_id* id, rdma_conn_param* given) {
  IdHandle& handle = handle_of(id);
  if (handle.state != IdState::kRequested) return fail(EINVAL);
  const auto param =
      parameters_of(handle, given, handle.responder_resources, handle.initiator_depth);
  if (!names_own_queue_pair(handle, param)) return fail(EINVAL);
  if (handle.is_datagram()) return accept_datagrams(handle, param);
  handle.responder_resources = param.responder_resources;
  handle.initiator_depth = param.initiator_depth;
  if (id->qp != nullptr) {
    int refused = modify_to_init(handle);
    if (refused == 0) refused = modify_to_rtr(handle, param.responder_resources);
    if (refused == 0) refused = modify_to_rts(handle, param.initiator_depth);
    if (refused != 0) return fail(refused);
  }
  handle.state = IdState::kConnecting;
  const Status accepted = handle.device->with_agent([&](cm::Agent& agent, Instant now) {
    auto answered =
        agent.accept(now, handle.communication,
                     {.qpn = wire::QpNumber{param.qp_num},
                      .starting_psn = handle.starting_psn,
                      .responder_resources = param.responder_resources,
                      .initiator_depth = param.initiator_depth,
                      .rnr_retry_count = param.rnr_retry_count,
                      .end_to_end_flow_control = param.flow_control != 0,
                      .uses_srq = param.srq != 0,
                      .ece = handle.local_ece,
                      .private_data = octets_at(param.private_data, param.private_data_len)});
    if (answered && id->qp != nullptr) {
      handle_of<QpHandle>(id->qp).object->set_awaited(handle.communication);
    }
    return answered;
  });
  if (!accepted) {
    handle.state = IdState::kRequested;
    (void)modify_to_error(handle);  // the failure is reported
    return as_minus_one(accepted);
  }
  return complete(handle);
}

int reject(rdma_cm_id* id, const void* data, uint8_t octets) {
  return reject_with(handle_of(id), wire::RejectReason::kConsumer, data, octets);
}

int reject_ece(rdma_cm_id* id, const void* data, uint8_t octets) {
  return reject_with(handle_of(id), wire::RejectReason::kVendorOption, data, octets);
}

int establish(rdma_cm_id* id) {
  IdHandle& handle = handle_of(id);
  if (id->qp != nullptr || handle.communication == wire::CommId{}) return fail(EINVAL);
  const Status done = handle.device->with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.establish(now, handle.communication); });
  if (done) handle.state = IdState::kConnected;
  return as_minus_one(done);
}

int disconnect(rdma_cm_id* id) {
  IdHandle& handle = handle_of(id);
  if (handle.communication == wire::CommId{} || handle.is_datagram()) return fail(EINVAL);
  if (const int refused = modify_to_error(handle)) return fail(refused);
  const Status done = handle.device->with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.disconnect(now, handle.communication); });
  if (!done) return as_minus_one(done);
  return complete(handle);
}

int notify(rdma_cm_id* id, ibv_event_type event) {
  IdHandle& handle = handle_of(id);
  if (event != IBV_EVENT_COMM_EST || handle.communication == wire::CommId{}) return fail(EINVAL);
  return as_minus_one(handle.device->with_agent([&](cm::Agent& agent, Instant now) {
    return agent.handle_first_data(now, handle.communication);
  }));
}

int set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (ece == nullptr || ece->comp_mask != 0) return fail(EINVAL);
  handle_of(id).local_ece = {.vendor_id = ece->vendor_id, .options = ece->options};
  return 0;
}

int get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (ece == nullptr) return fail(EINVAL);
  const wire::Ece& remote = handle_of(id).remote_ece;
  *ece = {.vendor_id = remote.vendor_id, .options = remote.options, .comp_mask = 0};
  return 0;
}

}  // namespace cm_functions
}  // namespace verbatim::abi

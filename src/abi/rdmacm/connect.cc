// SPDX-License-Identifier: Apache-2.0
// rdma_listen(3), rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_establish(3),
// rdma_disconnect(3), rdma_notify(3), rdma_set_local_ece(3).
#include <algorithm>
#include <span>

#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"

namespace verbatim::abi {
namespace {

std::span<const std::byte> octets_at(const void* data, std::size_t octets) noexcept {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : octets};
}

/// READs and atomics at a time, if the program does not say.
struct Depths {
  std::uint8_t responder_resources = connect::kResourcesMax;
  std::uint8_t initiator_depth = connect::kResourcesMax;
};

/// The parameters of the program, with defaults for those that it does not give.
connect::Id::Parameters parameters_of(const rdma_cm_id& id, const rdma_conn_param* given,
                                      const Depths& otherwise) {
  rdma_conn_param param{};
  param.responder_resources = RDMA_MAX_RESP_RES;
  param.initiator_depth = RDMA_MAX_INIT_DEPTH;
  param.retry_count = param.rnr_retry_count = 7;
  if (given != nullptr) param = *given;
  if (param.responder_resources == RDMA_MAX_RESP_RES) {
    param.responder_resources = std::min(otherwise.responder_resources, connect::kResourcesMax);
  }
  if (param.initiator_depth == RDMA_MAX_INIT_DEPTH) {
    param.initiator_depth = std::min(otherwise.initiator_depth, connect::kResourcesMax);
  }
  if (id.qp != nullptr) {
    param.qp_num = id.qp->qp_num;
    param.srq = id.qp->srq != nullptr ? 1 : 0;
  }
  return {.responder_resources = param.responder_resources,
          .initiator_depth = param.initiator_depth,
          .retry_count = std::min<std::uint8_t>(param.retry_count, 7),
          .rnr_retry_count = std::min<std::uint8_t>(param.rnr_retry_count, 7),
          .flow_control = param.flow_control != 0,
          .uses_srq = param.srq != 0,
          .qpn = wire::QpNumber{param.qp_num},
          .private_data = octets_at(param.private_data, param.private_data_len)};
}

}  // namespace

namespace cm_functions {

int listen(rdma_cm_id* id, int backlog) {
  connect::Id& object = object_of(id);
  const connect::Outcome listens = object.listen(backlog);
  if (object.state() != connect::IdState::kIdle) publish(handle_of(id));
  return as_minus_one(listens);
}

int connect(rdma_cm_id* id, rdma_conn_param* given) {
  return complete(handle_of(id), object_of(id).connect(parameters_of(*id, given, {})));
}

int accept(rdma_cm_id* id, rdma_conn_param* given) {
  IdHandle& handle = handle_of(id);
  const connect::Id::Terms terms = handle.object->terms();
  const auto parameters = parameters_of(
      *id, given,
      {.responder_resources = terms.responder_resources, .initiator_depth = terms.initiator_depth});
  const connect::Outcome accepted = handle.object->accept(parameters);
  if (accepted && handle.is_datagram()) return 0;  // no event follows
  return complete(handle, accepted);
}

int reject(rdma_cm_id* id, const void* data, uint8_t octets) {
  return as_minus_one(object_of(id).reject(wire::RejectReason::kConsumer, octets_at(data, octets)));
}

int reject_ece(rdma_cm_id* id, const void* data, uint8_t octets) {
  return as_minus_one(
      object_of(id).reject(wire::RejectReason::kVendorOption, octets_at(data, octets)));
}

int establish(rdma_cm_id* id) { return as_minus_one(object_of(id).establish()); }

int disconnect(rdma_cm_id* id) { return complete(handle_of(id), object_of(id).disconnect()); }

int notify(rdma_cm_id* id, ibv_event_type event) {
  if (event != IBV_EVENT_COMM_EST) return fail(EINVAL);
  return as_minus_one(object_of(id).note_first_data());
}

int set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (ece == nullptr || ece->comp_mask != 0) return fail(EINVAL);
  object_of(id).options().local_ece = {.vendor_id = ece->vendor_id, .options = ece->options};
  return 0;
}

int get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (ece == nullptr) return fail(EINVAL);
  const wire::Ece remote = object_of(id).terms().remote_ece;
  *ece = {.vendor_id = remote.vendor_id, .options = remote.options, .comp_mask = 0};
  return 0;
}

}  // namespace cm_functions
}  // namespace verbatim::abi

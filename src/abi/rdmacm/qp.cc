// SPDX-License-Identifier: Apache-2.0
// rdma_create_qp(3), rdma_create_srq(3), rdma_init_qp_attr(3), and the transitions of a queue pair
// when it connects.
#include <algorithm>

#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "base/adapter_role.h"
#include "connect/error.h"

namespace verbatim::abi {
namespace {

/// The place of the key of the path in the table of the port. A key that the table does not have is
/// refused with the index behind the table.
std::uint16_t pkey_index_of(const IdHandle& id) {
  const connect::Route ends = id.object->ends();
  if (ends.device == nullptr || !ends.device->is_native()) return 0;
  const device::PortInfo port = ends.device->port();
  wire::PKey key = ends.source.ib ? ends.source.ib->pkey : port.default_pkey();
  if (ends.path) key = ends.path->pkey;
  if (const auto settings = id.object->terms().settings) key = settings->travel.pkey;
  return port.index_of_partition(key).value_or(static_cast<std::uint16_t>(port.pkeys().size()));
}

void fill_init(IdHandle& id, ibv_qp_attr& attr, int& mask) {
  attr.pkey_index = pkey_index_of(id);
  attr.port_num = 1;
  mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (id.is_datagram()) {
    attr.qkey = RDMA_UDP_QKEY;
    mask |= IBV_QP_QKEY;
    return;
  }
  attr.qp_access_flags = 0;
  if (const auto settings = id.object->terms().settings) {
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (settings->responder_resources > 0) {
      attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
  }
  mask |= IBV_QP_ACCESS_FLAGS;
}

int fill_rtr(IdHandle& id, ibv_qp_attr& attr, int& mask) {
  mask = IBV_QP_STATE;
  if (id.is_datagram()) return 0;
  const connect::Id::Terms terms = id.object->terms();
  const auto& settings = terms.settings;
  if (!settings) return EINVAL;
  attr.ah_attr = address_vector(id, settings->address, settings->travel);
  attr.ah_attr.sl = settings->travel.service_level;
  attr.path_mtu = static_cast<ibv_mtu>(settings->path_mtu);
  attr.dest_qp_num = static_cast<std::uint32_t>(settings->remote_qpn);
  attr.rq_psn = terms.starting_psn.raw();
  mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (id.id.qp_type == IBV_QPT_UC) return 0;
  attr.max_dest_rd_atomic = std::min(settings->responder_resources, connect::kResourcesMax);
  attr.min_rnr_timer = 0;
  mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return 0;
}

int fill_rts(IdHandle& id, ibv_qp_attr& attr, int& mask) {
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  attr.sq_psn = 0;
  if (id.is_datagram()) return 0;
  const auto settings = id.object->terms().settings;
  if (!settings) return EINVAL;
  attr.sq_psn = settings->send_psn.raw();
  if (id.id.qp_type == IBV_QPT_UC) return 0;
  attr.retry_cnt = settings->retry_count;
  attr.rnr_retry = settings->rnr_retry_count;
  attr.timeout =
      id.object->options().ack_timeout.value_or(static_cast<std::uint8_t>(settings->ack_timeout));
  attr.max_rd_atomic = std::min(settings->initiator_depth, connect::kResourcesMax);
  mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC;
  return 0;
}

/// The attributes for the transition to `attr.qp_state`.
int fill_attributes(IdHandle& id, ibv_qp_attr& attr, int& mask) {
  switch (attr.qp_state) {
    case IBV_QPS_INIT:
      fill_init(id, attr, mask);
      return 0;
    case IBV_QPS_RTR:
      return fill_rtr(id, attr, mask);
    case IBV_QPS_RTS:
      return fill_rts(id, attr, mask);
    default:
      return EINVAL;
  }
}

/// A completion queue that belongs to an id, with its channel.
struct OwnQueue {
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
};

void destroy(OwnQueue& of) noexcept {
  if (of.queue != nullptr) ibv_destroy_cq(of.queue);
  if (of.channel != nullptr) ibv_destroy_comp_channel(of.channel);
  of = {};
}

/// An armed completion queue with its own channel, for programs that give none.
OwnQueue create_queue(IdHandle& id, std::uint32_t depth) noexcept {
  OwnQueue made;
  made.channel = ibv_create_comp_channel(id.id.verbs);
  if (made.channel == nullptr) return {};
  made.queue =
      ibv_create_cq(id.id.verbs, static_cast<int>(std::max(depth, 1U)), &id.id, made.channel, 0);
  if (made.queue == nullptr) destroy(made);
  if (made.queue != nullptr) (void)ibv_req_notify_cq(made.queue, 0);
  return made;
}

void destroy_own_queues(rdma_cm_id& id) noexcept {
  OwnQueue receive{.channel = id.recv_cq_channel, .queue = id.recv_cq};
  OwnQueue send{.channel = id.send_cq_channel, .queue = id.send_cq};
  destroy(receive);
  destroy(send);
  id.recv_cq = id.send_cq = nullptr;
  id.recv_cq_channel = id.send_cq_channel = nullptr;
}

/// Creates the completion queues that the program did not give. They belong to the id.
bool supply_queues(IdHandle& id, ibv_cq*& send, ibv_cq*& receive, const ibv_qp_cap& cap) noexcept {
  if (send == nullptr) {
    const auto made = create_queue(id, cap.max_send_wr);
    id.id.send_cq_channel = made.channel;
    send = id.id.send_cq = made.queue;
  }
  if (receive == nullptr) {
    const auto made = create_queue(id, cap.max_recv_wr);
    id.id.recv_cq_channel = made.channel;
    receive = id.id.recv_cq = made.queue;
  }
  if (send != nullptr && receive != nullptr) return true;
  const int error = errno;
  destroy_own_queues(id.id);
  errno = error;
  return false;
}

/// Takes a datagram queue pair to RTS, others to INIT.
int prepare(IdHandle& id) {
  if (const int refused = modify_to_init(id); refused != 0 || !id.is_datagram()) return refused;
  if (const int refused = modify_to_rtr(id, {})) return refused;
  return modify_to_rts(id, {});
}

/// The last step of both functions that create a queue pair.
int adopt(IdHandle& id, ibv_qp* qp, ibv_pd* pd) {
  if (qp == nullptr) {
    const int error = errno;
    destroy_own_queues(id.id);
    return fail(error);
  }
  id.id.qp = qp;
  id.id.pd = pd;
  if (const int refused = prepare(id)) {
    cm_functions::destroy_qp(&id.id);
    return fail(refused);
  }
  return 0;
}

/// The checks of both functions that create a queue pair: 0 or an errno value.
int check_new(const IdHandle& id, const ibv_pd* pd, ibv_qp_type type) noexcept {
  if (id.id.verbs == nullptr || id.id.qp != nullptr) return EINVAL;
  if (pd == nullptr || pd->context != id.id.verbs) return EINVAL;
  return type == id.id.qp_type ? 0 : EINVAL;
}

int modify(IdHandle& id, ibv_qp_attr& attr, int mask) noexcept {
  return id.id.qp == nullptr ? 0 : ibv_modify_qp(id.id.qp, &attr, mask);
}

}  // namespace

int modify_to_init(IdHandle& id) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  int mask = 0;
  const int refused = fill_attributes(id, attr, mask);
  return refused != 0 ? refused : modify(id, attr, mask);
}

int modify_to_rtr(IdHandle& id, std::optional<std::uint8_t> responder_resources) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  int mask = 0;
  if (const int refused = fill_attributes(id, attr, mask)) return refused;
  if (responder_resources) attr.max_dest_rd_atomic = *responder_resources;
  return modify(id, attr, mask);
}

int modify_to_rts(IdHandle& id, std::optional<std::uint8_t> initiator_depth) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  int mask = 0;
  if (const int refused = fill_attributes(id, attr, mask)) return refused;
  if (initiator_depth) attr.max_rd_atomic = *initiator_depth;
  return modify(id, attr, mask);
}

int modify_to_error(IdHandle& id) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return modify(id, attr, IBV_QP_STATE);
}

// ---- PairControl ----

namespace {

connect::Outcome status_of(int error) noexcept {
  return error == 0 ? connect::Outcome(Ok{}) : connect::Outcome(connect::error_of_system(error));
}

/// The queue pair of an id that has one.
device::QueuePair& pair_of(const IdHandle& id) noexcept {
  return *handle_of<QpHandle>(id.id.qp).object;
}

}  // namespace

bool PairOfId::has_pair() const noexcept { return owner_.id.qp != nullptr; }

connect::Outcome PairOfId::make_ready(const Depths& depths) {
  if (!has_pair()) return Ok{};
  int refused = modify_to_init(owner_);
  if (refused == 0) refused = modify_to_rtr(owner_, depths.responder_resources);
  if (refused == 0) refused = modify_to_rts(owner_, depths.initiator_depth);
  return status_of(refused);
}

connect::Outcome PairOfId::enter_error() { return status_of(modify_to_error(owner_)); }

/// An adapter knows groups by their GIDs. The verbs would want to see the LID of the group as well.
connect::Outcome PairOfId::attach(const wire::Gid& group) {
  device::QueuePair& pair = pair_of(owner_);
  return pair.adapter().groups().attach(pair, group);
}

void PairOfId::detach(const wire::Gid& group) noexcept {
  device::QueuePair& pair = pair_of(owner_);
  (void)pair.adapter().groups().detach(pair, group);  // it was attached
}

void PairOfId::await_data(wire::CommId communication) noexcept {
  assume_adapter_role();  // see PairControl
  handle_of<QpHandle>(owner_.id.qp).object->set_awaited(communication);
}

namespace cm_functions {

int create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* init) {
  IdHandle& handle = handle_of(id);
  if (pd == nullptr) pd = id->pd;
  if (const int refused = check_new(handle, pd, init->qp_type)) return fail(refused);
  if (init->srq == nullptr) init->srq = id->srq;
  if (!supply_queues(handle, init->send_cq, init->recv_cq, init->cap)) return -1;
  return adopt(handle, ibv_create_qp(pd, init), pd);
}

int create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* init) {
  IdHandle& handle = handle_of(id);
  if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    init->comp_mask |= IBV_QP_INIT_ATTR_PD;
    init->pd = id->pd;
  }
  if (const int refused = check_new(handle, init->pd, init->qp_type)) return fail(refused);
  if (init->srq == nullptr) init->srq = id->srq;
  if (!supply_queues(handle, init->send_cq, init->recv_cq, init->cap)) return -1;
  return adopt(handle, ibv_create_qp_ex(id->verbs, init), init->pd);
}

void destroy_qp(rdma_cm_id* id) {
  if (id->qp != nullptr) ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_own_queues(*id);
}

int create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* init) {
  if (id->srq != nullptr || id->verbs == nullptr) return fail(EINVAL);
  if (pd == nullptr) pd = id->pd;
  if (pd == nullptr || pd->context != id->verbs) return fail(EINVAL);
  id->srq = ibv_create_srq(pd, init);
  if (id->srq == nullptr) return -1;
  id->pd = pd;
  return 0;
}

int create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* init) {
  if (id->srq != nullptr || id->verbs == nullptr) return fail(EINVAL);
  if ((init->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    init->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    init->pd = id->pd;
  }
  if (init->pd == nullptr || init->pd->context != id->verbs) return fail(EINVAL);
  id->srq = ibv_create_srq_ex(id->verbs, init);
  if (id->srq == nullptr) return -1;
  id->pd = init->pd;
  return 0;
}

void destroy_srq(rdma_cm_id* id) {
  if (id->srq != nullptr) ibv_destroy_srq(id->srq);
  id->srq = nullptr;
}

int init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  const ibv_qp_state state = attr->qp_state;
  *attr = {};
  attr->qp_state = state;
  *mask = 0;
  const int refused = fill_attributes(handle_of(id), *attr, *mask);
  return refused == 0 ? 0 : fail(refused);
}

}  // namespace cm_functions
}  // namespace verbatim::abi

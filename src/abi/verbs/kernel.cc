// SPDX-License-Identifier: Apache-2.0
// Functions by which libraries above libibverbs reach the uverbs interface of the kernel: files
// under /sys, structs, and objects that one process gives to another. This adapter has no part in
// the kernel. Files are read as they are, structs are converted, and imports are refused.
#include <fcntl.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "abi/border.h"

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT const char* ibv_get_sysfs_path() { return "/sys"; }

/// The file's contents without a last line end; the number of octets, or -1.
VB_EXPORT int ibv_read_sysfs_file(const char* folder, const char* file, char* to, size_t room) {
  const int descriptor = ::open((std::string(folder) + "/" + file).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  ssize_t octets = ::read(descriptor, to, room);
  ::close(descriptor);
  if (octets <= 0) return -1;
  if (to[octets - 1] == '\n')
    to[--octets] = '\0';
  else if (static_cast<size_t>(octets) < room)
    to[octets] = '\0';
  else
    return -1;
  return static_cast<int>(octets);
}

VB_EXPORT void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, const ib_uverbs_ah_attr* from) {
  *to = ibv_ah_attr{};
  std::memcpy(to->grh.dgid.raw, from->grh.dgid, sizeof to->grh.dgid.raw);
  to->grh.flow_label = from->grh.flow_label;
  to->grh.sgid_index = from->grh.sgid_index;
  to->grh.hop_limit = from->grh.hop_limit;
  to->grh.traffic_class = from->grh.traffic_class;
  to->dlid = from->dlid;
  to->sl = from->sl;
  to->src_path_bits = from->src_path_bits;
  to->static_rate = from->static_rate;
  to->is_global = from->is_global;
  to->port_num = from->port_num;
}

VB_EXPORT void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, const ib_uverbs_qp_attr* from) {
  *to = ibv_qp_attr{};
  to->qp_state = static_cast<ibv_qp_state>(from->qp_state);
  to->cur_qp_state = static_cast<ibv_qp_state>(from->cur_qp_state);
  to->path_mtu = static_cast<ibv_mtu>(from->path_mtu);
  to->path_mig_state = static_cast<ibv_mig_state>(from->path_mig_state);
  to->qkey = from->qkey;
  to->rq_psn = from->rq_psn;
  to->sq_psn = from->sq_psn;
  to->dest_qp_num = from->dest_qp_num;
  to->qp_access_flags = from->qp_access_flags;
  to->cap = {.max_send_wr = from->max_send_wr,
             .max_recv_wr = from->max_recv_wr,
             .max_send_sge = from->max_send_sge,
             .max_recv_sge = from->max_recv_sge,
             .max_inline_data = from->max_inline_data};
  ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
  ibv_copy_ah_attr_from_kern(&to->alt_ah_attr, &from->alt_ah_attr);
  to->pkey_index = from->pkey_index;
  to->alt_pkey_index = from->alt_pkey_index;
  to->en_sqd_async_notify = from->en_sqd_async_notify;
  to->sq_draining = from->sq_draining;
  to->max_rd_atomic = from->max_rd_atomic;
  to->max_dest_rd_atomic = from->max_dest_rd_atomic;
  to->min_rnr_timer = from->min_rnr_timer;
  to->port_num = from->port_num;
  to->timeout = from->timeout;
  to->retry_cnt = from->retry_cnt;
  to->rnr_retry = from->rnr_retry;
  to->alt_port_num = from->alt_port_num;
  to->alt_timeout = from->alt_timeout;
}

VB_EXPORT void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, const ib_user_path_rec* from) {
  *to = ibv_sa_path_rec{};
  std::memcpy(to->dgid.raw, from->dgid, sizeof to->dgid.raw);
  std::memcpy(to->sgid.raw, from->sgid, sizeof to->sgid.raw);
  to->dlid = from->dlid;
  to->slid = from->slid;
  to->raw_traffic = static_cast<int>(from->raw_traffic);
  to->flow_label = from->flow_label;
  to->hop_limit = from->hop_limit;
  to->traffic_class = from->traffic_class;
  to->reversible = static_cast<int>(from->reversible);
  to->numb_path = from->numb_path;
  to->pkey = from->pkey;
  to->sl = from->sl;
  to->mtu_selector = from->mtu_selector;
  to->mtu = static_cast<uint8_t>(from->mtu);
  to->rate_selector = from->rate_selector;
  to->rate = from->rate;
  to->packet_life_time_selector = from->packet_life_time_selector;
  to->packet_life_time = from->packet_life_time;
  to->preference = from->preference;
}

VB_EXPORT void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, const ibv_sa_path_rec* from) {
  *to = ib_user_path_rec{};
  std::memcpy(to->dgid, from->dgid.raw, sizeof to->dgid);
  std::memcpy(to->sgid, from->sgid.raw, sizeof to->sgid);
  to->dlid = from->dlid;
  to->slid = from->slid;
  to->raw_traffic = static_cast<__u32>(from->raw_traffic);
  to->flow_label = from->flow_label;
  to->hop_limit = from->hop_limit;
  to->traffic_class = from->traffic_class;
  to->reversible = static_cast<__u32>(from->reversible);
  to->numb_path = from->numb_path;
  to->pkey = from->pkey;
  to->sl = from->sl;
  to->mtu_selector = from->mtu_selector;
  to->mtu = from->mtu;
  to->rate_selector = from->rate_selector;
  to->rate = from->rate;
  to->packet_life_time_selector = from->packet_life_time_selector;
  to->packet_life_time = from->packet_life_time;
  to->preference = from->preference;
}

VB_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*) {
  return as_errno_value(EOPNOTSUPP);
}

VB_EXPORT ibv_context* ibv_import_device(int) { return as_null<ibv_context>(Errc::kNotSupported); }
VB_EXPORT ibv_pd* ibv_import_pd(ibv_context*, uint32_t) {
  return as_null<ibv_pd>(Errc::kNotSupported);
}
VB_EXPORT void ibv_unimport_pd(ibv_pd*) {}
VB_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return as_null<ibv_mr>(Errc::kNotSupported); }
VB_EXPORT void ibv_unimport_mr(ibv_mr*) {}
VB_EXPORT ibv_dm* ibv_import_dm(ibv_context*, uint32_t) {
  return as_null<ibv_dm>(Errc::kNotSupported);
}
VB_EXPORT void ibv_unimport_dm(ibv_dm*) {}

// Functions of releases that are newer than the header of this build. Each refuses in the way of
// its return type.
VB_EXPORT void* ibv_alloc_dmah(ibv_context*, void*) { return as_null<void>(Errc::kNotSupported); }
VB_EXPORT int ibv_dealloc_dmah(void*) { return as_errno_value(EOPNOTSUPP); }
VB_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd*, void*) { return as_null<ibv_mr>(Errc::kNotSupported); }
VB_EXPORT int ibv_dm_export_dmabuf_fd(ibv_dm*) {
  errno = EOPNOTSUPP;
  return -1;
}
VB_EXPORT int ibv_query_port_speed(ibv_context*, uint32_t, uint64_t*) {
  return as_errno_value(EOPNOTSUPP);
}
VB_EXPORT void* ibv_alloc_buf(ibv_pd*, size_t) { return as_null<void>(Errc::kNotSupported); }
VB_EXPORT void ibv_free_buf(void*) {}
VB_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd*, void*) { return as_null<ibv_mr>(Errc::kNotSupported); }

}  // extern "C"

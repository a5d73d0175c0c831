// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "memory/access.h"
#include "wire/headers/ids.h"

/// The functions that the inline functions of infiniband/verbs.h call through the context.
namespace verbatim::abi {

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, size_t size);

/// The rights a bind asks for. Local access uses the region's key, not the window's. Other adapters
/// accept LOCAL_WRITE here and ignore it, and programs rely on that.
inline memory::Access window_access(const ibv_mw_bind_info& info) noexcept {
  return memory::Access(info.mw_access_flags & ~unsigned{IBV_ACCESS_LOCAL_WRITE});
}
/// The key that a type 2 bind gives a window. The program chooses the low octet. The other octets
/// are the window's, also if the program passes different ones.
inline wire::MemoryKey type2_key(const ibv_mw& mw, std::uint32_t wanted) noexcept {
  constexpr std::uint32_t kChosen = 0xff;
  return wire::MemoryKey{(mw.rkey & ~kChosen) | (wanted & kChosen)};
}
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attributes);

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int get_srq_num(ibv_srq* srq, uint32_t* number);

}  // namespace verbatim::abi

// SPDX-License-Identifier: Apache-2.0
// ibv_alloc_pd(3), ibv_reg_mr(3), ibv_alloc_mw(3), ibv_bind_mw(3).
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "abi/border.h"
#include "abi/verbs/handles.h"
#include "abi/verbs/operations.h"
#include "base/uncancelled.h"

namespace verbatim::abi {
namespace {

// Hints about speed, which grant nothing. A program may set them in every call.
constexpr unsigned kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;
constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

/// kNotSupported for rights that the adapter does not offer. IBV_ACCESS_HUGETLB makes no
/// difference.
Expected<memory::Access> to_access(unsigned flags) noexcept {
  const unsigned rights = flags & ~kOptionalAccess;
  if ((rights & ~kKnownAccess) != 0) return Errc::kNotSupported;
  return memory::Access(rights & ~unsigned{IBV_ACCESS_HUGETLB});
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t octets, std::uint64_t iova,
                        unsigned flags) {
  PdHandle& domain = handle_of<PdHandle>(pd);
  if (!is_intact(domain)) return as_null<ibv_mr>(Errc::kNoSuchObject);
  const auto access = to_access(flags);
  if (!access) return as_null<ibv_mr>(access.error());
  auto object = device::MemoryRegion::create(
      device::MemoryParts::of(*domain.owner->adapter),
      {.domain = domain.object->id(),
       .place = {.address = reinterpret_cast<std::uintptr_t>(address), .octets = octets},
       .base = iova,
       .access = *access});
  if (!object) return as_null<ibv_mr>(object.error());
  auto handle = std::make_unique<MrHandle>();
  handle->object = std::move(*object);
  handle->owner = &domain;
  ibv_mr& mr = handle->mr;
  mr.context = pd->context;
  mr.pd = pd;
  mr.addr = address;
  mr.length = octets;
  mr.lkey = mr.rkey = mr.handle = static_cast<std::uint32_t>(handle->object->key());
  ++domain.owner->objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->mr;
}

int refuse_change(Errc error, ibv_rereg_mr_err_code answer) noexcept {
  errno = to_errno(error);
  return answer;
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const Uncancelled uncancelled;
  PdHandle& domain = handle_of<PdHandle>(pd);
  if (!is_intact(domain)) return as_null<ibv_mw>(Errc::kNoSuchObject);
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
    return as_null<ibv_mw>(Errc::kInvalidArgument);
  const auto kind =
      type == IBV_MW_TYPE_1 ? memory::KeyKind::kWindowType1 : memory::KeyKind::kWindowType2B;
  auto object = device::MemoryWindow::create(device::MemoryParts::of(*domain.owner->adapter),
                                             domain.object->id(), kind);
  if (!object) return as_null<ibv_mw>(object.error());
  auto handle = std::make_unique<MwHandle>();
  handle->object.emplace(*object);
  handle->owner = &domain;
  handle->mw.context = pd->context;
  handle->mw.pd = pd;
  handle->mw.rkey = handle->mw.handle = static_cast<std::uint32_t>(object->first_key());
  handle->mw.type = type;
  ++domain.owner->objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->mw;
}

int dealloc_mw(ibv_mw* mw) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(mw)) return as_errno_value(EINVAL);
  MwHandle& handle = handle_of<MwHandle>(mw);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  if (auto freed = handle.object->destroy(); !freed) return as_errno_value(freed.error());
  discard(&handle, *handle.owner->owner);
  return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  if (mw->type != IBV_MW_TYPE_1) return as_errno_value(EINVAL);
  const ibv_mw_bind_info& info = bind->bind_info;
  transport::SendRequest request;
  request.wr_id = bind->wr_id;
  request.opcode = transport::SendOpcode::kBindWindow;
  request.flags = transport::SendFlags(static_cast<std::uint8_t>(bind->send_flags & 0xf));
  request.bind_type1 = true;
  request.bind = {.window_key = wire::MemoryKey{mw->rkey},
                  .new_key = memory::KeyRegistry::next_key(wire::MemoryKey{mw->rkey}),
                  .region_key = wire::MemoryKey{info.mr != nullptr ? info.mr->lkey : 0},
                  .address = info.addr,
                  .octets = info.length,
                  .access = window_access(info)};
  Status posted = Ok{};
  {
    Posting posting(*handle_of<QpHandle>(qp).object, Posting::Of::kSends);
    posted = posting.send(request);
  }
  if (!posted) return as_errno_value(posted.error());
  mw->rkey = static_cast<std::uint32_t>(request.bind.new_key);
  return 0;
}

}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const Uncancelled uncancelled;
  ContextHandle& owner = handle_of(context);
  auto object = device::ProtectionDomain::create(*owner.adapter);
  if (!object) return as_null<ibv_pd>(object.error());
  auto handle = std::make_unique<PdHandle>();
  handle->object = *object;
  handle->owner = &owner;
  handle->pd.context = context;
  handle->pd.handle = static_cast<std::uint32_t>(object->id());
  ++owner.objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->pd;
}

VB_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(pd)) return as_errno_value(EINVAL);
  PdHandle& handle = handle_of<PdHandle>(pd);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  if (auto closed = handle.object->destroy(); !closed) return as_errno_value(closed.error());
  discard(&handle, *handle.owner);
  return 0;
}

#undef ibv_reg_mr
VB_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t octets, int access) {
  const Uncancelled uncancelled;
  return register_memory(pd, address, octets, reinterpret_cast<std::uintptr_t>(address),
                         static_cast<unsigned>(access));
}

#undef ibv_reg_mr_iova
VB_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t octets, uint64_t iova,
                                  int access) {
  const Uncancelled uncancelled;
  return register_memory(pd, address, octets, iova, static_cast<unsigned>(access));
}

VB_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t octets, uint64_t iova,
                                   unsigned int access) {
  const Uncancelled uncancelled;
  return register_memory(pd, address, octets, iova, access);
}

VB_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return as_null<ibv_mr>(Errc::kNotSupported);
}

VB_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t octets,
                           int access) {
  const Uncancelled uncancelled;
  constexpr int kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  const bool is_moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (flags == 0 || (flags & ~kKnown) != 0 || (is_moved && octets == 0)) {
    return refuse_change(Errc::kInvalidArgument, IBV_REREG_MR_ERR_INPUT);
  }
  MrHandle& handle = handle_of<MrHandle>(mr);
  PdHandle* domain =
      (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? &handle_of<PdHandle>(pd) : handle.owner;
  if (!is_intact(handle) || !is_intact(*domain) || domain->owner != handle.owner->owner) {
    return refuse_change(Errc::kNoSuchObject, IBV_REREG_MR_ERR_INPUT);
  }
  device::MemoryRegion::Change change{.domain = domain->object->id()};
  if (is_moved) {
    change.place = {.address = reinterpret_cast<std::uintptr_t>(address), .octets = octets};
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    const auto wanted = to_access(static_cast<unsigned>(access));
    if (!wanted) return refuse_change(wanted.error(), IBV_REREG_MR_ERR_INPUT);
    change.access = *wanted;
  }
  if (auto changed = handle.object->change(change); !changed) {
    return refuse_change(changed.error(), changed.error() == Errc::kFault ? IBV_REREG_MR_ERR_INPUT
                                                                          : IBV_REREG_MR_ERR_CMD);
  }
  handle.owner = domain;
  mr->pd = &domain->pd;
  if (is_moved) {
    mr->addr = address;
    mr->length = octets;
  }
  return 0;
}

VB_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(mr)) return as_errno_value(EINVAL);
  MrHandle& handle = handle_of<MrHandle>(mr);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  if (auto ended = handle.object->destroy(); !ended) return as_errno_value(ended.error());
  discard(&handle, *handle.owner->owner);
  return 0;
}

}  // extern "C"

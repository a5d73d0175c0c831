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
#include "device/registrable.h"

namespace verbatim::abi {
namespace {

// Bits that say how fast, not what is allowed; a program may set them anywhere.
constexpr unsigned kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;
constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

/// Whether an adapter pins memory with these rights for writing.
bool is_written(unsigned rights) noexcept {
  return (rights & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
                    IBV_ACCESS_MW_BIND)) != 0;
}

/// Memory moves without the adapter's lock, before a key names it.
device::RegionHomes::Home find_home(device::Adapter& adapter,
                                    const device::RegionHomes::Region& region) {
  bool has_peers = false;
  {
    const std::lock_guard lock(adapter.mutex());
    has_peers = adapter.homes().has_peers(region.domain);
  }
  return device::RegionHomes::find(region, has_peers);
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t octets, std::uint64_t iova,
                        unsigned access) {
  PdHandle& domain = handle_of<PdHandle>(pd);
  if (!is_intact(domain)) return as_null<ibv_mr>(Errc::kNoSuchObject);
  const unsigned rights = access & ~kOptionalAccess;
  if ((rights & ~kKnownAccess) != 0) return as_null<ibv_mr>(Errc::kNotSupported);
  if (!device::is_registrable(address, octets, is_written(rights))) {
    return as_null<ibv_mr>(Errc::kFault);
  }
  device::Adapter& adapter = *domain.owner->adapter;
  auto handle = std::make_unique<MrHandle>();
  const device::RegionHomes::Region region{.domain = domain.domain,
                                           .address = reinterpret_cast<std::uintptr_t>(address),
                                           .octets = octets};
  const device::RegionHomes::Home home = find_home(adapter, region);
  {
    std::unique_lock lock(adapter.mutex());
    auto key = adapter.keys().register_region(
        {.domain = domain.domain,
         .address = reinterpret_cast<std::uintptr_t>(address),
         .octets = octets,
         .base = iova,
         .access = memory::Access(rights & ~static_cast<unsigned>(IBV_ACCESS_HUGETLB))});
    if (!key) {
      lock.unlock();
      device::RegionHomes::give_up(home, true);
      return as_null<ibv_mr>(key.error());
    }
    (void)adapter.domains().add_user(domain.domain);  // it exists: its handle does
    handle->key = *key;
    adapter.homes().add(*key, home);
  }
  adapter.homes().run_moves();
  adapter.homes().confirm(handle->key, home);
  handle->owner = &domain;
  ibv_mr& mr = handle->mr;
  mr.context = pd->context;
  mr.pd = pd;
  mr.addr = address;
  mr.length = octets;
  mr.lkey = mr.rkey = mr.handle = static_cast<std::uint32_t>(handle->key);
  ++domain.owner->objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->mr;
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
  device::Adapter& adapter = *domain.owner->adapter;
  auto handle = std::make_unique<MwHandle>();
  {
    const std::lock_guard lock(adapter.mutex());
    auto key = adapter.keys().allocate_window(domain.domain, kind);
    if (!key) return as_null<ibv_mw>(key.error());
    (void)adapter.domains().add_user(domain.domain);  // it exists: its handle does
    handle->key = *key;
  }
  handle->owner = &domain;
  handle->mw.context = pd->context;
  handle->mw.pd = pd;
  handle->mw.rkey = handle->mw.handle = static_cast<std::uint32_t>(handle->key);
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
  device::Adapter& adapter = *handle.owner->owner->adapter;
  {
    const std::lock_guard lock(adapter.mutex());
    // Binding has changed the low octet since; the entry knows its present key.
    const memory::KeyEntry* entry = adapter.keys().table().find(handle.key);
    auto freed = adapter.keys().free_window(wire::MemoryKey{entry->key});
    if (!freed) return as_errno_value(freed.error());
    (void)adapter.visitors().await();
    adapter.domains().drop_user(handle.owner->domain);
  }
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
  auto handle = std::make_unique<PdHandle>();
  {
    const std::lock_guard lock(owner.adapter->mutex());
    auto domain = owner.adapter->domains().open();
    if (!domain) return as_null<ibv_pd>(domain.error());
    handle->domain = *domain;
  }
  handle->owner = &owner;
  handle->pd.context = context;
  handle->pd.handle = static_cast<std::uint32_t>(handle->domain);
  ++owner.objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->pd;
}

VB_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(pd)) return as_errno_value(EINVAL);
  PdHandle& handle = handle_of<PdHandle>(pd);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  {
    const std::lock_guard lock(handle.owner->adapter->mutex());
    auto closed = handle.owner->adapter->domains().close(handle.domain);
    if (!closed) return as_errno_value(closed.error());
  }
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
  const bool is_empty = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && octets == 0;
  if (flags == 0 || (flags & ~kKnown) != 0 || is_empty) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  MrHandle& handle = handle_of<MrHandle>(mr);
  PdHandle* domain =
      (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? &handle_of<PdHandle>(pd) : handle.owner;
  if (!is_intact(handle) || !is_intact(*domain) || domain->owner != handle.owner->owner) {
    errno = ENOENT;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const bool is_moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (!is_moved) {
    address = mr->addr;
    octets = mr->length;
  }
  device::Adapter& adapter = *handle.owner->owner->adapter;
  memory::KeyRegistry& keys = adapter.keys();
  const memory::KeyEntry* entry = keys.table().find(handle.key);
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(address);
  unsigned rights = 0;
  bool is_gone = false;  // what is mapped there now is not registered
  {
    const std::lock_guard lock(adapter.mutex());
    rights = changes_access ? static_cast<unsigned>(access) & ~kOptionalAccess
                            : static_cast<unsigned>(entry->access);
    is_gone = !is_moved && keys.is_closed(handle.key);
  }
  if ((rights & ~kKnownAccess) != 0) {
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const bool pins = is_moved || (changes_access && is_written(rights) && !is_gone);
  if (pins && !device::is_registrable(address, octets, is_written(rights))) {
    errno = EFAULT;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const device::RegionHomes::Region region{
      .domain = domain->domain, .address = start, .octets = octets};
  const device::RegionHomes::Home home =
      is_gone ? device::RegionHomes::Home{.region = region} : find_home(adapter, region);
  std::unique_lock lock(adapter.mutex());
  const auto undo = [&](int answer) {
    lock.unlock();
    device::RegionHomes::give_up(home, true);
    return answer;
  };
  using Memory = memory::KeyRegistry::Memory;
  auto changed = keys.change_region(handle.key,
                                    {.domain = domain->domain,
                                     .address = start,
                                     .octets = octets,
                                     .base = is_moved ? start : entry->base,
                                     .access = memory::Access(rights)},
                                    is_moved ? Memory::kOther : Memory::kSame);
  if (!changed) {
    errno = to_errno(changed.error());
    return undo(IBV_REREG_MR_ERR_CMD);
  }
  const bool has_left = adapter.visitors().await();
  adapter.visitors().await_calls(lock, reinterpret_cast<std::uintptr_t>(mr->addr), mr->length);
  const device::RegionHomes::Home old = adapter.homes().take(handle.key);
  adapter.homes().add(handle.key, home);
  (void)adapter.domains().add_user(domain->domain);  // it exists: its handle does
  adapter.domains().drop_user(handle.owner->domain);
  handle.owner = domain;
  mr->pd = &domain->pd;
  mr->addr = address;
  mr->length = octets;
  lock.unlock();
  device::RegionHomes::give_up(old, has_left);
  adapter.homes().run_moves();
  adapter.homes().confirm(handle.key, home);
  return 0;
}

VB_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(mr)) return as_errno_value(EINVAL);
  MrHandle& handle = handle_of<MrHandle>(mr);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  device::Adapter& adapter = *handle.owner->owner->adapter;
  device::RegionHomes::Home home;
  bool has_left = true;
  {
    std::unique_lock lock(adapter.mutex());
    auto gone = adapter.keys().deregister_region(handle.key);
    if (!gone) return as_errno_value(gone.error());
    has_left = adapter.visitors().await();
    adapter.visitors().await_calls(lock, reinterpret_cast<std::uintptr_t>(mr->addr), mr->length);
    home = adapter.homes().take(handle.key);
    adapter.domains().drop_user(handle.owner->domain);
  }
  device::RegionHomes::give_up(home, has_left);
  discard(&handle, *handle.owner->owner);
  return 0;
}

}  // extern "C"

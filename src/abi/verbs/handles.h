// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "device/adapter.h"
#include "device/address_handle.h"
#include "device/completion_queue.h"
#include "device/memory_region.h"
#include "device/memory_window.h"
#include "device/own_descriptor.h"
#include "device/protection_domain.h"
#include "device/queue_pair.h"
#include "device/shared_receive_queue.h"

/// The objects that the pointers of programs point to: the public struct first, private members
/// after it. Public structs grow at their end from release to release, so spare room follows each
/// of them.
namespace verbatim::abi {

/// Room after a public struct for fields of later releases.
inline constexpr std::size_t kSpareOctets = 64;

struct DeviceHandle {
  ibv_device device{};
  // libmlx5 and libefa read their own operations after every ibv_device, and must find zeroes.
  std::array<std::byte, 256> others_look_here{};
  verbatim::device::PortInfo port;
};

struct ContextHandle {
  // Later releases add operations before the present ones. Zeroes there mean that they are missing.
  std::array<std::byte, 512> operations_to_come{};
  verbs_context verbs{};
  std::shared_ptr<verbatim::device::Adapter> adapter;
  verbatim::device::EventPipe async;
  verbatim::device::OwnDescriptor command;  // cmd_fd of the public struct
  DeviceHandle* device = nullptr;
  std::atomic<std::uint32_t> objects{1};  // that use it, plus one while it is open

  [[nodiscard]] ibv_context* context() noexcept { return &verbs.context; }
};

struct PdHandle {
  ibv_pd pd{};
  std::array<std::byte, kSpareOctets> spare{};
  std::optional<verbatim::device::ProtectionDomain> object;
  ContextHandle* owner = nullptr;
};

struct MrHandle {
  ibv_mr mr{};
  std::array<std::byte, kSpareOctets> spare{};
  std::unique_ptr<verbatim::device::MemoryRegion> object;
  PdHandle* owner = nullptr;
};

struct MwHandle {
  ibv_mw mw{};
  std::array<std::byte, kSpareOctets> spare{};
  std::optional<verbatim::device::MemoryWindow> object;
  PdHandle* owner = nullptr;
};

struct ChannelHandle {
  ibv_comp_channel channel{};
  std::array<std::byte, kSpareOctets> spare{};
  verbatim::device::CompletionChannel pipe;
};

struct CqHandle {
  ibv_cq_ex cq{};
  std::array<std::byte, kSpareOctets> spare{};
  std::unique_ptr<verbatim::device::CompletionQueue> object;
  ContextHandle* owner = nullptr;
  ChannelHandle* channel = nullptr;
  std::uint32_t completion_events = 0;  // handed out by ibv_get_cq_event
  std::uint32_t async_events = 0;       // handed out by ibv_get_async_event
  std::mutex polling;                   // held from ibv_start_poll to ibv_end_poll
  bool is_single_threaded = false;  // IBV_CREATE_CQ_ATTR_SINGLE_THREADED: `polling` is not taken
  transport::Completion current{};  // of ibv_start_poll and ibv_next_poll

  [[nodiscard]] ibv_cq* classic() noexcept { return ibv_cq_ex_to_cq(&cq); }
};

struct SrqHandle {
  ibv_srq srq{};
  std::array<std::byte, kSpareOctets> spare{};
  std::unique_ptr<verbatim::device::SharedReceiveQueue> object;
  PdHandle* owner = nullptr;
  std::uint32_t async_events = 0;
};

struct AhHandle {
  ibv_ah ah{};
  std::array<std::byte, kSpareOctets> spare{};
  std::optional<verbatim::device::AddressHandle> object;
  PdHandle* owner = nullptr;
};

/// A request that ibv_wr_* functions are putting together.
struct WrDraft {
  transport::SendRequest request;
  std::vector<memory::Sge> list;
  std::vector<std::byte> inline_data;
  ibv_mw* window = nullptr;  // bound by the request
};

using Posting = device::QueuePair::Posting;

struct QpHandle : verbatim::device::Pooled<QpHandle> {
  ibv_qp_ex qp{};
  std::array<std::byte, kSpareOctets> spare{};
  std::unique_ptr<verbatim::device::QueuePair> object;
  PdHandle* owner = nullptr;
  bool is_extended = false;
  ibv_qp_init_attr init{};
  Mutex given_mutex;
  // As given to ibv_modify_qp last; ibv_query_qp returns them.
  ibv_ah_attr address VB_GUARDED_BY(given_mutex){};
  std::uint8_t port VB_GUARDED_BY(given_mutex) = 0;
  std::uint16_t pkey_index VB_GUARDED_BY(given_mutex) = 0;
  std::uint32_t async_events = 0;
  std::mutex draft_mutex;  // held from ibv_wr_start to ibv_wr_complete
  std::vector<WrDraft> drafts;

  [[nodiscard]] ibv_qp* classic() noexcept { return &qp.qp_base; }
};

/// The handle of a public pointer; the public struct is its first member.
template <typename Handle, typename Public>
[[nodiscard]] Handle& handle_of(Public* object) noexcept {
  return *reinterpret_cast<Handle*>(object);
}
[[nodiscard]] inline ContextHandle& handle_of(ibv_context* context) noexcept {
  constexpr std::size_t kOffset = offsetof(ContextHandle, verbs) + offsetof(verbs_context, context);
  return *reinterpret_cast<ContextHandle*>(reinterpret_cast<std::byte*>(context) - kOffset);
}

/// Whether an object carries the number and the context that it was given when it was created.
/// Adapters with a kernel driver find an object by these two, and answer ENOENT when there is none.
/// Functions that create, change, query or destroy check this; functions that post and poll do not.
[[nodiscard]] inline bool is_intact(const PdHandle& pd) noexcept {
  return pd.pd.handle == static_cast<std::uint32_t>(pd.object->id()) &&
         pd.pd.context == pd.owner->context();
}
[[nodiscard]] inline bool is_intact(const MrHandle& mr) noexcept {
  return mr.mr.handle == static_cast<std::uint32_t>(mr.object->key()) &&
         mr.mr.context == mr.owner->owner->context();
}
[[nodiscard]] inline bool is_intact(const MwHandle& mw) noexcept {
  return mw.mw.handle == static_cast<std::uint32_t>(mw.object->first_key()) &&
         mw.mw.context == mw.owner->owner->context();
}
[[nodiscard]] inline bool is_intact(const CqHandle& cq) noexcept {
  return cq.cq.handle == 0 && cq.cq.context == cq.owner->context();
}
[[nodiscard]] inline bool is_intact(const SrqHandle& srq) noexcept {
  return srq.srq.handle == static_cast<std::uint32_t>(srq.object->number()) &&
         srq.srq.context == srq.owner->owner->context();
}
[[nodiscard]] inline bool is_intact(const AhHandle& ah) noexcept {
  return ah.ah.handle == 0 && ah.ah.context == ah.owner->owner->context();
}
[[nodiscard]] inline bool is_intact(const QpHandle& qp) noexcept {
  return qp.qp.qp_base.handle == static_cast<std::uint32_t>(qp.object->number()) &&
         qp.qp.qp_base.context == qp.owner->owner->context();
}

/// Which handles exist. A pointer that is destroyed twice, or that this library has not made, is
/// refused instead of freed. Only functions that create and destroy look here.
class LiveHandles {
 public:
  static LiveHandles& instance();
  /// Held while the process forks: the child may destroy what it inherited.
  [[nodiscard]] ForkMutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  void add(const void* handle);
  /// False when it is not, or no longer, a handle of this library.
  [[nodiscard]] bool remove(const void* handle);
  [[nodiscard]] bool contains(const void* handle);

 private:
  ForkMutex mutex_;
  std::unordered_set<const void*> handles_ VB_GUARDED_BY(mutex_);
};

/// One object less, or the context is closed. The last of these frees it.
inline void drop(ContextHandle& context) {
  if (context.objects.fetch_sub(1) == 1) delete &context;
}

/// Removes a handle from the live ones and frees it.
template <typename Handle>
void discard(Handle* handle) {
  (void)LiveHandles::instance().remove(handle);
  delete handle;
}
/// The same for an object of a context.
template <typename Handle>
void discard(Handle* handle, ContextHandle& context) {
  discard(handle);
  drop(context);
}

/// Waits until the program has acknowledged every event it was given about an object, as the man
/// pages promise: `completed` is counted by ibv_ack_*, under the object's own mutex.
inline void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& changed,
                          const std::uint32_t& completed, const std::uint32_t& given) noexcept {
  pthread_mutex_lock(&mutex);
  while (completed != given) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace verbatim::abi

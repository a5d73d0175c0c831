// SPDX-License-Identifier: Apache-2.0
#include "device/adapter_registry.h"
#include "base/adapter_role.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include "base/assert.h"
#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "base/process_wide.h"
#include "capture/capture.h"
#include "device/adapter.h"
#include "device/clock.h"
#include "device/process.h"
#include "device/region_homes.h"
#include "direct/access_list.h"
#include "host/own_descriptor.h"
#include "rehome/signals_blocked.h"

namespace verbatim::device {
namespace {

// Whether there ever was an adapter in this process or its parents; set under a ForkPause.
bool g_has_opened = false;
/// The adapters of this process. Never destroyed: programs exit with threads running.
struct Registry {
  ForkMutex mutex;
  std::map<std::string, std::weak_ptr<Adapter>> adapters VB_GUARDED_BY(mutex);  // by device name
  std::vector<std::shared_ptr<Adapter>> abandoned
      VB_GUARDED_BY(mutex);  // a parent's; never destroyed
};
Registry& registry() {
  return process_wide([] { return new Registry; });
}

/// All adapters whose descriptors a child would inherit. They are added and removed under a
/// ForkPause, with the lock of the registry and with signals blocked: a fork in the middle of a
/// call reads this list.
struct ExistingAdapters {
  Mutex mutex;
  std::vector<Adapter*> all VB_GUARDED_BY(mutex);

  void add(Adapter* adapter) {
    const rehome::SignalsBlocked quiet;
    const LockGuard lock(mutex);
    all.push_back(adapter);
  }
  void remove(Adapter* adapter) {
    const rehome::SignalsBlocked quiet;
    const LockGuard lock(mutex);
    std::erase(all, adapter);
  }
};
ExistingAdapters& existing() {
  return process_wide([] { return new ExistingAdapters; });
}

/// Without exceptions, `new` ends the process where it gets no memory. The tables of an adapter
/// need about one MiB of address space, so this asks for more than that.
///
/// Null when there is room. Else it says what to do. In a program that has called
/// mlockall(MCL_FUTURE) new memory is locked, and the kernel says EAGAIN beyond the limit.
const char* lack_of_room_for_an_adapter() noexcept {
  constexpr std::size_t kOctets = std::size_t{4} << 20;
  void* const at = ::mmap(nullptr, kOctets, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    return errno == EAGAIN ? "the program locks all its memory (mlockall), and its limit is "
                             "reached; raise `ulimit -l`"
                           : "no memory is left; check `ulimit -v`";
  }
  ::munmap(at, kOctets);
  return nullptr;
}

}  // namespace

Expected<std::shared_ptr<Adapter>> open_adapter(const PortInfo& port,
                                                ManagementPort::Maker make_management,
                                                std::string& message) {
  const ForkPause pause;
  Registry& all = registry();
  std::shared_ptr<Adapter> adapter;  // one that fails to open goes when the lock is free again
  const LockGuard lock(all.mutex);
  if (auto open = all.adapters[port.name].lock()) {
    // Another interface may have got the name since.
    const bool is_same = open->port().interface_index == port.interface_index;
    if (is_same && !open->is_removed()) {
      VB_ASSERT(open->management().maker() == make_management);
      return open;
    }
  }
  if (const char* lack = lack_of_room_for_an_adapter(); lack != nullptr) {
    message = lack;
    return Errc::kNoMemory;
  }
  adapter = std::make_shared<Adapter>(port, make_management);
  (void)process_rehoming();  // before a fork asks for it
  g_has_opened = true;
  existing().add(adapter.get());
  if (auto opened = adapter->open(message); !opened) return opened.error();
  all.adapters[port.name] = adapter;
  return adapter;
}

void forget_adapter(Adapter& adapter) noexcept {
  const LockGuard lock(registry().mutex);
  existing().remove(&adapter);
}

namespace {

/// The child starts without adapters. It may destroy the objects that it has inherited, but shares
/// nothing with the parent.
void prepare_fork() VB_UNCHECKED_LOCKING {
  registry().mutex.lock();
  for (Adapter* adapter : existing().all) adapter->fork_locks().hearing.lock();
  for (Adapter* adapter : existing().all) adapter->fork_locks().sockets.lock();
  for (Adapter* adapter : existing().all) adapter->fork_locks().adapter.lock();
}

void end_fork_in_parent() VB_UNCHECKED_LOCKING {
  for (Adapter* adapter : existing().all) {
    const Adapter::ForkLocks locks = adapter->fork_locks();
    locks.adapter.unlock();
    locks.sockets.unlock();
    locks.hearing.unlock();
  }
  registry().mutex.unlock();
}

void end_fork_in_child() VB_UNCHECKED_LOCKING {
  Registry& all = registry();
  direct::AccessList::of_process().forget_in_child();
  RegionHomes::forget_in_child();
  for (Adapter* adapter : existing().all) {
    adapter->abandon_in_child();
    const Adapter::ForkLocks locks = adapter->fork_locks();
    locks.hearing.unlock();
    locks.sockets.unlock();
    locks.adapter.reset();
  }
  // An adapter that the program still uses stays; it must not be found again, nor wait for the end
  // of its engine's thread.
  for (auto& [name, weak] : all.adapters) {
    if (auto adapter = weak.lock()) all.abandoned.push_back(std::move(adapter));
  }
  all.adapters.clear();
  all.mutex.unlock();
}

void lock_existing() VB_UNCHECKED_LOCKING { existing().mutex.lock(); }
void unlock_existing() VB_UNCHECKED_LOCKING { existing().mutex.unlock(); }

/// A fork in the middle of a call has not waited for the locks of adapters, and the call of this
/// thread may be in the middle of changing one.
void end_fork_of_existing_in_child() VB_UNCHECKED_LOCKING {
  const SoleUser alone;
  ExistingAdapters& those = existing();
  if (is_fork_amid_call()) {
    direct::AccessList::of_process().forget_in_child();
    RegionHomes::forget_in_child();
    for (Adapter* adapter : those.all) adapter->forget_in_child();
    host::OwnDescriptor::close_all_in_child();  // when the segments do not need them any more
    renew(those.all);
  }
  those.all.clear();
  those.mutex.unlock();
}

bool is_adapter_held_by_me() {
  ExistingAdapters& those = existing();
  const LockGuard lock(those.mutex);
  return std::ranges::any_of(those.all,
                             [](Adapter* adapter) { return adapter->mutex().is_held_by_me(); });
}

/// Moved memory lies in a shared mapping. If it becomes private for parent and child, no peer may
/// reach it by a pointer any more.
void prepare_moved_memory() VB_UNCHECKED_LOCKING {
  if (!g_has_opened) return;
  using ForkMode = rehome::Rehoming::ForkMode;
  rehome::Rehoming& rehoming = process_rehoming();
  const auto& adapters = existing().all;
  ForkMode mode = rehoming.fork_mode();
  // After ibv_fork_init(3) registered memory stays as it is, and the child does not have it.
  if (mode == ForkMode::kPrivate && rehoming.gives_regions_to_children()) {
    for (Adapter* adapter : adapters) adapter->homes().withdraw_all();
    const bool have_left = std::ranges::all_of(adapters, [](Adapter* adapter) {
      assume_adapter_role();
      return adapter->homes().await_all();
    });
    if (!have_left) mode = ForkMode::kCopies;
    for (Adapter* adapter : adapters) {
      have_left ? adapter->homes().note_fork() : adapter->homes().restore_all();
    }
  }
  rehoming.prepare_fork(mode);
}

/// The peers get the acknowledgements of all messages that the program has received.
void answer_at_exit() VB_UNCHECKED_LOCKING {
  Registry& all = registry();
  if (!lock_at_exit(all.mutex)) return;
  for (Adapter* adapter : existing().all) {
    if (!lock_at_exit(adapter->mutex())) continue;
    adapter->work().serve_owed(now());
    adapter->mutex().unlock();
  }
  all.mutex.unlock();
}

const TakesPartInForks kInForks({.rank = ForkRank::kAdapters,
                                 .prepare = prepare_fork,
                                 .parent = end_fork_in_parent,
                                 .child = end_fork_in_child,
                                 .forget = [] { renew(registry()); },
                                 .is_held_by_me = is_adapter_held_by_me});
const TakesPartInForks kExistingInForks({.rank = ForkRank::kExistingAdapters,
                                         .prepare = lock_existing,
                                         .parent = unlock_existing,
                                         .child = end_fork_of_existing_in_child,
                                         .is_quiet = true});
/// A process that has opened no adapter has moved nothing.
template <void (rehome::Rehoming::*kStep)() noexcept,
          void (rehome::Rehoming::*kStepAmidCall)() noexcept>
void rehome_for_fork() {
  if (!g_has_opened) return;
  (process_rehoming().*(is_fork_amid_call() ? kStepAmidCall : kStep))();
}
const TakesPartInForks kRehomingInForks(
    {.rank = ForkRank::kRehoming,
     .prepare = rehome_for_fork<&rehome::Rehoming::lock_for_fork,
                                &rehome::Rehoming::prepare_fork_amid_call>,
     .parent = rehome_for_fork<&rehome::Rehoming::after_fork_in_parent,
                               &rehome::Rehoming::after_fork_amid_call_in_parent>,
     .child = rehome_for_fork<&rehome::Rehoming::after_fork_in_child,
                              &rehome::Rehoming::after_fork_amid_call_in_child>,
     .is_first_in_child = true,
     .is_quiet = true});
const TakesPartInForks kMovedMemoryInForks({.rank = ForkRank::kMovedMemory,
                                            .prepare = prepare_moved_memory});
const TakesPartInExit kInExit(ExitRank::kAdapters, answer_at_exit);
const TakesPartInExit kCaptureInExit(ExitRank::kCapture, link::Capture::flush_at_exit);

}  // namespace

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/expected.h"
#include "device/memory_parts.h"
#include "memory/access.h"
#include "memory/domain.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// A memory region (IBA Vol 1, 10.6.2): a key, the memory that the key names, and the home of that
/// memory. It owns the order in which a registration begins and ends.
///
/// Peers on this host check a key and use it without the adapter's lock, so they may be in the
/// middle of an access at any time. The program may free the memory as soon as the call that ends a
/// registration returns. So a registration ends in these steps:
///   1. The key becomes invalid, and no access begins any more. Only this step can fail, and then
///      nothing has changed. The adapter forgets the home.
///   2. Accesses through pointers that had begun end (PeerAccess::await()), unless a peer was
///      stopped in the middle of one. Then the pages are listed to become private memory. Direct
///      requests of this process that name the memory by its local key, and that other threads
///      post, are awaited later, without the lock (AccessList::await_requesters()). Packets and
///      errands are executed with the lock held.
///   3. Accesses by system calls that had begun end (PeerAccess::await_calls()). The kernel would
///      execute such a call of a stopped peer later, at addresses that may be other memory then, so
///      these are awaited without a limit. The lock is released meanwhile.
///   4. The domain has one object less.
///   5. Without the lock, the home is given up, and the pages that are listed become private
///   memory.
///      What a stopped peer stores later reaches pages that no program sees. The pages of this
///      region may have been listed earlier, at the end of a queue pair whose peer was stopped
///      (Visitors::lock_out()).
///
/// A registration begins in the opposite order. The memory gets its home first, without the lock:
/// moving pages takes time, and the lock of Rehoming is taken before an adapter's. Then the key
/// becomes valid. The program may have unmapped the memory in between, so confirm() follows.
///
/// A change is a beginning and an end around one key: the new home, step 1 with the key naming the
/// new memory and the adapter knowing the new home at once, then steps 2 to 5 for the old memory
/// and the old home. Peers know the key already, so it becomes valid only when it is known that the
/// program has not unmapped the new memory: mostly at once, and otherwise without the lock.
///
/// Thread: any thread of the program, without the adapter's lock; one call at a time.
class MemoryRegion {
 public:
  struct Place {
    std::uintptr_t address = 0;
    std::size_t octets = 0;
  };
  struct Setup {
    memory::DomainId domain = memory::DomainId::kNone;  // an open one
    Place place{};
    std::uint64_t base = 0;  // address of the first octet as requests name it
    memory::Access access = memory::Access::kNone;
  };
  /// kFault when the program has no such memory, or may not write what the adapter may write
  /// (is_registrable()). Otherwise as KeyRegistry::register_region().
  [[nodiscard]] static Expected<std::unique_ptr<MemoryRegion>> create(const MemoryParts& parts,
                                                                      const Setup& setup);
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// What is to change; what is not named stays.
  struct Change {
    std::optional<memory::DomainId> domain{};  // an open one
    std::optional<Place> place{};              // requests name its own addresses then
    std::optional<memory::Access> access{};
  };
  /// The key stays. kFault as create(), if the change names a place, or rights to write. Otherwise
  /// as KeyRegistry::change_region(). On failure the registration is as it was.
  ///
  /// A region whose memory the program has unmapped stays unusable until it gets another place.
  [[nodiscard]] Status change(const Change& change);

  /// Ends the registration. kBusy while windows are bound to it: then it goes on.
  [[nodiscard]] Status destroy();

  [[nodiscard]] wire::MemoryKey key() const noexcept { return key_; }

 private:
  using Home = RegionHomes::Home;

  MemoryRegion(const MemoryParts& parts, const Setup& setup) noexcept
      : parts_(parts), domain_(setup.domain), place_(setup.place) {}
  [[nodiscard]] Home find_home(memory::DomainId domain, const Place& place) const;

  MemoryParts parts_;
  wire::MemoryKey key_{};
  memory::DomainId domain_;
  Place place_;
};

}  // namespace verbatim::device

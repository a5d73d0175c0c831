// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "host/arena_views.h"
#include "memory/key_table.h"

struct iovec;

namespace verbatim::direct {

/// Whether octets of a peer were reached, or why not.
enum class Reached : std::uint8_t {
  kYes,
  kNotMapped,  // the peer has registered the range, but no memory is mapped there
  kGone,       // the peer process has ended
  kForbidden,  // the system refuses the access, or keeps failing: the owner must execute it
  kByCall,     // no pointer reaches them; a system call may
  kRevoked,    // the key became invalid on the way
};

/// A key as it was when it was checked. It allows an access that takes several steps.
struct Permission {
  const memory::KeyEntry* entry = nullptr;
  std::uint32_t key = 0;
  std::uint16_t generation = 0;

  /// Whether the key is still valid and still names the same memory.
  [[nodiscard]] bool lasts() const noexcept {
    const memory::KeyStatus now = memory::load_field(entry->status);
    return now.live == key && now.generation == generation;
  }
};

/// A requester's access to registered memory of a peer process: through a mapping in its own
/// process where the memory is shared, by system calls elsewhere. The calls name the address space
/// by a descriptor, so they cannot reach another program that has got the process id of the peer.
///
/// The last octets of a WRITE become visible last: a program that polls them finds all the others
/// stored.
class Reach {
 public:
  Reach() noexcept = default;
  /// Memory of this very process.
  static Reach own() noexcept;
  /// `arena` is the peer's shared memory; `memory` a descriptor of its address space, -1 for none.
  Reach(host::ArenaViews& arena, int memory) noexcept : arena_(&arena), memory_(memory) {}

  /// The address of the octets in this process; null if no pointer reaches them.
  [[nodiscard]] std::byte* pointer(const memory::Grant& grant, std::uint64_t octets) noexcept {
    if (is_own_) return grant.local();
    if (grant.backing != memory::Backing::kShared) return nullptr;
    const host::ArenaViews::View& view = known_[grant.shared_at / kKnownGrain % known_.size()];
    if (view.holds(grant.shared_at, octets)) [[likely]] {
      return view.at + (grant.shared_at - view.first);
    }
    return look_up(grant.shared_at, octets);
  }

  /// Maps the region around that address and records the mapping in `known`: the whole region, or a
  /// part of it if the region is so large that it could use up the address space.
  void map(memory::KnownRegion& known, std::uint64_t address) noexcept;

  /// Stores the pieces one behind the other; kByCall when only write_by_call() can.
  [[nodiscard]] Reached write(const memory::Grant& to, std::span<const iovec> pieces,
                              std::uint64_t octets) noexcept;
  /// The caller accesses these octets of the peer next, through pointer().
  void touch(const std::byte* at, std::size_t octets) noexcept { touched_ = {at, octets}; }
  /// Whether a fault that ended write(), read() or an access after touch() was in the peer's
  /// memory, not in memory of this process.
  [[nodiscard]] bool was_fault_there(const void* at) const noexcept {
    const auto* octet = static_cast<const std::byte*>(at);
    return octet >= touched_.data() && octet < touched_.data() + touched_.size();
  }
  /// Loads into the pieces one behind the other; kByCall when only read_by_call() can.
  [[nodiscard]] Reached read(const memory::Grant& from, std::span<const iovec> pieces,
                             std::uint64_t octets) noexcept;
  /// `is_end`: these are the last octets of a WRITE. The final ones must become visible last, also
  /// after octets that were stored through a pointer before. The caller has announced the call and
  /// has then found that the permission lasts; kRevoked when the permission ends on the way.
  [[nodiscard]] Reached write_by_call(std::uint64_t address, std::span<const iovec> pieces,
                                      std::uint64_t octets, bool is_end,
                                      const Permission& permission) const noexcept;
  [[nodiscard]] Reached read_by_call(std::uint64_t address, std::span<const iovec> pieces,
                                     std::uint64_t octets,
                                     const Permission& permission) const noexcept;

 private:
  static constexpr std::uint64_t kKnownGrain = std::uint64_t{64} << 20;
  [[nodiscard]] std::byte* look_up(std::uint64_t shared_at, std::uint64_t octets) noexcept;

  std::array<host::ArenaViews::View, 8> known_{};  // recently used, indexed by place in the arena
  host::ArenaViews* arena_ = nullptr;
  std::span<const std::byte> touched_;  // the peer's octets that were last accessed by a pointer
  int memory_ = -1;
  bool is_own_ = false;
};

/// Copies so that the last octets become visible last.
void store_in_order(std::byte* to, const std::byte* from, std::size_t octets) noexcept;

}  // namespace verbatim::direct

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

/// How octets of a peer were reached, or why not.
enum class Reached : std::uint8_t {
  kYes,
  kNotMapped,  // the peer has registered them, but nothing is there
  kGone,       // the peer process has ended
  kForbidden,  // the system does not let us, or not for a while: its owner must do it
  kByCall,     // no pointer reaches them: a system call may
  kRevoked,    // they were taken away from us
};

/// What allows an access that goes on for a while: a key, as it was when it was checked.
struct Permission {
  const memory::KeyEntry* entry = nullptr;
  std::uint32_t key = 0;
  std::uint16_t generation = 0;

  /// Whether the key still works, and still names the same memory.
  [[nodiscard]] bool lasts() const noexcept {
    const memory::KeyStatus now = memory::load_field(entry->status);
    return now.live == key && now.generation == generation;
  }
};

/// Registered memory of a peer process, for one that executes requests there: through a mapping of
/// our own where the memory is shared, through system calls elsewhere. These name the address space
/// by a descriptor: what another program does with the number of the process is out of their reach.
///
/// A WRITE's last octets become visible last: whoever polls them finds all the others.
class Reach {
 public:
  Reach() noexcept = default;
  /// Memory of this very process.
  static Reach own() noexcept;
  /// `arena` is the peer's shared memory; `memory` a descriptor of its address space, -1 for none.
  Reach(host::ArenaViews& arena, int memory) noexcept : arena_(&arena), memory_(memory) {}

  /// Where the octets are, if a pointer reaches them; null otherwise.
  [[nodiscard]] std::byte* pointer(const memory::Grant& grant, std::uint64_t octets) noexcept {
    if (is_own_) return grant.local();
    if (grant.backing != memory::Backing::kShared) return nullptr;
    const host::ArenaViews::View& view = known_[grant.shared_at / kKnownGrain % known_.size()];
    if (view.holds(grant.shared_at, octets)) [[likely]] {
      return view.at + (grant.shared_at - view.first);
    }
    return look_up(grant.shared_at, octets);
  }

  /// How far a pointer reaches into a region, around that address: all of it, unless it is so large
  /// that one region could use up our address space.
  void map(memory::KnownRegion& known, std::uint64_t address) noexcept;

  /// Stores the pieces one behind the other; kByCall when that is for write_by_call().
  [[nodiscard]] Reached write(const memory::Grant& to, std::span<const iovec> pieces,
                              std::uint64_t octets) noexcept;
  /// The peer's memory is touched through pointer() now.
  void touch(const std::byte* at, std::size_t octets) noexcept { touched_ = {at, octets}; }
  /// Whether the fault that ended a write(), a read() or what was told to touch() was in the peer's
  /// memory, not in ours.
  [[nodiscard]] bool was_fault_there(const void* at) const noexcept {
    const auto* octet = static_cast<const std::byte*>(at);
    return octet >= touched_.data() && octet < touched_.data() + touched_.size();
  }
  /// Loads into the pieces one behind the other; kByCall when that is for read_by_call().
  [[nodiscard]] Reached read(const memory::Grant& from, std::span<const iovec> pieces,
                             std::uint64_t octets) noexcept;
  /// `is_end` says that these are the last octets of a WRITE, of which the last must become visible
  /// last, also behind what was stored through a pointer before. The caller has found that the
  /// permission lasts, and has told the owner of the call; kRevoked when it ends on the way.
  [[nodiscard]] Reached write_by_call(std::uint64_t address, std::span<const iovec> pieces,
                                      std::uint64_t octets, bool is_end,
                                      const Permission& permission) const noexcept;
  [[nodiscard]] Reached read_by_call(std::uint64_t address, std::span<const iovec> pieces,
                                     std::uint64_t octets,
                                     const Permission& permission) const noexcept;

 private:
  static constexpr std::uint64_t kKnownGrain = std::uint64_t{64} << 20;
  [[nodiscard]] std::byte* look_up(std::uint64_t shared_at, std::uint64_t octets) noexcept;

  std::array<host::ArenaViews::View, 8> known_{};  // used last, by their place
  host::ArenaViews* arena_ = nullptr;
  std::span<const std::byte> touched_;  // last, through a pointer
  int memory_ = -1;
  bool is_own_ = false;
};

/// Copies so that the last octets become visible last.
void store_in_order(std::byte* to, const std::byte* from, std::size_t octets) noexcept;

}  // namespace verbatim::direct

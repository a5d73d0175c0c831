// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "direct/reach.h"
#include "direct/visit.h"
#include "memory/key_table.h"

namespace verbatim::direct {

/// Moves octets between memory of the requester's process and memory of the peer that a key grants,
/// during a visit: through a pointer where one reaches the octets, otherwise by system calls, each
/// announced in Visiting before it is made. A range that is partly shared is moved in parts.
///
/// It checks no keys: the caller has checked them. Thread: the one that holds the requester's lock.
class PeerMemory {
 public:
  /// Octets of the peer that `key` grants.
  struct Place {
    memory::Grant grant;
    wire::MemoryKey key{};
    std::uint64_t octets = 0;
  };

  PeerMemory() noexcept = default;
  explicit PeerMemory(Reach reach) noexcept : reach_(reach) {}

  [[nodiscard]] Reached store(Visit& visit, const Place& place,
                              std::span<const iovec> pieces) noexcept;
  [[nodiscard]] Reached load(Visit& visit, const Place& place,
                             std::span<const iovec> pieces) noexcept;
  /// The address of eight octets, which the caller accesses next; null if no pointer reaches them.
  [[nodiscard]] std::byte* touch_eight(const memory::Grant& grant) noexcept {
    constexpr std::size_t kEight = 8;
    std::byte* const at = reach_.pointer(grant, kEight);
    if (at != nullptr) [[likely]]
      reach_.touch(at, kEight);
    return at;
  }
  /// As Reach::map() and Reach::was_fault_there().
  void map(memory::KnownRegion& known, std::uint64_t address) noexcept {
    reach_.map(known, address);
  }
  [[nodiscard]] bool was_fault_there(const void* at) const noexcept {
    return reach_.was_fault_there(at);
  }

 private:
  template <typename Move>
  [[nodiscard]] Reached in_parts(const Place& place, std::span<const iovec> pieces,
                                 Move&& move) noexcept;
  template <typename Call>
  [[nodiscard]] Reached by_call(Visit& visit, const Place& place, Call&& call) noexcept;

  Reach reach_;
};

}  // namespace verbatim::direct

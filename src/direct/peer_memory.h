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

/// Moves octets between our own memory and memory of the peer that a key grants, while a visit goes
/// on: through a pointer where one reaches the octets, through system calls elsewhere, which the
/// owner of the memory is told of before. A range that is partly shared is moved in parts.
///
/// It checks no keys: what it is given has been granted. Thread: the one that holds the requester's
/// lock.
class PeerMemory {
 public:
  /// Octets of the peer's that `key` grants.
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
  /// Where eight octets are, if a pointer reaches them; null otherwise. They are touched now.
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

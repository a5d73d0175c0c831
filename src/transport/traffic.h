// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace verbatim::transport {

/// What a queue pair has done since it began to send: one cache line of plain words, so that it may
/// lie where other processes read it. Whoever runs the queue pair counts with plain stores; who
/// reads from outside sees each word as it was a moment ago, and no two of the same instant.
struct alignas(64) Traffic {
  /// A request of ours is done.
  void count_message(std::uint64_t moved) noexcept {
    add(messages, 1);
    add(octets, moved);
  }

  std::uint64_t messages = 0;         // requests of ours that have been done
  std::uint64_t octets = 0;           // that they have moved, either way
  std::uint64_t packets = 0;          // sent for them
  std::uint64_t repeats = 0;          // packets sent again; without packets: timeouts
  std::uint64_t not_ready = 0;        // times that the peer had posted no receive
  std::uint64_t errands = 0;          // parts that the owner of the peer's memory did for us
  std::uint64_t served_messages = 0;  // requests of the peer's that came in packets
  std::uint64_t served_octets = 0;    // that these have moved

 private:
  static void add(std::uint64_t& to, std::uint64_t what) noexcept {
    std::atomic_ref(to).store(to + what, std::memory_order_relaxed);
  }
};
static_assert(sizeof(Traffic) == 64 && std::is_trivially_copyable_v<Traffic>);

}  // namespace verbatim::transport

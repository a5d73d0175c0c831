// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace verbatim::transport {

/// Counters of a queue pair since it began to send: one cache line of plain words, which may lie
/// where other processes read it. The thread that runs the queue pair counts with plain stores. A
/// reader in another process sees recent values, which need not be of the same instant.
struct alignas(64) Traffic {
  /// A request of this queue pair is done.
  void count_message(std::uint64_t moved) noexcept {
    add(messages, 1);
    add(octets, moved);
  }

  std::uint64_t messages = 0;         // requests of this queue pair that are done
  std::uint64_t octets = 0;           // that they have moved, either way
  std::uint64_t packets = 0;          // sent for them
  std::uint64_t repeats = 0;          // packets sent again; without packets: timeouts
  std::uint64_t not_ready = 0;        // times that the peer had posted no receive
  std::uint64_t errands = 0;          // parts of requests that were executed as errands
  std::uint64_t served_messages = 0;  // requests of the peer that came in packets
  std::uint64_t served_octets = 0;    // that these have moved

 private:
  static void add(std::uint64_t& to, std::uint64_t what) noexcept {
    std::atomic_ref(to).store(to + what, std::memory_order_relaxed);
  }
};
static_assert(sizeof(Traffic) == 64 && std::is_trivially_copyable_v<Traffic>);

}  // namespace verbatim::transport

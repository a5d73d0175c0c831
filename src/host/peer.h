// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/expected.h"
#include "base/time.h"
#include "host/arena_views.h"
#include "host/own_descriptor.h"
#include "host/segment_header.h"

namespace verbatim::host {

/// Another process of this user on this host, attached to through its Door: its segment and its
/// registered memory as they lie in our address space. The connection stays open; its end is the
/// death of the process. What is mapped stays mapped after that, and is nobody's any more.
class Peer {
 public:
  /// kNoSuchObject when no process is in that slot, kTimedOut when it does not answer,
  /// kAccessDenied when it has another user or group than this process or the kernel does not let
  /// this process look into it (Challenge), kNotSupported when it refuses, is of another version or
  /// its segment makes no sense, kNoMemory.
  [[nodiscard]] static Expected<std::shared_ptr<Peer>> attach(std::uint32_t own_slot,
                                                              std::uint32_t slot,
                                                              Duration patience);
  Peer() noexcept = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] const SegmentHeader& header() const noexcept { return header_; }
  /// Octets of the segment by their offset. Null when they do not lie inside.
  [[nodiscard]] std::byte* at(std::uint64_t offset, std::uint64_t octets) const noexcept {
    return offset <= header_.octets && octets <= header_.octets - offset ? segment_ + offset
                                                                         : nullptr;
  }
  /// Its registered memory.
  [[nodiscard]] ArenaViews& arena() noexcept { return arena_; }
  /// A descriptor of its address space, for pread(2) and pwrite(2); -1 when it does not lend it.
  /// What they return is 0 once the process has ended, or has executed another program.
  [[nodiscard]] int memory() const noexcept { return memory_.number(); }
  /// Readable when the process has gone, or has something to say.
  [[nodiscard]] int descriptor() const noexcept { return connection_.number(); }

  [[nodiscard]] bool has_gone() const noexcept { return gone_.load(std::memory_order_relaxed); }
  /// Looks whether it has.
  [[nodiscard]] bool look() noexcept;
  void mark_gone() noexcept { gone_.store(true, std::memory_order_relaxed); }
  /// Says something to its Door; false when it cannot be taken now.
  [[nodiscard]] bool send(std::span<const std::byte> head,
                          std::span<const std::byte> rest) const noexcept;
  /// Takes what it says; 0 when there is nothing.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;
  /// Wakes the thread that looks after its bells.
  void ring() const noexcept;
  [[nodiscard]] bool answers_at(const std::array<std::uint8_t, 16>& address) const noexcept;

 private:
  [[nodiscard]] Status map(int segment) noexcept;

  SegmentHeader header_{};
  std::byte* segment_ = nullptr;
  pid_t process_ = 0;  // that has mapped it: a forked child has other memory there, or none
  ArenaViews arena_;
  OwnDescriptor memory_;
  OwnDescriptor connection_;
  OwnDescriptor bell_;
  std::atomic<bool> gone_{false};
};

}  // namespace verbatim::host

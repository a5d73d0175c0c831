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
#include "host/process_mark.h"
#include "host/segment_header.h"
#include "host/segment_mapping.h"

namespace verbatim::host {

/// Another process of this user on this host, attached through its Door: its segment and its arena,
/// mapped into this process. The connection stays open; it ends when the process ends. The mappings
/// stay after that, but the process no longer uses them.
class Peer {
 public:
  /// kNoSuchObject when no process has that slot, kTimedOut when it does not answer, kAccessDenied
  /// when it has another user or group than this process or the kernel does not let this process
  /// look into it (Challenge), kNotSupported when it refuses, is of another version or its segment
  /// makes no sense, kNoMemory.
  [[nodiscard]] static Expected<std::shared_ptr<Peer>> attach(std::uint32_t own_slot,
                                                              std::uint32_t slot,
                                                              Duration patience);
  Peer() noexcept = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  [[nodiscard]] const SegmentHeader& header() const noexcept { return header_; }
  /// Octets of the segment by their offset. Null when they do not lie inside it, or when the system
  /// does not make them accessible. The keys and the bells are accessible always, other octets
  /// after the first call that names them.
  [[nodiscard]] std::byte* at(std::uint64_t offset, std::uint64_t octets) noexcept {
    const bool is_inside = offset <= header_.octets && octets <= header_.octets - offset;
    return is_inside && segment_.open_up_to(offset + octets) ? segment_.begin() + offset : nullptr;
  }
  /// Its moved memory.
  [[nodiscard]] ArenaViews& arena() noexcept { return arena_; }
  /// A descriptor of its address space, for pread(2) and pwrite(2); -1 when it does not lend it.
  /// These calls return 0 once the process has ended or has executed another program.
  [[nodiscard]] int memory() const noexcept { return memory_.number(); }
  /// Readable when the process has ended, or has sent something.
  [[nodiscard]] int descriptor() const noexcept { return connection_.number(); }

  /// Whether this process no longer uses the peer, because the peer has ended or has closed the
  /// connection. Threads of a peer that has closed it may still run: a program may close
  /// descriptors that it has not opened.
  [[nodiscard]] bool has_gone() const noexcept { return gone_.load(std::memory_order_relaxed); }
  /// Whether the address space of the peer is gone. Then the peer stores nothing any more.
  [[nodiscard]] bool has_ended() const noexcept { return ended_.load(std::memory_order_relaxed); }
  /// Asks the system for both, and returns has_gone().
  [[nodiscard]] bool look() noexcept;
  /// Whether the connection has ended, here or there.
  [[nodiscard]] bool has_lost_connection() const noexcept;
  void mark_gone() noexcept { gone_.store(true, std::memory_order_relaxed); }
  /// Sends a message to its Door; false when its queue is full.
  [[nodiscard]] bool send(std::span<const std::byte> head,
                          std::span<const std::byte> rest) const noexcept;
  /// Reads one message; 0 when there is none.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;
  /// Wakes the thread that handles its bells.
  void ring() const noexcept;
  [[nodiscard]] bool answers_at(const std::array<std::uint8_t, 16>& address) const noexcept;

 private:
  [[nodiscard]] Status map(int segment) noexcept;
  [[nodiscard]] bool has_lost_address_space() const noexcept;

  SegmentHeader header_{};
  SegmentMapping segment_;
  pid_t process_ = 0;  // that has mapped it: it is not mapped in a forked child
  ArenaViews arena_;
  OwnDescriptor memory_;
  ProcessMark owner_;  // of the segment
  OwnDescriptor connection_;
  OwnDescriptor bell_;
  std::atomic<bool> gone_{false};
  std::atomic<bool> ended_{false};
};

}  // namespace verbatim::host

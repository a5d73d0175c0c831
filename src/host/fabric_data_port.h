// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "host/fabric_arrival_ring.h"
#include "host/fabric_data_area.h"
#include "host/fabric_key_violations.h"
#include "host/fabric_page.h"
#include "host/fabric_place.h"
#include "host/own_descriptor.h"
#include "host/segment_mapping.h"

namespace verbatim::host {

/// Where a process is in a fabric: a port of its node, and its slot there. Packets to numbers of
/// queue pairs that this slot has (base/slot_numbers.h) arrive at it.
struct FabricSeat {
  std::uint32_t port = 1;
  std::uint32_t slot = 0;  // below kSlotCount
};

/// The data port of this process: native packets, from the first octet of the LRH to the last of
/// the ICRC, go to the process of the fabric and come from it through a data area.
/// FabricDataServerPort is the other side.
///
/// Sending: write a packet into next_buffer() and post() it; ring_fabric() after each burst. A
/// packet that was posted leaves, also if this process ends. Receiving: receive() until it returns
/// nothing, release() when the packets are no longer needed. A thread that is about to wait for
/// descriptor() calls lower_bell() first:
///
///     while (port.receive().empty() && port.lower_bell()) wait_for(port.descriptor());
///
/// A thread that only looks does not call it: descriptor() stays readable then, and the fabric
/// makes no system call for the packets.
///
/// When the fabric's process ends, ends the connection, or writes nonsense into the area,
/// connection() becomes readable and take_change() notices it: no packet arrives any more, and
/// next_buffer() is empty. The port can be closed and opened again.
///
/// open() waits for the fabric at most kFabricPatienceMs for each of its two messages; no other
/// function waits. A thread cannot be cancelled in any of them. A fork must not happen during
/// open() and close(): the owner pauses it (device/process.h). A child calls abandon_in_child().
/// Thread: one at a time; descriptor() and connection() any.
class FabricDataPort {
 public:
  static constexpr std::size_t kBufferOctets = FabricDataArea::kBufferOctets;
  static constexpr std::size_t kBurst = 64;  // packets of one receive()

  FabricDataPort() noexcept = default;
  FabricDataPort(const FabricDataPort&) = delete;
  FabricDataPort& operator=(const FabricDataPort&) = delete;
  ~FabricDataPort() { close(); }

  /// Takes the seat. On failure `message` is a sentence for the user, with what to do.
  /// kAddressInUse: another process has it. kNoDevice: there is no such node, or the fabric has
  /// ended. kInvalidArgument: no such port.
  [[nodiscard]] Status open(const FabricPlace& place, std::string_view node, FabricSeat seat,
                            std::string& message);
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return area_ != nullptr; }
  /// In a forked child, also in the middle of another function of this object: closes the
  /// descriptors, and private memory takes the place of the area. has_ended() is true from then on,
  /// and what the child writes reaches nothing.
  void abandon_in_child() noexcept;

  /// Room for the next packet: the same until it is posted, and aligned to 64 octets. Empty: the
  /// fabric is not done with any of the buffers, or the port is closed or has ended.
  [[nodiscard]] std::span<std::byte> next_buffer() noexcept;
  /// Posts the first octets of next_buffer(), which must not have been empty. `rate` is that of the
  /// packet's path, as verbs count rates; 0: that of the link.
  void post(std::size_t octets, std::uint8_t rate = 0) noexcept;
  /// Wakes the fabric if it sleeps.
  void ring_fabric() noexcept;
  [[nodiscard]] std::size_t free_buffer_count() const noexcept;
  /// Whether there are as many free buffers. It looks at few where many are free.
  [[nodiscard]] bool has_free_buffers(std::size_t count) const noexcept;

  /// Tells the fabric of a packet that a queue pair has refused because of this key.
  void report(FabricKey key, const FabricKeyViolation& violation) noexcept;

  /// The next packets that have arrived, at most kBurst. The spans are valid until they are
  /// released, the outer one until the next call.
  [[nodiscard]] std::span<const std::span<const std::byte>> receive() noexcept;
  /// All packets that receive() has returned make room for others.
  void release() noexcept;
  /// An eventfd, readable at the latest when a packet arrives after lower_bell().
  [[nodiscard]] int descriptor() const noexcept { return bell_.number(); }
  /// descriptor() is not readable from now on until a packet arrives. False: one is there already.
  /// One system call or two if the bell was rung, else none.
  [[nodiscard]] bool lower_bell() noexcept;

  /// Tells the fabric that this process listens for requests of a service, or does so no more.
  /// False: the fabric does not read; requests reach another process of the node first.
  bool tell_claim(std::uint32_t service, bool listens) noexcept;

  /// Readable when the fabric has ended, or has_change() may be true.
  [[nodiscard]] int connection() const noexcept { return connection_.number(); }
  /// Whether state() has changed since the last call, or since open(). To be called when
  /// connection() is readable; it costs a system call.
  [[nodiscard]] bool take_change() noexcept;
  /// Whether packets cannot leave or arrive any more, for good: the fabric has ended, or the
  /// program has closed the descriptors (take_change() notices both), or what the fabric wrote made
  /// no sense (receive() does).
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  /// The node as it is now. Nothing: the port is closed, or the fabric was stopped while it wrote.
  [[nodiscard]] std::optional<FabricNodeState> state() const noexcept;
  /// The number of the node in the fabric.
  [[nodiscard]] std::uint32_t node() const noexcept { return node_; }

 private:
  [[nodiscard]] bool map(int area, int page) noexcept;
  void ring_if(std::uint32_t wanted) noexcept;
  [[nodiscard]] bool read_bell() noexcept;
  void hang_up() noexcept;

  SegmentMapping mapping_;
  FabricDataArea* area_ = nullptr;    // in mapping_; null: closed
  const FabricPage* page_ = nullptr;  // mapped for reading; null: closed
  std::uint32_t node_ = 0;
  std::uint32_t next_ = 0;    // the buffer at which the search for a free one begins
  std::uint32_t posted_ = 0;  // as in the area
  bool has_ended_ = false;
  FabricArrivalReader arrivals_;
  std::array<std::span<const std::byte>, kBurst> burst_{};
  OwnDescriptor connection_;
  OwnDescriptor bell_;  // of this process
  OwnDescriptor fabric_bell_;
};

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "base/mutex.h"
#include "base/thread_safety.h"
#include "base/time.h"
#include "capture/capture_file.h"
#include "link/packet_burst.h"
#include "wire/capture/pcap.h"

namespace verbatim::link {

/// Every packet that this process sends and receives, as a pcapng file: Ethernet frames, and native
/// packets of an interface that is a port of a fabric. Packets are recorded one by one at the
/// sockets, also if they pass through the kernel as trains, and no privilege is needed. Ethernet
/// addresses are made from the GIDs. All other headers are those on the wire: over IPv4 the
/// identification is computed from the ICRC, which covers it. A native packet gets its VCRC; its
/// virtual lane is 0, because the port chooses it after the process.
///
/// Packets are collected and written a whole number of blocks at a time, at least every
/// kFlushInterval while there are any (the owner calls flush_if_due()), and at exit
/// (flush_at_exit()). A process that is killed loses the packets of the last interval; its file
/// stays readable. When the file can no longer be written, the capture ends with one line on
/// stderr, and the program continues.
///
/// Any thread.
class Capture {
 public:
  static constexpr Duration kFlushInterval = std::chrono::milliseconds(100);
  static constexpr std::size_t kBufferOctets = std::size_t{1} << 20;

  explicit Capture(CaptureFile file);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture();

  /// The capture of this process, opened at first use and never closed; a forked child has its own.
  /// `pattern` is what CaptureFile::open() takes.
  [[nodiscard]] static Expected<Capture*> for_process(std::string_view pattern,
                                                      std::string& message);

  /// Writes the rest of the process's own capture when the process exits.
  static void flush_at_exit() noexcept VB_UNCHECKED_LOCKING;

  /// The number that frames of this interface carry; the same for the same name. All packets of an
  /// interface of kErf are native ones, and those of another one are not.
  [[nodiscard]] std::uint32_t add_interface(
      std::string_view name, wire::CaptureLinkType link_type = wire::CaptureLinkType::kEthernet);

  /// Records a packet that has left; `identification` is its IPv4 identification.
  void record_sent(std::uint32_t interface, const Outgoing& to, std::span<const std::byte> packet,
                   std::uint16_t identification) noexcept;
  /// Records packets that have arrived.
  void record_received(std::uint32_t interface, const Incoming& incoming) noexcept;

  /// When flush_if_due() must be called next.
  [[nodiscard]] Instant next_flush() const noexcept;
  void flush_if_due() noexcept;
  void flush() noexcept;

  /// It never changes, so the lock is not needed.
  [[nodiscard]] const std::string& name() const noexcept VB_UNCHECKED_LOCKING {
    return file_.name();
  }

 private:
  struct Frame;
  void record(std::uint32_t interface, const Frame& frame) noexcept;
  void record_native(std::uint32_t interface, wire::CapturedFrame::Direction direction,
                     const Outgoing& headers, std::span<const std::byte> packet) noexcept;
  void write(wire::CapturedFrame frame) noexcept;
  void write_out() noexcept VB_REQUIRES(mutex_);

  const pid_t owner_;    // the process; a forked child does not write this capture
  mutable Mutex mutex_;  // exit() must not wait for it without limit
  CaptureFile file_ VB_GUARDED_BY(mutex_);
  std::vector<std::byte> buffer_ VB_GUARDED_BY(mutex_);
  std::size_t used_ VB_GUARDED_BY(mutex_) = 0;  // octets of the buffer: whole blocks
  // Never while the buffer is empty.
  Instant due_ VB_GUARDED_BY(mutex_) = Instant::never();
  bool has_ended_ VB_GUARDED_BY(mutex_) = false;  // the file could not be written
  std::vector<std::string> interfaces_ VB_GUARDED_BY(mutex_);
};

}  // namespace verbatim::link

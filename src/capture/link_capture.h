// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "capture/capture_file.h"
#include "host/library_thread.h"
#include "wire/capture/pcap.h"
#include "wire/headers/lrh.h"

namespace verbatim::link {

/// The packets that pass one port of a fabric, as a pcapng file of native packets, from the LRH to
/// the VCRC.
///
/// record() copies a packet and does nothing else. A thread of its own computes the VCRCs and
/// writes, so a slow disk or reader of a pipe stops nothing. What it has not written takes at most
/// kRoomOctets; a packet that finds no room is missing in the file, and counted there.
///
/// A capture ends when the owner calls finish(), or when the file can no longer be written. It has
/// ended when all packets are written that the file takes; descriptor() becomes readable then, and
/// progress() says how it went.
///
/// Thread: one, that of the owner.
class LinkCapture {
 public:
  static constexpr std::size_t kRoomOctets = std::size_t{32} << 20;
  /// How long a packet waits for others before it is written.
  static constexpr std::chrono::milliseconds kCompany{100};

  /// What a packet has beside its octets.
  struct About {
    std::uint64_t unix_nanoseconds = 0;
    wire::CapturedFrame::Direction direction{};
    wire::VirtualLane lane{};   // into the LRH
    bool has_bad_vcrc = false;  // one bit of the VCRC is wrong
  };
  struct Progress {
    std::uint64_t packets = 0;  // recorded; when it has ended, those in the file
    std::uint64_t missing = 0;  // found no room
    std::uint64_t octets = 0;   // of the file so far
    int error = 0;              // an errno value; the file could not be written any more
    bool has_ended = false;
  };

  /// `interface` is the name of the port in the file. kNoMemory: the system gives no thread, memory
  /// or descriptor, which `message` says.
  [[nodiscard]] static Expected<std::unique_ptr<LinkCapture>> start(CaptureFile file,
                                                                    std::string_view interface,
                                                                    std::string& message);
  LinkCapture(const LinkCapture&) = delete;
  LinkCapture& operator=(const LinkCapture&) = delete;
  /// Calls finish(), and waits at most kPatience until the capture has ended.
  ~LinkCapture();
  static constexpr std::chrono::seconds kPatience{2};

  /// A packet from the LRH to the ICRC. Of one that begins with anything else nothing is recorded.
  void record(const About& about, std::span<const std::byte> packet) noexcept;
  void finish() noexcept;

  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] Progress progress() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;

 private:
  struct Shared;
  explicit LinkCapture(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}
  static void write_until_end(Shared& shared) noexcept;

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
  host::LibraryThread thread_;
};

}  // namespace verbatim::link

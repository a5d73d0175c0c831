// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/expected.h"
#include "host/descriptor.h"
#include "host/fabric_arrival_ring.h"
#include "host/fabric_data_area.h"
#include "host/fabric_key_violations.h"

namespace verbatim::host {

/// The fabric's side of the data port of one process: it takes the packets that the process has
/// posted, and hands it those that arrive. FabricDataPort is the other side.
///
/// The process may write anything into the data area at any time. Lengths and numbers are taken
/// from it once and checked, and the first octets of each packet are copied before they are looked
/// at. So a process can only harm its own packets.
///
/// The owner looks for posted packets all the time, or calls begin_rest() and looks again when
/// fabric_bell() has become readable; it is to be watched edge-triggered and never read. It frees
/// each buffer that take_posted() has returned, once.
/// Thread: one.
class FabricDataServerPort {
 public:
  /// Where the headers of a packet are: LRH, GRH, BTH and DETH have 68 octets.
  static constexpr std::size_t kStartOctets = 96;

  /// A packet that was posted. Its buffer is busy until free_buffer().
  struct Posted {
    std::uint32_t buffer = 0;  // below FabricDataArea::kBuffers
    std::uint32_t octets = 0;  // 1 to FabricDataArea::kBufferOctets
    std::uint8_t rate = 0;     // of its path, any number
    std::array<std::byte, kStartOctets> octets_copied{};
    [[nodiscard]] std::span<const std::byte> start() const noexcept {
      return std::span(octets_copied).first(octets < kStartOctets ? octets : kStartOctets);
    }
  };

  FabricDataServerPort() noexcept = default;
  FabricDataServerPort(const FabricDataServerPort&) = delete;
  FabricDataServerPort& operator=(const FabricDataServerPort&) = delete;
  ~FabricDataServerPort();

  /// Makes the area and the two bells. kNoMemory: the system gives no memory or no descriptor.
  [[nodiscard]] Status open() noexcept;
  /// What the process gets, in this order: the memory file, the bell of the process, that of the
  /// fabric.
  [[nodiscard]] std::array<int, 3> descriptors() const noexcept {
    return {file_.number(), bell_.number(), fabric_bell_.number()};
  }
  /// After the process has got them.
  void close_file() noexcept { file_.close(); }
  [[nodiscard]] int fabric_bell() const noexcept { return fabric_bell_.number(); }
  /// The process has gone: no bell is rung any more.
  void close_bells() noexcept {
    bell_.close();
    fabric_bell_.close();
  }

  /// The next packet that the process has posted. Nothing: there is none, or there was nonsense.
  [[nodiscard]] std::optional<Posted> take_posted() noexcept;
  [[nodiscard]] bool has_posted() const noexcept;
  /// The packet in a buffer that was taken and not freed. The process can change the octets.
  [[nodiscard]] std::span<const std::byte> packet(std::uint32_t buffer) const noexcept {
    return std::span(area_->buffers[buffer]).first(taken_octets_[buffer]);
  }
  void free_buffer(std::uint32_t buffer) noexcept;
  /// Buffers that were taken and not freed.
  [[nodiscard]] std::uint32_t taken_count() const noexcept { return taken_count_; }
  /// Posted entries that made no sense: a buffer that there is not, or that was posted already, or
  /// no possible length.
  [[nodiscard]] std::uint64_t nonsense_count() const noexcept { return nonsense_count_; }

  /// How many packets the process says that it has refused because of this key since the last call,
  /// and one of them.
  struct Violations {
    std::uint32_t count = 0;
    FabricKeyViolation last{};
  };
  [[nodiscard]] Violations take_violations(FabricKey key) noexcept;
  [[nodiscard]] bool has_violations() const noexcept;

  /// Copies a packet into the arrival ring. False: the ring is full.
  [[nodiscard]] bool put(std::span<const std::byte> packet) noexcept {
    return arrivals_.put(packet);
  }
  /// Changes whenever the process has released packets.
  [[nodiscard]] std::uint32_t released() const noexcept { return arrivals_.released(); }
  /// Wakes the process if it may sleep. After a burst of put().
  void ring() noexcept;

  /// From now on the process rings the bell of the fabric at its next post or violation, and if
  /// `wanted_octets` is not 0 also when it releases packets. False: it has posted something or has
  /// violations already, or there is room for a packet of so many octets; then nothing has changed.
  [[nodiscard]] bool begin_rest(std::uint32_t wanted_octets) noexcept;
  /// The owner looks again.
  void end_rest() noexcept;

 private:
  [[nodiscard]] bool map() noexcept;
  [[nodiscard]] bool take(std::uint32_t buffer, std::uint32_t octets) noexcept;

  FabricDataArea* area_ = nullptr;
  FabricArrivalWriter arrivals_;
  std::uint32_t posted_ = 0;  // entries that were taken, as the process counts them
  std::uint32_t taken_count_ = 0;
  std::uint64_t nonsense_count_ = 0;
  std::array<std::uint32_t, kFabricKeys> violations_{};  // that were taken, as the process counts
  std::array<std::uint16_t, FabricDataArea::kBuffers> taken_octets_{};  // 0: not taken
  Descriptor file_;
  Descriptor bell_;
  Descriptor fabric_bell_;
};

}  // namespace verbatim::host

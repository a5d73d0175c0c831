// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbatim::host {

/// The keys of a packet that a queue pair compares with its own.
enum class FabricKey : std::uint32_t { kPKey, kQKey };
inline constexpr std::size_t kFabricKeys = 2;

/// A packet that a queue pair has refused because of one of its keys. Numbers are in host byte
/// order; the GIDs are zero if the packet had no global route header.
struct FabricKeyViolation {
  std::uint32_t key = 0;
  std::uint32_t source_qp = 0;  // 0: no header says it
  std::uint32_t dest_qp = 0;
  std::uint16_t source_lid = 0;
  std::uint16_t destination_lid = 0;
  std::uint8_t service_level = 0;
  std::array<std::uint8_t, 16> source_gid{};
  std::array<std::uint8_t, 16> destination_gid{};
  std::array<std::uint8_t, 3> reserved{};
};

/// How many packets a process has refused because of one kind of key, and the last one of them. A
/// part of the data area: the process writes it, and the fabric reads it when it likes, so that
/// refusals cost the fabric the same however many there are. Zero octets are a valid record.
///
/// The fabric believes nothing in it but that it is about the port of the process.
class FabricKeyViolations {
 public:
  /// By the process.
  void add(const FabricKeyViolation& violation) noexcept {
    std::array<std::uint32_t, kWords> words{};
    std::memcpy(words.data(), &violation, sizeof violation);
    for (std::size_t at = 0; at < kWords; ++at) {
      last_[at].store(words[at], std::memory_order_relaxed);
    }
    const std::uint32_t before = count_.load(std::memory_order_relaxed);
    count_.store(before + 1, std::memory_order_release);  // pairs with count()
  }

  /// Since the beginning; wraps around.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_acquire);  // pairs with add()
  }
  /// While the process writes another one, a mixture of the two.
  [[nodiscard]] FabricKeyViolation last() const noexcept {
    std::array<std::uint32_t, kWords> words{};
    for (std::size_t at = 0; at < kWords; ++at) {
      words[at] = last_[at].load(std::memory_order_relaxed);
    }
    FabricKeyViolation violation;
    std::memcpy(static_cast<void*>(&violation), words.data(), sizeof violation);
    return violation;
  }

 private:
  static constexpr std::size_t kWords = sizeof(FabricKeyViolation) / 4;
  static_assert(sizeof(FabricKeyViolation) == kWords * 4);

  std::atomic<std::uint32_t> count_;
  std::array<std::atomic<std::uint32_t>, kWords> last_;
};

}  // namespace verbatim::host

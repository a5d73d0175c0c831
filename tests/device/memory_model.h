// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace verbatim::testing {

/// What the octets of a block are: one stamp, repeated. The stamp 0 stands for zeroes.
using Stamp = std::uint64_t;
inline constexpr std::size_t kBlockOctets = 512;
inline constexpr std::size_t kStampsPerBlock = kBlockOctets / sizeof(Stamp);

/// A part of a buffer, in blocks.
struct Blocks {
  std::size_t first = 0;
  std::size_t count = 0;

  [[nodiscard]] std::size_t octets() const noexcept { return count * kBlockOctets; }
};

inline void store_block(std::byte* at, Stamp stamp) noexcept {
  std::array<Stamp, kStampsPerBlock> stamps;
  stamps.fill(stamp);
  std::memcpy(at, stamps.data(), sizeof stamps);
}
inline void store_blocks(std::byte* at, std::span<const Stamp> stamps) noexcept {
  for (const Stamp stamp : stamps) {
    store_block(at, stamp);
    at += kBlockOctets;
  }
}
[[nodiscard]] inline bool is_block(const std::byte* at, Stamp stamp) noexcept {
  std::array<Stamp, kStampsPerBlock> stamps;
  stamps.fill(stamp);
  return std::memcmp(at, stamps.data(), sizeof stamps) == 0;
}

inline std::size_t page_octets() noexcept {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Addresses that no mapping has had before, for memory that the adapter has never seen.
class FreshAddresses {
 public:
  static constexpr std::size_t kOctets = std::size_t{4} << 30;

  bool reserve() noexcept {
    void* at =
        ::mmap(nullptr, kOctets, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    next_.store(reinterpret_cast<std::uintptr_t>(at));
    end_ = next_.load() + kOctets;
    return true;
  }
  /// Null when all have been given away.
  [[nodiscard]] std::byte* take(std::size_t octets) noexcept {
    const std::uintptr_t at = next_.fetch_add(octets);
    return at + octets <= end_ ? reinterpret_cast<std::byte*>(at) : nullptr;
  }

 private:
  std::atomic<std::uintptr_t> next_{0};
  std::uintptr_t end_ = 0;
};

/// Private memory of a program, and the model of it: what every octet must be.
///
/// One thread at a time. Nothing is unmapped by a destructor: forked children have copies.
class ModelledMemory {
 public:
  /// Maps pages of zeroes; at `wished`, which is reserved for the caller, or anywhere.
  bool map(std::size_t octets, std::byte* wished = nullptr) {
    const int fixed = wished != nullptr ? MAP_FIXED : 0;
    void* at =
        ::mmap(wished, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (at == MAP_FAILED) return false;
    data_ = static_cast<std::byte*>(at);
    stamps_.assign(octets / kBlockOctets, 0);
    return true;
  }
  bool unmap() { return ::munmap(data_, octets()) == 0; }
  /// The same contents are at another address now.
  void note_moved_to(std::byte* data) noexcept { data_ = data; }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t octets() const noexcept { return stamps_.size() * kBlockOctets; }
  [[nodiscard]] Blocks whole() const noexcept { return {.first = 0, .count = stamps_.size()}; }
  [[nodiscard]] std::byte* at(Blocks part) const noexcept {
    return data_ + part.first * kBlockOctets;
  }
  [[nodiscard]] std::span<Stamp> stamps(Blocks part) noexcept {
    return std::span(stamps_).subspan(part.first, part.count);
  }

  /// From now on the part is expected to be this, which the caller has seen to.
  void expect(Blocks part, std::span<const Stamp> wanted) noexcept {
    std::memcpy(stamps(part).data(), wanted.data(), wanted.size_bytes());
  }
  void expect_zeroes(Blocks part) noexcept {
    for (Stamp& stamp : stamps(part)) stamp = 0;
  }
  /// An ordinary store of the program.
  void store(Blocks part, std::span<const Stamp> wanted) noexcept {
    store_blocks(at(part), wanted);
    expect(part, wanted);
  }

  /// The first block of a part that is not as it must be.
  [[nodiscard]] std::optional<std::size_t> first_wrong(Blocks part) const noexcept {
    for (std::size_t i = part.first; i < part.first + part.count; ++i) {
      if (!is_block(data_ + i * kBlockOctets, stamps_[i])) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] Stamp wanted(std::size_t block) const noexcept { return stamps_[block]; }
  [[nodiscard]] Stamp found(std::size_t block) const noexcept {
    Stamp stamp = 0;
    std::memcpy(&stamp, data_ + block * kBlockOctets, sizeof stamp);
    return stamp;
  }

 private:
  std::byte* data_ = nullptr;
  std::vector<Stamp> stamps_;  // one for each block
};

}  // namespace verbatim::testing

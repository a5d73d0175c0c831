// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/pointer.h"
#include "base/prng.h"
#include "memory/key_registry.h"
#include "transport/path.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/work.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"

/// Shared by the tests and fuzzers of the transport: storage, registered memory between guard
/// zones, completions and packets. Only tests and fuzzers include this file.
namespace verbatim::transport::test {

using Octets = std::vector<std::byte>;

/// Sanitizers make code about twenty times slower; the longest tests run in builds without them.
inline constexpr bool kIsSanitized = VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER;

inline constexpr memory::DomainId kHome{1};
inline constexpr memory::DomainId kAbroad{2};
inline constexpr wire::QpNumber kOurQp{0x000111};
inline constexpr wire::QpNumber kPeerQp{0x000222};
inline constexpr memory::Access kAllRights =
    memory::Access::kLocalWrite | memory::Access::kRemoteWrite | memory::Access::kRemoteRead |
    memory::Access::kRemoteAtomic | memory::Access::kBindWindow | memory::Access::kFlushGlobal |
    memory::Access::kFlushPersistent;

/// Storage of the alignment that blocks need.
class Block {
 public:
  explicit Block(std::size_t octets)
      : octets_(static_cast<std::byte*>(::operator new(octets, kAlignment))), count_(octets) {
    std::memset(octets_.get(), 0, octets);
  }
  [[nodiscard]] std::span<std::byte> octets() noexcept { return {octets_.get(), count_}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(std::byte* octets) const noexcept { ::operator delete(octets, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> octets_;
  std::size_t count_;
};

/// Whether all octets have that value. Fuzzers check much memory, so it is one memcmp.
inline bool is_all(std::span<const std::byte> octets, std::byte value) noexcept {
  if (octets.empty()) return true;
  const bool alike = std::memcmp(octets.data(), octets.data() + 1, octets.size() - 1) == 0;
  return alike && octets.front() == value;
}

/// Octets that can be registered, between guard zones that must not be written, and the key table.
class Arena {
 public:
  static constexpr std::size_t kOctets = 256 * 1024;
  static constexpr std::size_t kGuardOctets = 8192;
  static constexpr std::byte kGuard{0xa5};

  explicit Arena(std::uint64_t seed = 1)
      : storage_(kOctets + 2 * kGuardOctets),
        entries_(32),
        free_list_(32),
        registry_(memory::KeyTable(entries_, 0x100), free_list_, seed),
        everything_(region(kAllRights)) {
    std::memset(storage_.octets().data(), static_cast<int>(kGuard), kGuardOctets);
    std::memset(octets().data() + kOctets, static_cast<int>(kGuard), kGuardOctets);
  }

  [[nodiscard]] memory::KeyTable keys() const noexcept { return registry_.table(); }
  [[nodiscard]] memory::KeyRegistry& registry() noexcept { return registry_; }
  [[nodiscard]] std::span<std::byte> octets() noexcept {
    return storage_.octets().subspan(kGuardOctets, kOctets);
  }
  [[nodiscard]] std::span<std::byte> octets(std::size_t offset, std::size_t count) noexcept {
    return octets().subspan(offset, count);
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) noexcept {
    return numeric_address(octets().data() + offset);
  }
  [[nodiscard]] bool guards_hold() noexcept {
    return is_all(storage_.octets().first(kGuardOctets), kGuard) &&
           is_all(storage_.octets().last(kGuardOctets), kGuard);
  }

  /// The key of a region over all the octets with all rights.
  [[nodiscard]] wire::MemoryKey key() const noexcept { return everything_; }
  [[nodiscard]] wire::MemoryKey region(memory::Access access, std::size_t offset = 0,
                                       std::size_t count = kOctets,
                                       memory::DomainId domain = kHome) {
    return *registry_.register_region({.domain = domain,
                                       .address = address(offset),
                                       .octets = count,
                                       .base = address(offset),
                                       .access = access});
  }
  [[nodiscard]] memory::Sge sge(std::size_t offset, std::uint32_t count) noexcept {
    return {.address = address(offset), .octets = count, .lkey = everything_};
  }

  /// Fills the range with octets that differ from their neighbours, and returns a copy.
  Octets scribble(std::size_t offset, std::size_t count, std::uint64_t seed = 7) {
    Prng prng(seed);
    for (std::byte& octet : octets(offset, count)) octet = std::byte(prng.below(256));
    return copy(offset, count);
  }
  [[nodiscard]] Octets copy(std::size_t offset, std::size_t count) noexcept {
    const auto part = octets(offset, count);
    return {part.begin(), part.end()};
  }

 private:
  Block storage_;
  std::vector<memory::KeyEntry> entries_;
  std::vector<std::uint32_t> free_list_;
  memory::KeyRegistry registry_;
  wire::MemoryKey everything_;
};

/// A completion queue and its lanes.
class Completions {
 public:
  static constexpr std::uint32_t kLanes = 4;

  Completions()
      : board_(CompletionBoard::octets_for(kLanes)),
        lanes_(kLanes),
        queue_(CompletionBoard::create(board_.octets(), kLanes), lanes_, 1024) {}

  [[nodiscard]] CompletionPort port(std::uint32_t depth) {
    Block& block = blocks_.emplace_back(CompletionLane::octets_for(depth));
    return *queue_.attach(CompletionLane::create(block.octets(), depth));
  }
  [[nodiscard]] CompletionLanes& queue() noexcept { return queue_; }
  /// Everything that waits, oldest first.
  std::vector<Completion> take() {
    std::vector<Completion> all(queue_.waiting_count());
    all.resize(queue_.poll(all));
    return all;
  }

 private:
  Block board_;
  std::deque<Block> blocks_;
  std::vector<CompletionLane> lanes_;
  CompletionLanes queue_;
};

/// Two IPv4 addresses, so that the identification matters to the ICRC.
inline Path test_path() {
  Path path;
  path.source.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  path.destination.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2};
  path.source_port = 0xd123;
  path.refresh_seed();
  return path;
}

/// One packet, with the octets that its view borrows.
class TestPacket {
 public:
  explicit TestPacket(wire::PacketHeaders headers, std::span<const std::byte> payload = {})
      : octets_(wire::PacketBuilder::octets_for(headers, payload.size())) {
    const Path path = test_path();
    wire::PacketBuilder builder(octets_, headers, payload.size(), {.seed = &path.seed});
    builder.append(payload);
    VB_ASSERT(builder.finish() == octets_.size());
  }
  /// A packet that a machine has written; it must be one.
  static TestPacket written(std::span<const std::byte> frame) {
    VB_ASSERT(wire::PacketView::parse(frame).ok());
    return TestPacket(Octets(frame.begin(), frame.end()));
  }

  [[nodiscard]] wire::PacketView view() const { return *wire::PacketView::parse(octets_); }
  [[nodiscard]] const Octets& octets() const noexcept { return octets_; }
  [[nodiscard]] wire::Operation operation() const { return view().operation(); }
  [[nodiscard]] wire::Psn psn() const { return view().psn(); }
  [[nodiscard]] bool ack_request() const { return view().bth().ack_request(); }
  [[nodiscard]] Octets payload() const {
    const auto span = view().payload();
    return {span.begin(), span.end()};
  }

 private:
  explicit TestPacket(Octets octets) : octets_(std::move(octets)) {}
  Octets octets_;
};

}  // namespace verbatim::transport::test

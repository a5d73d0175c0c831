// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "transport/rc/test_responder.h"

namespace verbatim::transport::test {

/// A Receiver with receives at random places and with keys, and the checks that no receive
/// completes twice and that nothing is written but the memory that keys and receives name. Only
/// fuzzers include this file.
class FuzzedReceiver {
 public:
  static constexpr std::size_t kReceiveOctets = 16 * 1024;  // from the start of the arena
  static constexpr std::size_t kRegionOctets = 8 * 1024;    // from Receiver::kRemote on

  FuzzedReceiver(verbatim::test::FuzzInput& input, bool shared) : input_(input), parts_(shared) {
    Arena& arena = parts_.arena();
    receives_ = arena.region(memory::Access::kLocalWrite, 0, kReceiveOctets);
    keys_.push_back(arena.region(kAllRights, Receiver::kRemote, kRegionOctets));
    keys_.push_back(arena.region(memory::Access::kRemoteRead, Receiver::kRemote, kRegionOctets));
    VB_ASSERT(arena.registry().deregister_region(arena.key()).ok());
  }

  [[nodiscard]] Receiver& parts() noexcept { return parts_; }
  /// The key of everything, that of everything to read only, and those that were added.
  [[nodiscard]] const std::vector<wire::MemoryKey>& keys() const noexcept { return keys_; }
  void add(wire::MemoryKey key) { keys_.push_back(key); }

  void post_receive() {
    if (posted_ - reported_ >= Receiver::kDepth) return;
    std::vector<memory::Sge> list;
    for (std::uint32_t left = input_.below(4); left > 0; --left) {
      list.push_back({.address = parts_.arena().address(input_.two_octets() % 8192),
                      .octets = input_.two_octets() % 4096U,
                      .lkey = receives_});
      if (input_.below(64) == 63) list.back().lkey = wire::MemoryKey{0x666};
    }
    (void)parts_.post_receive(std::move(list));
    ++posted_;
  }
  std::vector<Completion> take_completions() {
    auto completions = parts_.completions();
    reported_ += completions.size();
    VB_ASSERT(reported_ <= posted_);
    return completions;
  }
  void check_memory() {
    Arena& arena = parts_.arena();
    VB_ASSERT(arena.guards_hold());
    constexpr std::size_t kEnd = Receiver::kRemote + kRegionOctets;
    VB_ASSERT(is_all(arena.octets(kReceiveOctets, Receiver::kRemote - kReceiveOctets), {}));
    VB_ASSERT(is_all(arena.octets(kEnd, Arena::kOctets - kEnd), {}));
  }

 private:
  verbatim::test::FuzzInput& input_;
  Receiver parts_;
  wire::MemoryKey receives_{};  // of the memory that receives lie in
  std::vector<wire::MemoryKey> keys_;
  std::uint64_t posted_ = 0;    // receives
  std::uint64_t reported_ = 0;  // completions
};

}  // namespace verbatim::transport::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/memory_parts.h"
#include "memory/test_memory.h"

namespace verbatim::device {

/// The parts of an adapter that regions and windows use, without the adapter, for tests. Peers are
/// what a test says they are.
class TestMemoryWorld : private PeerAccess {
 public:
  static constexpr auto kHome = memory::TestMemory::kHome;
  static constexpr auto kAbroad = memory::TestMemory::kAbroad;

  explicit TestMemoryWorld(std::uint32_t entry_count = 8)
      : memory(entry_count), homes_(memory.registry(), lock_, *this) {
    (void)domains_.open();
    (void)domains_.open();
  }

  [[nodiscard]] MemoryParts parts() noexcept {
    return {.lock = lock_,
            .keys = memory.registry(),
            .domains = domains_,
            .homes = homes_,
            .peers = *this};
  }
  [[nodiscard]] RegionHomes& homes() noexcept { return homes_; }
  [[nodiscard]] host::AdapterLock& lock() noexcept { return lock_; }
  /// Whether a peer of domain kHome may write the first octet through this key.
  [[nodiscard]] bool admits(wire::MemoryKey key) const {
    return refusal_of(memory.table().check_remote(memory.want(key))) == memory::Refusal::kNone;
  }
  /// Whether the domain contains an object. With the lock held, or no other thread.
  [[nodiscard]] bool is_in_use(memory::DomainId domain) {
    if (!domains_.close(domain)) return true;
    (void)domains_.open();  // gets the same number: it is the first free one
    return false;
  }

  memory::TestMemory memory;
  /// Called in the middle of await() and await_calls(). `has_left` is the answer of await().
  std::function<void()> on_await = [] {};
  std::function<void(host::AdapterGuard&)> on_await_calls = [](auto&) {};
  bool has_left = true;
  /// The waits in their order, and the range of the last wait for calls.
  std::vector<std::string> waits;
  std::pair<std::uint64_t, std::uint64_t> awaited{};  // address and octets

 private:
  bool await() override {
    waits.emplace_back("accesses");
    on_await();
    return has_left;
  }
  void await_calls(host::AdapterGuard& lock, std::uint64_t address, std::uint64_t octets) override {
    waits.emplace_back("calls");
    awaited = {address, octets};
    on_await_calls(lock);
  }

  host::AdapterLock lock_;
  std::array<memory::DomainTable::Entry, 2> domain_entries_{};
  memory::DomainTable domains_{domain_entries_};
  RegionHomes homes_;
};

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>
#include <vector>

#include "base/prng.h"
#include "memory/test_memory.h"

namespace verbatim::memory {
namespace {

constexpr std::uint32_t kEntries = 16;
constexpr std::uint32_t kFirstIndex = 0x77;
constexpr std::size_t kSegmentOctets = kEntries * sizeof(KeyEntry);

/// One segment of shared memory and two mappings of it: the owner's, and a read-only one as a peer
/// process has it.
class SharedEntries {
 public:
  SharedEntries() : file_(memfd_create("key_table", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, kSegmentOctets) != 0) return;
    void* const owners =
        mmap(nullptr, kSegmentOctets, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    void* const peers = mmap(nullptr, kSegmentOctets, PROT_READ, MAP_SHARED, file_, 0);
    if (owners != MAP_FAILED) owners_ = static_cast<KeyEntry*>(owners);
    if (peers != MAP_FAILED) peers_ = static_cast<KeyEntry*>(peers);
  }
  SharedEntries(const SharedEntries&) = delete;
  SharedEntries& operator=(const SharedEntries&) = delete;
  ~SharedEntries() {
    if (owners_ != nullptr) munmap(owners_, kSegmentOctets);
    if (peers_ != nullptr) munmap(peers_, kSegmentOctets);
    if (file_ >= 0) close(file_);
  }

  [[nodiscard]] bool ok() const { return owners_ != nullptr && peers_ != nullptr; }
  [[nodiscard]] std::span<KeyEntry> owners() const { return {owners_, kEntries}; }
  [[nodiscard]] std::span<KeyEntry> peers() const { return {peers_, kEntries}; }

 private:
  int file_;
  KeyEntry* owners_ = nullptr;
  KeyEntry* peers_ = nullptr;
};

void expect_same_verdict(const Expected<Grant, Refusal>& one,
                         const Expected<Grant, Refusal>& other) {
  ASSERT_EQ(refusal_of(one), refusal_of(other));
  if (!one) return;
  EXPECT_EQ(one->offset, other->offset);
  EXPECT_EQ(one->address, other->address);
  EXPECT_EQ(one->shared_at, other->shared_at);
  EXPECT_EQ(one->backing, other->backing);
}

TEST(SharedKeyTable, TwoMappingsOfTheSameEntriesGiveTheSameVerdicts) {
  const SharedEntries shared;
  ASSERT_TRUE(shared.ok());
  ASSERT_NE(shared.owners().data(), shared.peers().data());
  std::vector<std::uint32_t> free_list(kEntries);
  KeyRegistry registry(KeyTable(shared.owners(), kFirstIndex), free_list, 1);
  const KeyTable& owners = registry.table();
  const KeyTable peers(shared.peers(), kFirstIndex);

  Prng prng(20);
  std::vector<wire::MemoryKey> keys;
  std::uint64_t granted = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (prng.one_in(8) && !keys.empty()) {
      // Whatever the key names, and whether or not it is refused: both tables are compared
      // afterwards.
      const auto key = keys[prng.below(keys.size())];
      (void)registry.deregister_region(key);
      (void)registry.free_window(key);
    } else if (prng.one_in(4)) {
      const auto key = registry.register_region(
          {.domain = DomainId{static_cast<std::uint32_t>(prng.between(1, 2))},
           .address = prng.below(64),
           .octets = prng.below(64),
           .base = prng.below(64),
           .access = TestMemory::kEverything});
      if (key) keys.push_back(*key);
    } else if (prng.one_in(8)) {
      const auto window = registry.allocate_window(DomainId{1}, KeyKind::kWindowType2B);
      if (window) keys.push_back(*window);
    }
    if (keys.empty()) continue;
    const auto any_key = [&] { return keys[prng.below(keys.size())]; };
    if (prng.one_in(2)) {
      const auto window = any_key();
      // A refusal is as good as a binding here.
      (void)bind_type2(owners, {.domain = DomainId{1}, .qp = TestMemory::kQp},
                       {.window_key = window,
                        .new_key = window,
                        .region_key = any_key(),
                        .address = prng.below(64),
                        .octets = prng.below(16),
                        .access = Access::kRemoteWrite});
    }
    const KeyTable::Want want{.key = any_key(),
                              .domain = DomainId{static_cast<std::uint32_t>(prng.between(1, 2))},
                              .qp = TestMemory::kQp,
                              .address = prng.below(64),
                              .octets = prng.below(16),
                              .need = prng.one_in(2) ? Access::kRemoteWrite : Access::kLocalWrite};
    expect_same_verdict(owners.check_remote(want), peers.check_remote(want));
    expect_same_verdict(owners.check_local(want), peers.check_local(want));
    expect_same_verdict(owners.check_whole(want), peers.check_whole(want));
    if (owners.check_remote(want)) ++granted;
  }
  EXPECT_GT(granted, 1000U);  // else only refusals were compared
}

}  // namespace
}  // namespace verbatim::memory

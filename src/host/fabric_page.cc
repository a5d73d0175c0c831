// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_page.h"

#include <cstring>

#include "base/fence.h"

namespace verbatim::host {
namespace {

constexpr int kReadsMax = 100'000;  // a write takes about a microsecond

}  // namespace

void FabricPage::write(const FabricNodeState& state) noexcept {
  std::array<std::uint64_t, kWords> words{};
  std::memcpy(words.data(), &state, sizeof state);
  const std::uint64_t before = sequence_.load(std::memory_order_relaxed) & ~std::uint64_t{1};
  sequence_.store(before + 1, std::memory_order_relaxed);
  full_fence();  // the words are stored later; pairs with the fence in read()
  for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  sequence_.store(before + 2, std::memory_order_release);  // pairs with the acquire in read()
}

std::optional<FabricNodeState> FabricPage::read() const noexcept {
  if (magic_ != kMagic || version_ != kVersion) return std::nullopt;
  std::array<std::uint64_t, kWords> words;
  for (int reads = 0; reads < kReadsMax; ++reads) {
    const std::uint64_t before = sequence_.load(std::memory_order_acquire);
    if ((before & 1) != 0) continue;
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    full_fence();  // pairs with the fence in write()
    if (sequence_.load(std::memory_order_relaxed) != before) continue;
    FabricNodeState state;
    std::memcpy(static_cast<void*>(&state), words.data(), sizeof state);
    return state;
  }
  return std::nullopt;
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace verbatim::sim {

/// Allocates zeroed blocks, aligned to 64 octets, that exist as long as it does. Endpoints take all
/// their storage from one, so that a test can place memory that peers may see elsewhere.
class MemorySource {
 public:
  MemorySource() = default;
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;
  virtual ~MemorySource() = default;

  [[nodiscard]] virtual std::span<std::byte> take(std::size_t octets) {
    const std::size_t rounded = (octets + 63) & ~std::size_t{63};
    blocks_.emplace_back(new (std::align_val_t{64}) std::byte[rounded]{});
    return {blocks_.back().get(), octets};
  }

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept {
      ::operator delete[](block, std::align_val_t{64});
    }
  };
  std::vector<std::unique_ptr<std::byte[], Free>> blocks_;
};

}  // namespace verbatim::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/pointer.h"
#include "rehome/page_mover.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

/// A mapping of the arena that a child inherits.
struct Inherited {
  PageMover::Job job;
  bool is_private = false;  // since an earlier fork, or since a peer was stopped
};

/// A list of such mappings in pages of its own, which never move: a forked child reads it before it
/// has the moved memory. Mappings that do not fit are left out.
class InheritanceTable {
 public:
  InheritanceTable() noexcept = default;
  InheritanceTable(const InheritanceTable&) = delete;
  InheritanceTable& operator=(const InheritanceTable&) = delete;
  ~InheritanceTable() {
    if (mappings_ != nullptr) kernel::unmap(numeric_address(mappings_), octets());
  }

  /// Reserves room for `most` mappings. Once; false when there is no memory.
  [[nodiscard]] bool open(std::size_t most) noexcept {
    if (mappings_ != nullptr) return true;
    most_ = most;
    const long at = kernel::map(0, octets(), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kernel::failed(at)) return false;
    mappings_ = pointer_as<Inherited>(at);
    return true;
  }
  void push_back(const Inherited& mapping) noexcept {
    if (count_ < most_) mappings_[count_++] = mapping;
  }
  void clear() noexcept { count_ = 0; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] Inherited* begin() const noexcept { return mappings_; }
  [[nodiscard]] Inherited* end() const noexcept { return mappings_ + count_; }

 private:
  [[nodiscard]] std::size_t octets() const noexcept { return most_ * sizeof(Inherited); }

  Inherited* mappings_ = nullptr;
  std::size_t count_ = 0;
  std::size_t most_ = 0;
};

}  // namespace verbatim::rehome

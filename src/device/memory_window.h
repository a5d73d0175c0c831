// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "device/memory_parts.h"
#include "memory/domain.h"
#include "memory/key_entry.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// A memory window (IBA Vol 1, 10.6.7): a key without memory of its own. A request of a queue pair
/// binds it to a part of a region, and gives it another low key octet.
///
/// Thread: any thread of the program, without the adapter's lock; one call at a time.
class MemoryWindow {
 public:
  /// As KeyRegistry::allocate_window(). `domain` is an open one.
  [[nodiscard]] static Expected<MemoryWindow> create(const MemoryParts& parts,
                                                     memory::DomainId domain, memory::KeyKind kind);

  /// Unbinds the window, and waits for peers that are in the middle of an access through it. The
  /// memory stays registered, so a peer that is stopped there harms nothing.
  [[nodiscard]] Status destroy();

  /// The key before the first bind.
  [[nodiscard]] wire::MemoryKey first_key() const noexcept { return first_key_; }

 private:
  MemoryWindow(const MemoryParts& parts, memory::DomainId domain, wire::MemoryKey key) noexcept
      : parts_(parts), domain_(domain), first_key_(key) {}

  MemoryParts parts_;
  memory::DomainId domain_;
  wire::MemoryKey first_key_;  // names the entry: its upper 24 bits never change
};

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "fabric/topology/topology.h"
#include "wire/headers/guid.h"

namespace verbatim::fabric {

/// Finds ports by a GUID. All are added, then sorted once, then found.
class GuidIndex {
 public:
  void add(wire::Guid guid, PortEnd end) { entries_.push_back({.guid = guid, .end = end}); }
  void sort() { std::ranges::sort(entries_, {}, &Entry::guid); }
  [[nodiscard]] std::optional<PortEnd> find(wire::Guid guid) const noexcept {
    const auto found = std::ranges::lower_bound(entries_, guid, {}, &Entry::guid);
    if (found == entries_.end() || found->guid != guid) return std::nullopt;
    return found->end;
  }

 private:
  struct Entry {
    wire::Guid guid{};
    PortEnd end{};
  };
  std::vector<Entry> entries_;
};

}  // namespace verbatim::fabric

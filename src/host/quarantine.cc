// SPDX-License-Identifier: Apache-2.0
#include "host/quarantine.h"

#include <algorithm>

namespace verbatim::host {

void Quarantine::give_back(std::span<std::byte> block) {
  const auto touches = [&](const Held& held) {
    return std::ranges::find(held.stray.touches, block.data()) != held.stray.touches.end();
  };
  const auto holder = std::ranges::find_if(strays_, touches);
  if (holder == strays_.end()) return segment_.give_back(block);
  holder->blocks.push_back(block);
}

void Quarantine::look() {
  std::list<Held> gone;
  for (auto next = strays_.begin(); next != strays_.end();) {
    const auto at = next++;
    if (at->stray.has_gone()) gone.splice(gone.end(), strays_, at);
  }
  for (Held& held : gone) {
    if (held.stray.on_gone) held.stray.on_gone();
    for (const auto& block : held.blocks) give_back(block);  // another stray may touch it as well
  }
}

std::size_t Quarantine::held_count() const noexcept {
  std::size_t count = 0;
  for (const Held& held : strays_) count += held.blocks.size();
  return count;
}

}  // namespace verbatim::host

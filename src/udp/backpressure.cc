// SPDX-License-Identifier: Apache-2.0
#include "udp/backpressure.h"

#include <algorithm>

namespace verbatim::link {

std::size_t Backpressure::room_at(const Receiver& receiver, Instant now) {
  const auto fill = port_.fill_of(receiver.address, receiver.slot);
  if (!fill) return kUnlimited;
  const std::size_t at_once = std::max<std::size_t>(fill->limit / 4, 1);
  if (fill->used < fill->limit / 2) {
    forget(receiver);
    return std::min(fill->limit / 2 - fill->used, at_once);
  }
  const auto known = std::find_if(full_.begin(), full_.end(), [&](const FullReceiver& full) {
    return full.receiver == receiver;
  });
  if (known == full_.end()) {
    full_.push_back({.receiver = receiver, .since = now});
    return 0;
  }
  return now - known->since < kPatience ? 0 : at_once;
}

void Backpressure::forget(const Receiver& receiver) noexcept {
  std::erase_if(full_, [&](const FullReceiver& full) { return full.receiver == receiver; });
}

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
#include "capture/capturing_link.h"

#include <algorithm>

namespace verbatim::link {

void CapturingLink::send(Instant now, Burst& burst) noexcept {
  inner().send(now, burst);
  for (const Burst::Train& train : burst.trains()) {
    for (std::size_t number = 0; number < train.packets; ++number) {
      if (!train.was_sent(number)) continue;
      capture_.record_sent(interface_, train.to, burst.packet(train, number),
                           train.identification(number));
    }
  }
  capture_.flush_if_due();
}

std::span<const Incoming> CapturingLink::receive(Instant now, Look look) noexcept {
  const auto burst = inner().receive(now, look);
  for (const Incoming& incoming : burst) capture_.record_received(interface_, incoming);
  return burst;
}

Instant CapturingLink::next_due() const noexcept {
  if (!is_open()) return Instant::never();
  return std::min(WrappingLink::next_due(), capture_.next_flush());
}

bool CapturingLink::admit_forwarded(Instant now, const Incoming& incoming,
                                    std::span<std::byte> octets) noexcept {
  capture_.record_received(interface_, incoming);
  return inner().admit_forwarded(now, incoming, octets);
}

void CapturingLink::close() noexcept {
  WrappingLink::close();
  capture_.flush();
}

}  // namespace verbatim::link

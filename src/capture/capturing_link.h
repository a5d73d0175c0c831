// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "capture/capture.h"
#include "link/wrapping_link.h"

namespace verbatim::link {

/// Any link, with a record of what goes through it (docs/CAPTURE.md): the packets that have left,
/// after they have, and the packets that arrived. A packet that the link could not send is not
/// recorded.
class CapturingLink final : public WrappingLink {
 public:
  /// Packets are recorded as those of `interface`. The capture outlives the link.
  CapturingLink(Link& inner, Capture& capture, std::uint32_t interface)
      : WrappingLink(inner), capture_(capture), interface_(interface) {
    tell_headers();
  }

  void send(Instant now, Burst& burst) noexcept override;
  using Link::receive;
  [[nodiscard]] std::span<const Incoming> receive(Instant now, Look look) noexcept override;
  /// The capture is written out by flush(), at the latest when it says so.
  [[nodiscard]] Instant next_due() const noexcept override;
  [[nodiscard]] bool admit_forwarded(Instant now, const Incoming& incoming,
                                     std::span<std::byte> octets) noexcept override;
  /// Writes out what is recorded.
  void close() noexcept override;

 private:
  Capture& capture_;
  std::uint32_t interface_;  // in the capture
};

}  // namespace verbatim::link

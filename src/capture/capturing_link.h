// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "capture/capture.h"
#include "link/wrapping_link.h"

namespace verbatim::link {

/// A link around another one that records the packets that have left and those that have arrived
/// (docs/CAPTURE.md). A packet that the link could not send is not recorded.
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
  /// Includes the time at which flush() must write the capture.
  [[nodiscard]] Instant next_due() const noexcept override;
  [[nodiscard]] bool admit_forwarded(Instant now, const Incoming& incoming,
                                     std::span<std::byte> octets) noexcept override;
  /// Also writes the recorded packets to the file.
  void close() noexcept override;

 private:
  Capture& capture_;
  std::uint32_t interface_;  // in the capture
};

}  // namespace verbatim::link

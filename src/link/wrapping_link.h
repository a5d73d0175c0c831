// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "link/link.h"

namespace verbatim::link {

/// A link around another one that changes nothing: the base of links that record packets or inject
/// faults. The inner link is open and outlives the wrapper. While the wrapper exists, the inner
/// link is used through it only.
class WrappingLink : public Link {
 public:
  explicit WrappingLink(Link& inner) noexcept : inner_(inner) {
    burst_.use_trains(inner.uses_trains());
    follow_hold_of(inner);
    write_to(&burst_);
  }

  void send(Instant now, Burst& burst) noexcept override { inner_.send(now, burst); }
  using Link::receive;
  [[nodiscard]] std::span<const Incoming> receive(Instant now, Look look) noexcept override {
    return inner_.receive(now, look);
  }
  [[nodiscard]] bool prepare_to_wait() noexcept override { return inner_.prepare_to_wait(); }
  [[nodiscard]] Instant next_due() const noexcept override { return inner_.next_due(); }
  [[nodiscard]] std::span<const int> descriptors() const noexcept override {
    return inner_.descriptors();
  }
  [[nodiscard]] const LinkCounters& counters() const noexcept override { return inner_.counters(); }
  [[nodiscard]] bool admit_forwarded(Instant now, const Incoming& incoming,
                                     std::span<std::byte> octets) noexcept override {
    return inner_.admit_forwarded(now, incoming, octets);
  }
  void tell_headers() noexcept override { inner_.tell_headers(); }
  void close() noexcept override {
    write_to(nullptr);
    inner_.close();
  }

 protected:
  [[nodiscard]] Link& inner() noexcept { return inner_; }

 private:
  Link& inner_;
  Burst burst_;
};

}  // namespace verbatim::link

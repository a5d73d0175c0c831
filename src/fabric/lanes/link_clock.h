// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "fabric/topology/link_rate.h"

namespace verbatim::fabric {

/// Until when a link sends in one direction. It counts parts of a nanosecond, so that many short
/// packets take as long as their octets.
class LinkClock {
 public:
  /// `slowdown` 0: packets take no time.
  void set_rate(const LinkRate& rate, std::uint32_t slowdown) noexcept {
    set_megabits(data_megabits_of(rate), slowdown);
  }
  void set_megabits(std::uint32_t megabits, std::uint32_t slowdown) noexcept {
    // 8 bits of an octet, and so many bits in a microsecond.
    octet_parts_ = slowdown == 0 ? 0 : (std::uint64_t{8'000} * slowdown << kPartBits) / megabits;
  }
  /// A packet may begin at `now`, if the link may be ahead of the time by `grain`.
  [[nodiscard]] bool is_free(Instant now, Duration grain) const noexcept {
    return busy_ <= now + grain;
  }
  [[nodiscard]] Instant busy_until() const noexcept { return busy_; }
  /// A packet of so many octets begins at `now`, or where the last one ends.
  void send(Instant now, std::uint32_t octets) noexcept {
    if (busy_ < now) {
      busy_ = now;
      parts_ = 0;
    }
    parts_ += octets * octet_parts_;
    busy_ = busy_ + Duration(static_cast<std::int64_t>(parts_ >> kPartBits));
    parts_ &= (std::uint64_t{1} << kPartBits) - 1;
  }
  /// The link begins anew.
  void reset() noexcept { busy_ = {}; }
  /// How many words of four octets the link could have sent in a time; 0 if packets take none.
  [[nodiscard]] std::uint64_t words_in(Duration time) const noexcept {
    if (octet_parts_ == 0 || time <= Duration{0}) return 0;
    const Wide parts = static_cast<Wide>(time.count()) << kPartBits;
    return static_cast<std::uint64_t>(parts / (4 * octet_parts_));
  }

 private:
  static constexpr unsigned kPartBits = 20;
  __extension__ using Wide = unsigned __int128;
  Instant busy_{};
  std::uint64_t parts_ = 0;        // of a nanosecond, behind busy_
  std::uint64_t octet_parts_ = 0;  // that an octet takes
};

}  // namespace verbatim::fabric

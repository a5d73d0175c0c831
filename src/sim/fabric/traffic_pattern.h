// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "base/prng.h"

namespace verbatim::sim {

/// Who sends to whom.
struct TrafficPattern {
  enum class Kind : std::uint8_t {
    kShift,        // each host to the one `count` ahead
    kPermutation,  // each host to one other, each of which gets from one; chosen by the seed
    kUniform,      // each message to any other host
    kIncast,       // `count` hosts, chosen by the seed, to the first one
    kAllToAll,     // each host to all others in turn, beginning with the next
    kBitReverse,   // each host to the one whose number is its own, read from the other end
  };
  Kind kind = Kind::kShift;
  std::uint32_t count = 1;
  friend bool operator==(const TrafficPattern&, const TrafficPattern&) noexcept = default;
};

/// "shift:2", "permutation", "uniform", "incast:15", "all-to-all", "bit-reverse". On failure
/// `message` says what would be right.
[[nodiscard]] Expected<TrafficPattern> parse_traffic_pattern(std::string_view text,
                                                             std::string& message);

/// The destinations of the messages of each host, by numbers from 0 on. Equal patterns and seeds
/// give equal destinations.
class Destinations {
 public:
  /// On failure `message` says what of the pattern does not fit the number of hosts.
  [[nodiscard]] static Expected<Destinations> open(const TrafficPattern& pattern,
                                                   std::uint32_t hosts, std::uint64_t seed,
                                                   std::string& message);

  [[nodiscard]] bool sends(std::uint32_t host) const noexcept { return fixed_[host] != kNone; }
  /// Of the next message; the host must be one that sends.
  [[nodiscard]] std::uint32_t next(std::uint32_t host) noexcept;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  Destinations(const TrafficPattern& pattern, std::uint32_t hosts, std::uint64_t seed)
      : kind_(pattern.kind), fixed_(hosts, kNone), prng_(seed) {}
  void choose_permutation();
  void choose_senders(std::uint32_t count);

  TrafficPattern::Kind kind_{};
  // By host: its destination, or where it changes with each message the last one; kNone: the host
  // sends nothing.
  std::vector<std::uint32_t> fixed_;
  Prng prng_;
};

}  // namespace verbatim::sim

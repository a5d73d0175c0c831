// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/traffic_pattern.h"

#include <array>
#include <bit>
#include <charconv>
#include <numeric>
#include <utility>

namespace verbatim::sim {
namespace {

using Kind = TrafficPattern::Kind;

struct Name {
  std::string_view text;
  Kind kind{};
  bool has_count = false;
};
constexpr std::array<Name, 6> kNames{{
    {"shift", Kind::kShift, true},
    {"permutation", Kind::kPermutation},
    {"uniform", Kind::kUniform},
    {"incast", Kind::kIncast, true},
    {"all-to-all", Kind::kAllToAll},
    {"bit-reverse", Kind::kBitReverse},
}};
constexpr std::string_view kAll =
    "expected is shift:2, permutation, uniform, incast:15, all-to-all or bit-reverse";

std::uint32_t reversed(std::uint32_t number, unsigned bits) noexcept {
  std::uint32_t result = 0;
  for (unsigned bit = 0; bit < bits; ++bit) result |= (number >> bit & 1U) << (bits - 1 - bit);
  return result;
}

Errc refuse(std::string& message, std::string why) {
  message = std::move(why);
  return Errc::kInvalidArgument;
}

}  // namespace

Expected<TrafficPattern> parse_traffic_pattern(std::string_view text, std::string& message) {
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  for (const Name& name : kNames) {
    if (name.text != word) continue;
    TrafficPattern pattern{.kind = name.kind};
    if (!name.has_count && colon == text.npos) return pattern;
    if (!name.has_count) return refuse(message, std::string(word) + " takes no number");
    const std::string_view digits = colon == text.npos ? "" : text.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, pattern.count);
    if (parsed.ec == std::errc{} && parsed.ptr == end && pattern.count != 0) return pattern;
    return refuse(message, std::string(word) + " needs a number of hosts from 1 on, as " +
                               std::string(word) + ":2");
  }
  return refuse(message,
                "'" + std::string(word) + "' is no pattern of traffic; " + std::string(kAll));
}

Expected<Destinations> Destinations::open(const TrafficPattern& pattern, std::uint32_t hosts,
                                          std::uint64_t seed, std::string& message) {
  if (hosts < 2) return refuse(message, "traffic needs two hosts that have a LID");
  const std::string all = "the fabric has " + std::to_string(hosts) + " hosts";
  Destinations made(pattern, hosts, seed);
  switch (pattern.kind) {
    case Kind::kShift:
      if (pattern.count % hosts == 0) {
        return refuse(message, all + ", so with shift:" + std::to_string(pattern.count) +
                                   " each would send to itself");
      }
      for (std::uint32_t host = 0; host < hosts; ++host) {
        made.fixed_[host] = (host + pattern.count % hosts) % hosts;
      }
      break;
    case Kind::kPermutation:
      made.choose_permutation();
      break;
    case Kind::kUniform:
    case Kind::kAllToAll:
      std::iota(made.fixed_.begin(), made.fixed_.end(), 0U);
      break;
    case Kind::kIncast:
      if (pattern.count >= hosts) {
        return refuse(message,
                      all + ", so at most incast:" + std::to_string(hosts - 1) + " is possible");
      }
      made.choose_senders(pattern.count);
      break;
    case Kind::kBitReverse: {
      if (!std::has_single_bit(hosts)) {
        return refuse(message, all + ", and bit-reverse needs 2, 4, 8 ... hosts");
      }
      const auto bits = static_cast<unsigned>(std::countr_zero(hosts));
      for (std::uint32_t host = 0; host < hosts; ++host) {
        const std::uint32_t to = reversed(host, bits);
        if (to != host) made.fixed_[host] = to;
      }
      break;
    }
  }
  return made;
}

/// One cycle of all hosts (Sattolo's algorithm), so that no host sends to itself.
void Destinations::choose_permutation() {
  std::iota(fixed_.begin(), fixed_.end(), 0U);
  for (std::size_t last = fixed_.size() - 1; last > 0; --last) {
    std::swap(fixed_[last], fixed_[prng_.below(last)]);
  }
}

void Destinations::choose_senders(std::uint32_t count) {
  std::vector<std::uint32_t> others(fixed_.size() - 1);
  std::iota(others.begin(), others.end(), 1U);
  for (std::uint32_t chosen = 0; chosen < count; ++chosen) {
    std::swap(others[chosen], others[chosen + prng_.below(others.size() - chosen)]);
    fixed_[others[chosen]] = 0;
  }
}

std::uint32_t Destinations::next(std::uint32_t host) noexcept {
  const auto hosts = static_cast<std::uint32_t>(fixed_.size());
  if (kind_ == Kind::kUniform) {
    const auto other = static_cast<std::uint32_t>(prng_.below(hosts - 1));
    return other < host ? other : other + 1;
  }
  if (kind_ == Kind::kAllToAll) {
    fixed_[host] = (fixed_[host] + 1) % hosts;
    if (fixed_[host] == host) fixed_[host] = (host + 1) % hosts;
  }
  return fixed_[host];
}

}  // namespace verbatim::sim

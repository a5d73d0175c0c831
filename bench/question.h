// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "rounds.h"

namespace verbatim::bench {

constexpr int kServerCore = 0;
constexpr int kClientCore = 1;

/// What a peer is asked on its command line: PROGRAM [WORD...] KIND OCTETS COUNT. It prints one
/// number: microseconds one way for `latency`, millions of messages per second for `rate`, GB/s for
/// the rest.
struct Question {
  std::string_view kind;
  std::size_t octets = 0;  // in a message
  std::size_t count = 0;   // messages, or round trips
};

[[noreturn]] inline void stop(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

/// Reads the last three words of the command line.
inline Question question_of(int count, char** words, int words_before = 0) {
  if (count != 4 + words_before) {
    std::fprintf(stderr, "usage: %s %sKIND OCTETS COUNT\n", words[0],
                 words_before > 0 ? "WORD " : "");
    std::exit(2);
  }
  const Question question{.kind = words[count - 3],
                          .octets = std::strtoul(words[count - 2], nullptr, 10),
                          .count = std::strtoul(words[count - 1], nullptr, 10)};
  if (question.octets == 0 || question.count == 0) stop("OCTETS and COUNT are numbers above zero");
  return question;
}

inline void pin_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(core), &cores);
  if (::sched_setaffinity(0, sizeof cores, &cores) != 0) stop("sched_setaffinity failed");
}

/// The median half of a round trip in microseconds, taken over groups so that reading the clock
/// costs nothing and an interruption spoils one group.
template <typename RoundTrip>
double half_trip(std::size_t count, RoundTrip&& round_trip) {
  constexpr std::size_t kGroup = 100;
  std::vector<double> halves;
  for (std::size_t done = 0; done < count; done += kGroup) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < kGroup; ++i) round_trip();
    halves.push_back(seconds_since(start) * 1e6 / 2 / kGroup);
  }
  return median(halves);
}

/// Round trips that half_trip() makes when asked for `count`.
constexpr std::size_t whole_groups(std::size_t count) { return (count + 99) / 100 * 100; }

/// The number for `rate` or a kind of bandwidth, after all messages have gone.
inline double throughput(const Question& question, double seconds) {
  const auto messages = static_cast<double>(question.count);
  if (question.kind == "rate") return messages / seconds / 1e6;
  return messages * static_cast<double>(question.octets) / seconds / 1e9;
}

inline void answer(double number) { std::printf("%.6f\n", number); }

}  // namespace verbatim::bench

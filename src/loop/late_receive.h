// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/queue_pair_machine.h"

namespace verbatim::loop {

/// How long a message of an unreliable service that finds no receive waits for the program to post
/// one. One object for each queue pair.
///
/// An adapter made of hardware takes packets one by one, and a program that polls posts receives as
/// fast as they are used. This adapter takes packets in bursts, on a thread of the program, which
/// cannot post meanwhile, or on the engine's thread while the program waits for a processor. So a
/// packet that finds no receive waits. If the program has posted no receive in that time, no later
/// packet waits until the program posts one.
class LateReceive {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(10);
  /// The time between two looks for a receive.
  static constexpr Duration kNextLook = std::chrono::microseconds(250);

  /// Whether a packet should wait for a receive that the program may be about to post.
  [[nodiscard]] bool lets_wait(const transport::QueuePairMachine& machine,
                               const transport::Arrival& arrival, Instant now) noexcept {
    return machine.lacks_receive_for(arrival.packet) && machine.is_addressed_by(arrival) &&
           is_worth_waiting_for(machine.receives_posted(), now);
  }

  /// `posted` is how many receives were ever posted.
  [[nodiscard]] bool is_worth_waiting_for(std::uint32_t posted, Instant now) noexcept {
    if (!has_waited_ || posted != posted_) {
      has_waited_ = true;
      posted_ = posted;
      since_ = now;
    }
    return now - since_ < kPatience;
  }

 private:
  bool has_waited_ = false;
  std::uint32_t posted_ = 0;  // when a packet began to wait last
  Instant since_{};
};

}  // namespace verbatim::loop

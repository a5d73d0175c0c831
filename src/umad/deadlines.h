// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::umad {

/// When the last request that a program has sent fails, at the latest. libibmad waits for an answer
/// just as long as it lets the request take, and gives up instead of trying again if the failure
/// comes later than that. The process of the fabric returns a failed request a millisecond early,
/// but it may not get a processor in time. So umad_recv waits a little longer for a failure that is
/// due.
///
/// Any thread, also in a forked child: nothing here waits. A descriptor of which nothing is known
/// has no failure due.
class Deadlines {
 public:
  /// A negative timeout is none.
  static void sent(int port, int timeout_ms) noexcept;
  /// Something has arrived: it may be the answer.
  static void received(int port) noexcept;
  /// How much longer to wait for a failure that is due; 0: none is.
  [[nodiscard]] static int grace_ms(int port) noexcept;
};

}  // namespace verbatim::umad

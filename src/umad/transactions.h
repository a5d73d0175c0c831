// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/umad.h>

namespace verbatim::umad {

/// The transactions that this process has sent last and to which nothing has come back yet. The
/// kernel refuses a datagram whose transaction is still outstanding; the process of the fabric does
/// the same, but to ask it costs a round trip. So only a datagram that looks like one of these is
/// asked about.
///
/// It may forget one, and it may take one for outstanding that is not any more. Any thread, also in
/// a forked child: nothing here waits.
class Transactions {
 public:
  /// Whether the datagram may be a repetition of an outstanding one.
  [[nodiscard]] static bool may_be_outstanding(int port, const ib_user_mad& mad) noexcept;
  /// It is to be sent, and is outstanding until something comes back for it.
  static void sent(int port, const ib_user_mad& mad) noexcept;
  /// An answer has arrived, or the news that there is none.
  static void received(int port, const ib_user_mad& mad) noexcept;
};

}  // namespace verbatim::umad

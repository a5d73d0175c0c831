// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::umad {

/// Which agents this process has registered at which descriptors, so that a datagram of an unknown
/// agent is refused where it is sent. A descriptor that another process has opened is not known
/// here, and the fabric judges its datagrams.
///
/// Any thread, also in a forked child: nothing here waits.
class Agents {
 public:
  static void open(int descriptor) noexcept;
  static void close(int descriptor) noexcept;
  static void add(int descriptor, std::uint32_t agent) noexcept;
  static void remove(int descriptor, std::uint32_t agent) noexcept;
  /// True for descriptors that are not known.
  [[nodiscard]] static bool may_send(int descriptor, int agent) noexcept;
};

}  // namespace verbatim::umad

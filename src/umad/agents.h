// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::umad {

/// Which agents this process has registered at which descriptors, and which port each is of, so
/// that a datagram of an unknown agent is refused where it is sent. A descriptor that another
/// process has opened is not known here, and the fabric judges its datagrams.
///
/// Any thread, also in a forked child: nothing here waits.
class Agents {
 public:
  static void open(int descriptor, int port) noexcept;
  static void close(int descriptor) noexcept;
  static void add(int descriptor, std::uint32_t agent, bool has_rmpp) noexcept;
  static void remove(int descriptor, std::uint32_t agent) noexcept;
  /// The number of the port that was opened; negative when the descriptor is not known.
  [[nodiscard]] static int port_of(int descriptor) noexcept;
  /// Whether it was registered with a version of RMPP.
  [[nodiscard]] static bool has_rmpp(int descriptor, int agent) noexcept;
  /// True for descriptors that are not known.
  [[nodiscard]] static bool may_send(int descriptor, int agent) noexcept;
};

}  // namespace verbatim::umad

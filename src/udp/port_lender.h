// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/lending_desk.h"
#include "host/socket_share.h"
#include "udp/lent_socket.h"

namespace verbatim::link {

/// Lends sockets of port 4791 to other users, at the addresses where this user was first
/// (docs/decisions/0025). A borrower gets a block of slots, and all spares; asked again, the same
/// ones, unless it has them all. A user that has a block already gets a further one only if a first
/// block for one more user still fits behind it: what a borrower says about its slots is not
/// checked.
///
/// The order of the sockets at an address is theirs who bound them, and a borrower holds none but
/// its own. So there are as many spares behind a block as there are sockets in front of it that the
/// borrower does not hold: however many of these are closed, the spares take their places.
class PortLender {
 public:
  static constexpr std::size_t kBlockSlots = 16;
  static constexpr std::size_t kSlotsPerUser = 64;
  static constexpr std::size_t kLentMax = 160;           // sockets at one address, spares included
  static constexpr std::size_t kShareOfDescriptors = 4;  // one of so many may be for sharing

  /// `share` holds the sockets, and its lock is held when lend() is called. `own_slot` is this
  /// process's.
  PortLender(host::SocketShare& share, std::uint32_t own_slot) noexcept
      : share_(share), own_slot_(own_slot) {}

  /// Does not wait: kLater while another process of this user opens or closes the port.
  [[nodiscard]] host::LendingDesk::Answer lend(const host::LendingMessage& question,
                                               uid_t borrower);

 private:
  struct Stock;

  [[nodiscard]] bool make_block(const Stock& stock, const LocalAddress& address, uid_t borrower);

  host::SocketShare& share_;
  std::uint32_t own_slot_;
};

}  // namespace verbatim::link

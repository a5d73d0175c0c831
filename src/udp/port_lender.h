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
/// (docs/decisions/0025). A borrower gets a block of slots and all spares. If it asks again it gets
/// the same ones, unless it has all of them: then it gets a further block, if a first block for one
/// more user still fits after that. The lender does not check which slots a borrower says that it
/// has.
///
/// When a socket of an address is closed, the kernel moves the last one into its place. A borrower
/// holds only the sockets of its own slots, so other users can close sockets before its block. So
/// as many spares follow a block as there are sockets before it that the borrower does not hold:
/// the spares take the places of those that are closed.
class PortLender {
 public:
  static constexpr std::size_t kBlockSlots = 16;
  static constexpr std::size_t kSlotsPerUser = 64;
  static constexpr std::size_t kLentMax = 160;           // sockets at one address, spares included
  static constexpr std::size_t kShareOfDescriptors = 4;  // one of this many may be for sharing

  /// `share` holds the sockets; its lock is held when lend() is called. `own_slot` is the slot of
  /// this process.
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

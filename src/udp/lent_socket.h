// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/expected.h"
#include "udp/udp_socket.h"

namespace verbatim::link {

/// The description that a socket carries which is lent to another user (docs/decisions/0025). It is
/// part of the socket's filter, which is locked: no process can change it, and each process that
/// holds the socket can read it.
struct LentNote {
  enum class Use : std::uint8_t {
    kSlot = 1,   // receives the packets of its slot
    kSpare = 2,  // receives nothing; takes the place of a socket that is closed
  };
  Use use = Use::kSlot;
  std::uint32_t slot = 0;  // its number among the sockets of the address when it was bound
  uid_t borrower = 0;      // the user that it is lent to, as the lender sees it; 0 for a spare

  friend bool operator==(const LentNote&, const LentNote&) = default;
};

/// A socket on `port` that admits only the packets that the note names, as long as it exists. It
/// joins the other sockets of this user at the address.
[[nodiscard]] Expected<UdpSocket> open_lent(const LocalAddress& address, std::uint16_t port,
                                            const LentNote& note) noexcept;

/// Nothing when the socket is not lent: it is not locked, or has no note.
[[nodiscard]] std::optional<LentNote> note_of(int socket) noexcept;

/// Permits further sockets of the same user beside a bound socket (SO_REUSEPORT). Every holder of
/// the socket, a borrower too, can permit and forbid that, so it is called before each bind.
void share_port_again(int socket) noexcept;

/// The user that lends a socket; nothing when the socket is not lent.
[[nodiscard]] std::optional<uid_t> lender_of(int socket) noexcept;

}  // namespace verbatim::link

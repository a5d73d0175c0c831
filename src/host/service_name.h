// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/expected.h"
#include "host/mailbox.h"

namespace verbatim::host {

/// A service at one address of this host: what a request for communication names.
struct Service {
  std::array<std::uint8_t, 16> address{};
  std::uint64_t id = 0;
  friend bool operator==(const Service&, const Service&) noexcept = default;
};

/// An address as 32 hexadecimal digits.
[[nodiscard]] std::string digits_of(const std::array<std::uint8_t, 16>& address);

/// A service that this process holds against all others of its user on this host, as sockets hold
/// ports: by the UNIX name `cm-<address>-<service>`, which is free when the process ends, however
/// it ends.
///
/// The name is a mailbox. A request that reached another process is forwarded through it.
class ServiceName {
 public:
  /// kAddressInUse when a process, this one included, holds it. With a `neighbour` (Mailbox): among
  /// the processes of the user that the process was when it opened that socket; kAccessDenied when
  /// it has given up that user since.
  [[nodiscard]] static Expected<ServiceName> claim(const Service& service,
                                                   int neighbour = -1) noexcept;

  /// Says by the name `at-<address>-<service>-<slot>` where requests for a service are taken, for
  /// all processes of this user to read.
  [[nodiscard]] static Expected<ServiceName> advertise(const Service& service, std::uint32_t slot,
                                                       int neighbour = -1) noexcept;

  /// Readable when something was forwarded to us.
  [[nodiscard]] int descriptor() const noexcept { return mailbox_.descriptor(); }
  /// Takes one forwarded message; 0 when there is none.
  [[nodiscard]] std::size_t take_forwarded(std::span<std::byte> into) const noexcept {
    return mailbox_.take(into);
  }

  /// Sends octets to the holder of a service through any UNIX datagram socket of ours; false when
  /// nobody holds it or the holder cannot take more.
  [[nodiscard]] static bool forward(int through, const Service& to,
                                    std::span<const std::byte> octets) noexcept;

 private:
  [[nodiscard]] static Expected<ServiceName> take(const std::string& name, int neighbour) noexcept;

  Mailbox mailbox_;
};

}  // namespace verbatim::host

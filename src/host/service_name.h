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

/// A service at one address of this host, as a connection request names it.
struct Service {
  std::array<std::uint8_t, 16> address{};
  std::uint64_t id = 0;
  friend bool operator==(const Service&, const Service&) noexcept = default;
};

/// An address as 32 hexadecimal digits.
[[nodiscard]] std::string digits_of(const std::array<std::uint8_t, 16>& address);

/// A service that only this process of its user on this host holds, as a socket holds a port: by
/// the UNIX name `cm-<address>-<service>`, which is free when the process ends, however it ends.
///
/// The name is a mailbox. A request that reached another process is forwarded through it.
class ServiceName {
 public:
  /// kAddressInUse when a process, this one included, holds it. With a `named_socket` (Mailbox) the
  /// name is exclusive among the processes of the user that this process had when it opened that
  /// socket; kAccessDenied when it has given up that user since.
  [[nodiscard]] static Expected<ServiceName> claim(const Service& service,
                                                   int named_socket = -1) noexcept;

  /// Announces by the name `at-<address>-<service>-<slot>` which slot handles requests for a
  /// service, for all processes of this user to read.
  [[nodiscard]] static Expected<ServiceName> advertise(const Service& service, std::uint32_t slot,
                                                       int named_socket = -1) noexcept;

  /// Readable when a request was forwarded to this process.
  [[nodiscard]] int descriptor() const noexcept { return mailbox_.descriptor(); }
  /// Takes one forwarded message; 0 when there is none.
  [[nodiscard]] std::size_t take_forwarded(std::span<std::byte> into) const noexcept {
    return mailbox_.take(into);
  }

  /// Sends octets to the holder of a service through any UNIX datagram socket of this process. The
  /// errors are those of Mailbox::send(): kNoSuchObject when no process holds it.
  [[nodiscard]] static Status forward(int through, const Service& to,
                                      std::span<const std::byte> octets) noexcept;

 private:
  [[nodiscard]] static Expected<ServiceName> take(const std::string& name,
                                                  int named_socket) noexcept;

  Mailbox mailbox_;
};

}  // namespace verbatim::host

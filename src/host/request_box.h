// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <utility>

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "host/service_name.h"

namespace verbatim::host {

/// Where a process that has borrowed the port (docs/decisions/0025) gets the requests for
/// connections to one of its services. They carry no slot, so they reach a process of the user that
/// has the port, which hands them over here: at the abstract UNIX name
/// `@verbatim/port/cm/<address>/<service>`. Any user can send to it; what the owner of the port has
/// not sent is thrown away.
///
/// The name is exclusive among all users of the network namespace. So the processes of the owner
/// have a box for each of their services, too: two users cannot listen at the same port.
class RequestBox {
 public:
  RequestBox() noexcept = default;
  RequestBox(RequestBox&& other) noexcept = default;
  RequestBox& operator=(RequestBox&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  RequestBox(const RequestBox&) = delete;
  RequestBox& operator=(const RequestBox&) = delete;
  ~RequestBox() = default;

  /// kAddressInUse when a process has it, of whichever user. kNotSupported where users cannot be
  /// told apart.
  [[nodiscard]] static Expected<RequestBox> open(const Service& service, uid_t owner);

  /// Readable when there is something; -1 when it is not open.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// Takes one message of the owner's; 0 when there is none.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;

  /// Hands a message to the box of a service, through any UNIX datagram socket; false when no
  /// process has it or it cannot take more.
  [[nodiscard]] static bool hand_over(int through, const Service& to,
                                      std::span<const std::byte> octets) noexcept;

 private:
  OwnDescriptor descriptor_;
  uid_t owner_ = 0;
};

}  // namespace verbatim::host

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

/// A socket at which a process that has borrowed the port (docs/decisions/0025) gets the connection
/// requests for one of its services. Requests carry no slot, so they reach a process of the user
/// that owns the port. That process sends them to the abstract UNIX name
/// `@verbatim/port/cm/<address>/<service>`. Any user can send to this name; messages from users
/// other than the owner of the port are discarded.
///
/// The name is exclusive among all users of the network namespace. So the processes of the owner
/// also have a box for each of their services: two users cannot listen at the same port.
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

  /// kAddressInUse when a process of any user has it. kNotSupported where users cannot be told
  /// apart.
  [[nodiscard]] static Expected<RequestBox> open(const Service& service, uid_t owner);

  /// Readable when there is a message; -1 when the box is not open.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// Takes one message of the owner; 0 when there is none.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;

  /// Sends a message to the box of a service, through any UNIX datagram socket; false when no
  /// process has it or its queue is full.
  [[nodiscard]] static bool hand_over(int through, const Service& to,
                                      std::span<const std::byte> octets) noexcept;

 private:
  OwnDescriptor descriptor_;
  uid_t owner_ = 0;
};

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"

namespace verbatim::connect {

/// Why a command on a connection was refused or has failed: the errors of the layers below, and
/// errors of addresses. The border turns each into the errno of the man pages.
enum class Error : std::uint8_t {
  kInvalidArgument,      // EINVAL
  kNoMemory,             // ENOMEM
  kBusy,                 // EBUSY
  kNotSupported,         // EOPNOTSUPP
  kNoSuchObject,         // ENOENT
  kTryAgain,             // EAGAIN: no event now
  kAccessDenied,         // EACCES
  kFault,                // EFAULT
  kAlreadyExists,        // EEXIST
  kNoDevice,             // ENODEV: not an address of a device
  kTimedOut,             // ETIMEDOUT
  kAddressInUse,         // EADDRINUSE
  kNoData,               // ENODATA
  kInterrupted,          // EINTR: a signal came first
  kClosed,               // EBADF: the program has closed the descriptor
  kNoDescriptors,        // EMFILE: the process has no descriptor left
  kNotPermitted,         // EPERM
  kAddressFamily,        // EAFNOSUPPORT: not a family of addresses that this host has
  kAddressNotAvailable,  // EADDRNOTAVAIL: no interface of this host has the address
  kNetworkUnreachable,   // ENETUNREACH: no route leads there
  kHostUnreachable,      // EHOSTUNREACH
  kNetworkReset,         // ENETRESET: the subnet has forgotten what it was told
  kProtocol,             // EPROTONOSUPPORT: not a service of the port space
};

[[nodiscard]] Error error_of(Errc error) noexcept;
/// The error of an errno value. Values without an enumerator are kInvalidArgument.
[[nodiscard]] Error error_of_system(int number) noexcept;

/// Success or an error. Converts from the Status of a layer below.
class [[nodiscard]] Outcome {
 public:
  Outcome(Ok) noexcept {}                                       // NOLINT: implicit on purpose
  Outcome(Error error) noexcept : error_(error), ok_(false) {}  // NOLINT: implicit on purpose
  Outcome(const Status& status) noexcept                        // NOLINT: implicit on purpose
      : error_(status ? Error{} : error_of(status.error())), ok_(status.ok()) {}

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] Error error() const noexcept {
    VB_ASSERT(!ok_);
    return error_;
  }

 private:
  Error error_{};
  bool ok_ = true;
};

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

#include "connect/error.h"

/// How the functions of rdma_cm report failure: -1 with errno set.
namespace verbatim::abi {

[[nodiscard]] constexpr int to_errno(connect::Error error) noexcept {
  using connect::Error;
  switch (error) {
    case Error::kInvalidArgument:
      return EINVAL;
    case Error::kNoMemory:
      return ENOMEM;
    case Error::kBusy:
      return EBUSY;
    case Error::kNotSupported:
      return EOPNOTSUPP;
    case Error::kNoSuchObject:
      return ENOENT;
    case Error::kTryAgain:
      return EAGAIN;
    case Error::kAccessDenied:
      return EACCES;
    case Error::kFault:
      return EFAULT;
    case Error::kAlreadyExists:
      return EEXIST;
    case Error::kNoDevice:
      return ENODEV;
    case Error::kTimedOut:
      return ETIMEDOUT;
    case Error::kAddressInUse:
      return EADDRINUSE;
    case Error::kNoData:
      return ENODATA;
    case Error::kInterrupted:
      return EINTR;
    case Error::kClosed:
      return EBADF;
    case Error::kNoDescriptors:
      return EMFILE;
    case Error::kNotPermitted:
      return EPERM;
    case Error::kAddressFamily:
      return EAFNOSUPPORT;
    case Error::kAddressNotAvailable:
      return EADDRNOTAVAIL;
    case Error::kNetworkUnreachable:
      return ENETUNREACH;
    case Error::kHostUnreachable:
      return EHOSTUNREACH;
    case Error::kNetworkReset:
      return ENETRESET;
    case Error::kProtocol:
      return EPROTONOSUPPORT;
  }
  return EINVAL;
}

inline int fail(int error) noexcept {
  errno = error;
  return -1;
}
[[nodiscard]] inline int as_minus_one(const connect::Outcome& outcome) noexcept {
  return outcome ? 0 : fail(to_errno(outcome.error()));
}

}  // namespace verbatim::abi

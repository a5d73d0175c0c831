// SPDX-License-Identifier: Apache-2.0
#include "connect/error.h"

#include <cerrno>

namespace verbatim::connect {

Error error_of(Errc error) noexcept {
  switch (error) {
    case Errc::kInvalidArgument:
      return Error::kInvalidArgument;
    case Errc::kNoMemory:
      return Error::kNoMemory;
    case Errc::kBusy:
      return Error::kBusy;
    case Errc::kNotSupported:
      return Error::kNotSupported;
    case Errc::kNoSuchObject:
      return Error::kNoSuchObject;
    case Errc::kTryAgain:
      return Error::kTryAgain;
    case Errc::kAccessDenied:
      return Error::kAccessDenied;
    case Errc::kFault:
      return Error::kFault;
    case Errc::kAlreadyExists:
      return Error::kAlreadyExists;
    case Errc::kNoDevice:
      return Error::kNoDevice;
    case Errc::kTimedOut:
      return Error::kTimedOut;
    case Errc::kAddressInUse:
      return Error::kAddressInUse;
    case Errc::kNoData:
      return Error::kNoData;
    case Errc::kInterrupted:
      return Error::kInterrupted;
  }
  return Error::kInvalidArgument;
}

Error error_of_system(int number) noexcept {
  switch (number) {
    case EAGAIN:
      return Error::kTryAgain;
    case EINTR:
      return Error::kInterrupted;
    case EBADF:
      return Error::kClosed;
    case EMFILE:
      return Error::kNoDescriptors;
    case ENOMEM:
    case ENOBUFS:
    case ENFILE:
      return Error::kNoMemory;
    case EPERM:
      return Error::kNotPermitted;
    case EACCES:
      return Error::kAccessDenied;
    case EAFNOSUPPORT:
      return Error::kAddressFamily;
    case EADDRINUSE:
      return Error::kAddressInUse;
    case EADDRNOTAVAIL:
      return Error::kAddressNotAvailable;
    case ENETUNREACH:
      return Error::kNetworkUnreachable;
    case EHOSTUNREACH:
      return Error::kHostUnreachable;
    case EBUSY:
      return Error::kBusy;
    case EOPNOTSUPP:
      return Error::kNotSupported;
    case ENOENT:
      return Error::kNoSuchObject;
    case EFAULT:
      return Error::kFault;
    case EEXIST:
      return Error::kAlreadyExists;
    case ENODATA:
      return Error::kNoData;
    case ENODEV:
      return Error::kNoDevice;
    case ETIMEDOUT:
      return Error::kTimedOut;
    default:
      return Error::kInvalidArgument;
  }
}

}  // namespace verbatim::connect

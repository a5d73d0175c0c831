// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/expected.h"

/// How each family of exported functions reports failure, as its man page says.
#define VB_EXPORT __attribute__((visibility("default")))

namespace verbatim::abi {

[[nodiscard]] constexpr int to_errno(Errc error) noexcept {
  switch (error) {
    case Errc::kInvalidArgument:
      return EINVAL;
    case Errc::kNoMemory:
      return ENOMEM;
    case Errc::kBusy:
      return EBUSY;
    case Errc::kNotSupported:
      return EOPNOTSUPP;
    case Errc::kNoSuchObject:
      return ENOENT;
    case Errc::kTryAgain:
      return EAGAIN;
    case Errc::kAccessDenied:
      return EACCES;
    case Errc::kFault:
      return EFAULT;
    case Errc::kAlreadyExists:
      return EEXIST;
    case Errc::kNoDevice:
      return ENODEV;
    case Errc::kTimedOut:
      return ETIMEDOUT;
    case Errc::kAddressInUse:
      return EADDRINUSE;
    case Errc::kNoData:
      return ENODATA;
    case Errc::kInterrupted:
      return EINTR;
  }
  return EINVAL;
}

/// The value that a program has put into an enum of the verbs, which need not be one of its
/// enumerators. Values above 255 become 255.
template <typename Enum>
[[nodiscard]] std::uint8_t octet_of(const Enum& given) noexcept {
  std::uint32_t raw;
  static_assert(sizeof given == sizeof raw);
  std::memcpy(&raw, &given, sizeof raw);
  return raw > 0xff ? std::uint8_t{0xff} : static_cast<std::uint8_t>(raw);
}

/// `ibv_modify_qp`, `ibv_dereg_mr`: 0, or the value of errno. On failure errno has that value too,
/// because programs look at either. On success errno does not change.
[[nodiscard]] inline int as_errno_value(int value) noexcept {
  if (value != 0) errno = value;
  return value;
}
[[nodiscard]] inline int as_errno_value(Errc error) noexcept {
  return as_errno_value(to_errno(error));
}
[[nodiscard]] inline int as_errno_value(const Status& status) noexcept {
  return status ? 0 : as_errno_value(status.error());
}

/// `ibv_get_cq_event`: 0, or -1 with errno set.
[[nodiscard]] inline int as_minus_one(const Status& status) noexcept {
  if (status) return 0;
  errno = to_errno(status.error());
  return -1;
}

/// `ibv_create_*`: NULL with errno set.
template <typename T>
[[nodiscard]] T* as_null(Errc error) noexcept {
  errno = to_errno(error);
  return nullptr;
}

}  // namespace verbatim::abi

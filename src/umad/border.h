// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/umad.h>

#include <cerrno>

#include "base/expected.h"

/// Functions of libibumad report failure as a negative errno value, except where a comment says
/// otherwise. Those that wait can be cancelled while they wait, so they are not noexcept.
#define VB_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbatim::umad {

[[nodiscard]] constexpr int to_errno(Errc error) noexcept {
  switch (error) {
    case Errc::kInvalidArgument:
      return EINVAL;
    case Errc::kNoMemory:
      return ENOMEM;
    case Errc::kNoDevice:
    case Errc::kNoSuchObject:
      return ENODEV;
    default:
      return EIO;
  }
}

}  // namespace verbatim::umad

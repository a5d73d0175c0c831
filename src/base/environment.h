// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

namespace verbatim {

/// The value of an environment variable; null when it is not set, and always null in a program that
/// has more rights than the user that started it (set-user-ID, set-group-ID, file capabilities):
/// there the environment is that user's, and the rights are not. The libraries read the environment
/// through this only.
[[nodiscard]] inline const char* environment_variable(const char* name) noexcept {
  return ::secure_getenv(name);
}

}  // namespace verbatim

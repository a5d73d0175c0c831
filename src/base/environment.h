// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

namespace verbatim {

/// The value of an environment variable; null when it is not set. Always null in a program that has
/// more rights than the user that started it (set-user-ID, set-group-ID, file capabilities): there,
/// that user chose the environment, and must not direct what the rights are used for. The libraries
/// read the environment only through this function.
[[nodiscard]] inline const char* environment_variable(const char* name) noexcept {
  return ::secure_getenv(name);
}

}  // namespace verbatim

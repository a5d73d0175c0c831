// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace verbatim {

void stop_on_broken_invariant(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr,
               "verbatim: internal error: '%s' does not hold at %s:%d. This is a bug in Verbatim, "
               "not in your program; please report it with this line.\n",
               expression, file, line);
  std::abort();
}

}  // namespace verbatim

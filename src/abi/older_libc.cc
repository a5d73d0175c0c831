// SPDX-License-Identifier: Apache-2.0
// The static libstdc++ of Debian 12 contains std::random_device, which the libraries do not use but
// which comes along with std::string, and which needs arc4random(3) of glibc 2.36. With a function
// of that name in the library, which it does not export, glibc 2.35 is enough:
// tests/abi/libc_test.py.
#include <sys/random.h>

extern "C" [[gnu::visibility("hidden")]] unsigned int arc4random() noexcept;

unsigned int arc4random() noexcept {
  unsigned int value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

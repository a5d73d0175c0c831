// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "rehome/system_call.h"

namespace verbatim::rehome {

/// Blocks all signals of this thread until the end of the scope.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept { (void)change(&kAll, &before_); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { (void)change(&before_, nullptr); }

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  static long change(const std::uint64_t* to, std::uint64_t* before) noexcept {
    constexpr int kSetMask = 2;  // SIG_SETMASK of the kernel on x86-64 and Arm
    return kernel::call(SYS_rt_sigprocmask, kSetMask, to, before, sizeof *to);
  }
  std::uint64_t before_ = 0;
};

}  // namespace verbatim::rehome

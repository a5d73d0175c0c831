// SPDX-License-Identifier: Apache-2.0
#include "rehome/vfork_runner.h"

#include <sched.h>
#include <sys/wait.h>

#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

/// With a sanitizer, functions have larger frames.
constexpr std::size_t kStackOctets = std::size_t{256} << 10;

struct Errand {
  void (*function)(void* context) = nullptr;
  void* context = nullptr;
};

int run_errand(void* errand) {
  const auto& todo = *static_cast<const Errand*>(errand);
  todo.function(todo.context);
  return 0;
}

}  // namespace

Moved VforkRunner::open() noexcept {
  if (!stack_.empty()) return Ok{};
  const long at = kernel::map(0, kStackOctets, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (kernel::failed(at)) return Why::kNoMemory;
  stack_ = {.begin = static_cast<std::uintptr_t>(at),
            .end = static_cast<std::uintptr_t>(at) + kStackOctets};
  (void)kernel::advise(stack_.begin, stack_.octets(), MADV_DONTFORK);
  return Ok{};
}

void VforkRunner::close() noexcept {
  if (!stack_.empty()) kernel::unmap(stack_.begin, stack_.octets());
  stack_ = {};
}

bool VforkRunner::run(void (*function)(void* context), void* context) const noexcept {
  Errand errand{.function = function, .context = context};
  // No signal tells of its end, so that a program which waits for its children does not see it.
  const int task = ::clone(&run_errand, std::bit_cast<void*>(stack_.end),
                           CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS, &errand);
  if (task < 0) return false;
  while (kernel::call(SYS_wait4, task, 0, __WALL, 0) == -EINTR) {
  }
  return true;
}

}  // namespace verbatim::rehome

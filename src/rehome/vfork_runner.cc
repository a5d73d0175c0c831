// SPDX-License-Identifier: Apache-2.0
#include "rehome/vfork_runner.h"

#include <sched.h>

#include "base/pointer.h"
#include "rehome/system_call.h"
#include "rehome/tasks.h"

namespace verbatim::rehome {

namespace {

/// Large enough for functions with a sanitizer, which have larger frames.
constexpr std::size_t kStackOctets = std::size_t{256} << 10;

struct Call {
  void (*function)(void* context) = nullptr;
  void* context = nullptr;
};

int run_call(void* call) {
  const auto& todo = *static_cast<const Call*>(call);
  todo.function(todo.context);
  (void)kernel::call(SYS_exit, 0);  // returning would end the process
  return 0;
}

/// The caller continues a moment before the other thread has ended. The next count of the process's
/// threads must not include it.
void wait_until_gone(std::size_t threads_before) noexcept {
  constexpr int kLooksMax = 10'000;
  for (int looks = 0; looks < kLooksMax && count_tasks() > threads_before; ++looks) {
    (void)kernel::call(SYS_sched_yield);
  }
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
  Call call{.function = function, .context = context};
  // A thread, not a process: at the end of a process the kernel walks all its mappings.
  constexpr int kFlags = CLONE_VM | CLONE_VFORK | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES |
                         CLONE_FS | CLONE_SYSVSEM;
  const std::size_t threads_before = count_tasks();
  if (::clone(&run_call, pointer_as<void>(stack_.end), kFlags, &call) < 0) return false;
  wait_until_gone(threads_before);
  return true;
}

}  // namespace verbatim::rehome

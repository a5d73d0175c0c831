// SPDX-License-Identifier: Apache-2.0
// Linked into every test that the address sanitizer checks.
//
// The C library holds the locks of malloc(3) while a process forks, so the child of a process with
// several threads can use it. The runtime of the address sanitizer has an allocator, a list of
// threads and a store of call stacks of its own. With g++ 12 and clang 14 nothing holds the locks
// of these: a child waits for ever in its first operator new when another thread of the parent was
// in one at the fork. Here a fork takes them, as the runtimes of later compilers do by themselves.
#include <pthread.h>

// Functions of the runtime, which is part of the executable. Later runtimes have no
// LockThreadRegistry().
namespace __lsan {
[[gnu::weak]] void LockThreadRegistry();
[[gnu::weak]] void UnlockThreadRegistry();
[[gnu::weak]] void LockAllocator();
[[gnu::weak]] void UnlockAllocator();
}  // namespace __lsan
namespace __sanitizer {
[[gnu::weak]] void StackDepotLockAll();
[[gnu::weak]] void StackDepotUnlockAll();
}  // namespace __sanitizer

namespace {

void lock() {
  __lsan::LockThreadRegistry();
  __lsan::LockAllocator();
  __sanitizer::StackDepotLockAll();
}

void unlock() {
  __sanitizer::StackDepotUnlockAll();
  __lsan::UnlockAllocator();
  __lsan::UnlockThreadRegistry();
}

void install() {
  if (__lsan::LockThreadRegistry != nullptr) ::pthread_atfork(lock, unlock, unlock);
}

// Handlers of libraries allocate memory. The last to prepare a fork, and the first in the child, is
// the one that was installed first: before the libraries are initialized.
[[gnu::used, gnu::section(".preinit_array")]] void (*g_install)() = install;

}  // namespace

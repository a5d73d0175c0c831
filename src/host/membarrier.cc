// SPDX-License-Identifier: Apache-2.0
#include "host/membarrier.h"
#include "base/process_wide.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim::host {
namespace {

bool call(int command) noexcept {
  const int before = errno;
  const bool done = ::syscall(SYS_membarrier, command, 0, 0) >= 0;
  errno = before;
  return done;
}

bool register_for(int command, int registration) noexcept {
  // The thread sanitizer cannot see these fences, so they do not count in its builds.
  if (kBestFencing == Fencing::kFenced) return false;
  return call(registration) && call(command);
}

bool is_registered_for_global() noexcept {
  return process_wide([] {
    return new bool(
        register_for(MEMBARRIER_CMD_GLOBAL_EXPEDITED, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED));
  });
}

bool is_registered_for_own() noexcept {
  return process_wide([] {
    return new bool(
        register_for(MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
  });
}

/// Replaces the call in a program that has forbidden itself the call by a filter (seccomp(2)) after
/// the call was found to work. No processor delays a store, or uses an early load, for as long as a
/// millisecond. So the rare side waits as long.
void wait_out() noexcept {
  const int before = errno;
  const timespec while_anything_is_on_its_way{.tv_sec = 0, .tv_nsec = 1'000'000};
  (void)::clock_nanosleep(CLOCK_MONOTONIC, 0, &while_anything_is_on_its_way, nullptr);
  errno = before;
  full_fence();
}

}  // namespace

void Membarrier::enlist() noexcept {
  (void)global();
  (void)own();
}

Fencing Membarrier::global() noexcept {
  return is_registered_for_global() ? Fencing::kExpedited : Fencing::kFenced;
}

Fencing Membarrier::own() noexcept {
  return is_registered_for_own() ? Fencing::kExpedited : Fencing::kFenced;
}

void Membarrier::all_processes() noexcept {
  if (!is_registered_for_global()) return full_fence();
  if (!call(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) wait_out();
}

void Membarrier::own_threads() noexcept {
  if (!is_registered_for_own() || !call(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) wait_out();
}

}  // namespace verbatim::host

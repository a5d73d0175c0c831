// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/// System calls at which a thread cannot be cancelled. The libc functions of the same names are
/// cancellation points. The direct path makes these calls with locks held, inside guarded(), where
/// an Uncancelled does not work: a fault jumps over its destructor. Besides, it would cost each
/// posting 15 ns.
namespace verbatim::host::uncancellable {

inline ssize_t preadv(int file, const iovec* pieces, int count, off_t at) noexcept {
  return ::syscall(SYS_preadv, file, pieces, count, at, 0L);
}

inline ssize_t pwritev(int file, const iovec* pieces, int count, off_t at) noexcept {
  return ::syscall(SYS_pwritev, file, pieces, count, at, 0L);
}

inline ssize_t recv(int socket, void* into, std::size_t octets, int flags) noexcept {
  return ::syscall(SYS_recvfrom, socket, into, octets, flags, nullptr, nullptr);
}

inline void nanosleep(const timespec& nap) noexcept {
  (void)::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, nullptr);
}

}  // namespace verbatim::host::uncancellable

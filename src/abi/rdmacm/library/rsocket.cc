// SPDX-License-Identifier: Apache-2.0
// rsocket(7): exported so that programs that use these functions load. Each of them fails.
#include <rdma/rsocket.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "abi/border.h"

namespace {

/// Returns -1 with ENOSYS. Prints the reason once per process.
int refuse() noexcept {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    std::fprintf(stderr, "verbatim: rsocket functions are not supported; use rdma_cm or TCP\n");
  }
  errno = ENOSYS;
  return -1;
}

}  // namespace

extern "C" {

VB_EXPORT int rsocket(int, int, int) { return refuse(); }
VB_EXPORT int rbind(int, const sockaddr*, socklen_t) { return refuse(); }
VB_EXPORT int rlisten(int, int) { return refuse(); }
VB_EXPORT int raccept(int, sockaddr*, socklen_t*) { return refuse(); }
VB_EXPORT int rconnect(int, const sockaddr*, socklen_t) { return refuse(); }
VB_EXPORT int rshutdown(int, int) { return refuse(); }
VB_EXPORT int rclose(int) { return refuse(); }
VB_EXPORT ssize_t rrecv(int, void*, size_t, int) { return refuse(); }
VB_EXPORT ssize_t rrecvfrom(int, void*, size_t, int, sockaddr*, socklen_t*) { return refuse(); }
VB_EXPORT ssize_t rrecvmsg(int, msghdr*, int) { return refuse(); }
VB_EXPORT ssize_t rsend(int, const void*, size_t, int) { return refuse(); }
VB_EXPORT ssize_t rsendto(int, const void*, size_t, int, const sockaddr*, socklen_t) {
  return refuse();
}
VB_EXPORT ssize_t rsendmsg(int, const msghdr*, int) { return refuse(); }
VB_EXPORT ssize_t rread(int, void*, size_t) { return refuse(); }
VB_EXPORT ssize_t rreadv(int, const iovec*, int) { return refuse(); }
VB_EXPORT ssize_t rwrite(int, const void*, size_t) { return refuse(); }
VB_EXPORT ssize_t rwritev(int, const iovec*, int) { return refuse(); }
VB_EXPORT int rpoll(pollfd*, nfds_t, int) { return refuse(); }
VB_EXPORT int rselect(int, fd_set*, fd_set*, fd_set*, timeval*) { return refuse(); }
VB_EXPORT int rgetpeername(int, sockaddr*, socklen_t*) { return refuse(); }
VB_EXPORT int rgetsockname(int, sockaddr*, socklen_t*) { return refuse(); }
VB_EXPORT int rsetsockopt(int, int, int, const void*, socklen_t) { return refuse(); }
VB_EXPORT int rgetsockopt(int, int, int, void*, socklen_t*) { return refuse(); }
VB_EXPORT int rfcntl(int, int, ...) { return refuse(); }
VB_EXPORT off_t riomap(int, void*, size_t, int, int, off_t) { return refuse(); }
VB_EXPORT int riounmap(int, void*, size_t) { return refuse(); }
/// Returns how much was written.
VB_EXPORT size_t riowrite(int, const void*, size_t, off_t, int) {
  (void)refuse();
  return 0;
}

}  // extern "C"

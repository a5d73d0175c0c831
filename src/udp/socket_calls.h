// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

/// The calls that a polling program makes all the time, without the C library. There they are
/// cancellation points, which costs time, and a thread must not be cancelled while it holds a lock.
/// Neither call waits. A single message goes by the plain call, which costs less.
namespace verbatim::link {

inline int system_recvmmsg(int socket, mmsghdr* messages, std::size_t count) noexcept {
  if (count == 1) {
    const long octets = ::syscall(SYS_recvmsg, socket, &messages->msg_hdr, MSG_DONTWAIT);
    if (octets < 0) return -1;
    messages->msg_len = static_cast<unsigned>(octets);
    return 1;
  }
  return static_cast<int>(::syscall(SYS_recvmmsg, socket, messages, static_cast<unsigned>(count),
                                    MSG_DONTWAIT, nullptr));
}

inline int system_sendmmsg(int socket, mmsghdr* messages, std::size_t count) noexcept {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (count == 1) return ::syscall(SYS_sendmsg, socket, &messages->msg_hdr, kFlags) < 0 ? -1 : 1;
  return static_cast<int>(
      ::syscall(SYS_sendmmsg, socket, messages, static_cast<unsigned>(count), kFlags));
}

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "question.h"

namespace verbatim::bench {

/// One of the two processes of a peer: the client is the process that was started, the server its
/// child. They exchange addresses over a socket, which is no part of what is measured. Make it
/// before any library starts threads, because fork does not copy them.
class End {
 public:
  End() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) stop("socketpair failed");
    child_ = ::fork();
    if (child_ < 0) stop("fork failed");
    if (is_server()) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    socket_ = ends[is_server() ? 1 : 0];
    ::close(ends[is_server() ? 0 : 1]);
    pin_to(is_server() ? kServerCore : kClientCore);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() { ::close(socket_); }

  [[nodiscard]] bool is_server() const { return child_ == 0; }

  /// Sends octets to the other end, and returns the octets that the other end sends.
  std::vector<std::byte> exchange(std::span<const std::byte> mine) {
    const std::uint64_t octets = mine.size();
    write_all(&octets, sizeof octets);
    write_all(mine.data(), mine.size());
    std::uint64_t theirs = 0;
    read_all(&theirs, sizeof theirs);
    std::vector<std::byte> other(theirs);
    read_all(other.data(), other.size());
    return other;
  }

  template <typename T>
  T exchange_value(const T& mine) {
    const auto octets = exchange(std::as_bytes(std::span(&mine, 1)));
    if (octets.size() != sizeof(T)) stop("the other end has sent a value of another length");
    T other;
    std::memcpy(&other, octets.data(), sizeof other);
    return other;
  }

  /// Returns when both ends have called it.
  void meet() { exchange_value('.'); }

  /// The exit status of the program: its child's, when this end has done its part.
  int finish() {
    meet();
    if (is_server()) return 0;
    int status = 0;
    if (::waitpid(child_, &status, 0) != child_) stop("waitpid failed");
    return status == 0 ? 0 : 1;
  }

 private:
  void write_all(const void* from, std::size_t octets) {
    const auto* next = static_cast<const std::byte*>(from);
    while (octets > 0) {
      const ssize_t done = ::send(socket_, next, octets, MSG_NOSIGNAL);
      if (done <= 0) stop("the other end has ended");
      next += done;
      octets -= static_cast<std::size_t>(done);
    }
  }

  void read_all(void* to, std::size_t octets) {
    auto* next = static_cast<std::byte*>(to);
    while (octets > 0) {
      const ssize_t done = ::recv(socket_, next, octets, 0);
      if (done <= 0) stop("the other end has ended");
      next += done;
      octets -= static_cast<std::size_t>(done);
    }
  }

  pid_t child_ = -1;  // 0 in the child
  int socket_ = -1;
};

}  // namespace verbatim::bench

// SPDX-License-Identifier: Apache-2.0
#include "host/unix_listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim::host {
namespace {

int accept_from(int listener) noexcept {
  int accepted = -1;
  do {
    accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  } while (accepted < 0 && (errno == EINTR || errno == ECONNABORTED));
  return accepted;
}

/// Keeps the number that open(2) has given: the process may use that number again when the spare is
/// closed.
OwnDescriptor open_spare() noexcept {
  return OwnDescriptor::in_place(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Status UnixListener::open(const UnixName& name, int backlog, int epoll) noexcept {
  epoll_ = epoll;
  process_ = ::getpid();
  socket_ = OwnDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.is_open()) return Errc::kNoMemory;
  spare_ = open_spare();
  if (name.bind(socket_.number()) != 0 || ::listen(socket_.number(), backlog) != 0) {
    const Errc reason = errno == EACCES ? Errc::kAccessDenied : Errc::kAddressInUse;
    process_ = 0;  // another process has the name
    close();
    return reason;
  }
  watch(true);
  return Ok{};
}

void UnixListener::close() noexcept {
  if (process_ == ::getpid() && socket_.is_still_own()) UnixName::remove(socket_.number());
  socket_.close();
  spare_.close();
  is_watched_ = false;
}

void UnixListener::watch(bool wanted) noexcept {
  if (wanted == is_watched_) return;
  epoll_event readable{.events = EPOLLIN, .data = {.fd = socket_.number()}};
  (void)::epoll_ctl(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, socket_.number(), &readable);
  is_watched_ = wanted;
}

int UnixListener::accept() noexcept {
  int accepted = accept_from(socket_.number());
  // The kernel takes a descriptor first, and looks for a connection then.
  while (accepted < 0 && errno != EAGAIN && refuse_one()) accepted = accept_from(socket_.number());
  watch(accepted >= 0 || errno == EAGAIN);
  return accepted;
}

/// False, with errno, when it refused none: EAGAIN (no connection), or still no descriptor.
bool UnixListener::refuse_one() noexcept {
  spare_.close();
  const int refused = accept_from(socket_.number());
  const int reason = errno;
  if (refused >= 0) ::close(refused);
  spare_ = open_spare();
  errno = reason;
  return refused >= 0;
}

}  // namespace verbatim::host

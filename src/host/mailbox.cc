// SPDX-License-Identifier: Apache-2.0
#include "host/mailbox.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim::host {

namespace {

/// Messages that one call discards before it returns that there is none.
constexpr int kUselessMax = 16;

Errc reason_of(int error) noexcept {
  switch (error) {
    case EADDRINUSE:
      return Errc::kAddressInUse;
    case EACCES:
    case EPERM:
      return Errc::kAccessDenied;
    case EAFNOSUPPORT:
      return Errc::kNotSupported;
    default:
      return Errc::kNoMemory;
  }
}

}  // namespace

Mailbox::~Mailbox() {
  const bool is_here = process_ == ::getpid();  // in a forked child the name is the parent's
  if (is_here && descriptor_.is_still_own()) UnixName::remove(descriptor_.number());
}

Expected<Mailbox> Mailbox::open(const UnixName& name, int named_socket) noexcept {
  Mailbox mailbox;
  mailbox.descriptor_ =
      OwnDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!mailbox.descriptor_.is_open()) return reason_of(errno);
  const int own = mailbox.descriptor_.number();
  if (name.bind_beside(named_socket >= 0 ? named_socket : own, own) != 0) return reason_of(errno);
  mailbox.process_ = ::getpid();
  return mailbox;
}

std::size_t Mailbox::take(std::span<std::byte> into) const noexcept {
  if (into.empty()) return 0;
  for (int tries = 0; tries < kUselessMax; ++tries) {
    const ssize_t received =
        ::recv(descriptor_.number(), into.data(), into.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (received < 0 && errno != EINTR) return 0;
    if (received > 0 && static_cast<std::size_t>(received) <= into.size()) {
      return static_cast<std::size_t>(received);
    }
  }
  return 0;
}

Status Mailbox::send(int through, const UnixName& to, std::span<const std::byte> octets) noexcept {
  if (octets.empty()) return Errc::kTryAgain;
  const ssize_t sent = to.send(through, octets);
  if (sent == static_cast<ssize_t>(octets.size())) return Ok{};
  return sent < 0 && errno == ECONNREFUSED ? Errc::kNoSuchObject : Errc::kTryAgain;
}

}  // namespace verbatim::host

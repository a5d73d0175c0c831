// SPDX-License-Identifier: Apache-2.0
#include "host/mailbox.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verbatim::host {

namespace {

/// Messages of strangers that one call throws away before it says that there is nothing.
constexpr int kStrangersMax = 16;

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

/// The kernel vouches for the sender's user; a message without that is a stranger's.
bool came_from_our_user(msghdr& message) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.uid == ::geteuid();
  }
  return false;
}

}  // namespace

Mailbox::~Mailbox() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Expected<Mailbox> Mailbox::open(const UnixName& name) noexcept {
  Mailbox mailbox;
  mailbox.descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (mailbox.descriptor_ < 0) return reason_of(errno);
  const int on = 1;  // before the name is there for others to send to
  if (::setsockopt(mailbox.descriptor_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return reason_of(errno);
  }
  if (name.bind(mailbox.descriptor_) != 0) return reason_of(errno);
  return mailbox;
}

std::size_t Mailbox::take(std::span<std::byte> into) const noexcept {
  if (into.empty()) return 0;
  for (int tries = 0; tries < kStrangersMax; ++tries) {
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(ucred))];
    iovec part{.iov_base = into.data(), .iov_len = into.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t received = ::recvmsg(descriptor_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0 && errno != EINTR) return 0;
    const bool whole = (message.msg_flags & MSG_TRUNC) == 0;
    if (received > 0 && whole && came_from_our_user(message)) {
      return static_cast<std::size_t>(received);
    }
  }
  return 0;
}

bool Mailbox::send(int through, const UnixName& to, std::span<const std::byte> octets) noexcept {
  if (octets.empty()) return false;
  ssize_t sent = -1;
  do {
    sent = ::sendto(through, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL, &to.base,
                    to.octets);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(octets.size());
}

}  // namespace verbatim::host

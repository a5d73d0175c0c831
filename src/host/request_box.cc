// SPDX-License-Identifier: Apache-2.0
#include "host/request_box.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "host/lending_desk.h"
#include "host/public_name.h"
#include "host/users.h"

namespace verbatim::host {

namespace {

constexpr int kUselessMax = 16;  // messages of other users that one call discards

PublicName name_of(const Service& service) {
  char id[17];
  std::snprintf(id, sizeof id, "%llx", static_cast<unsigned long long>(service.id));
  return PublicName(std::string(LendingDesk::kPrefix) + "cm/" + digits_of(service.address) + "/" +
                    id);
}

/// The user that sent the message, from the kernel.
bool came_from(msghdr& message, uid_t user) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.uid == user;
  }
  return false;
}

}  // namespace

Expected<RequestBox> RequestBox::open(const Service& service, uid_t owner) {
  if (!can_tell_users_apart()) return Errc::kNotSupported;
  RequestBox box;
  box.owner_ = owner;
  box.descriptor_ = OwnDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;  // set before the name exists and others can send to it
  if (!box.descriptor_.is_open() ||
      ::setsockopt(box.descriptor_.number(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return Errc::kNoMemory;
  }
  if (name_of(service).bind(box.descriptor_.number()) != 0) {
    return errno == EADDRINUSE ? Errc::kAddressInUse : Errc::kNoMemory;
  }
  return box;
}

std::size_t RequestBox::take(std::span<std::byte> into) const noexcept {
  if (!descriptor_.is_open() || into.empty()) return 0;
  for (int tries = 0; tries < kUselessMax; ++tries) {
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(ucred))];
    iovec part{.iov_base = into.data(), .iov_len = into.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t received =
        ::recvmsg(descriptor_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0 && errno != EINTR) return 0;
    const bool is_whole = (message.msg_flags & MSG_TRUNC) == 0;
    if (received > 0 && is_whole && came_from(message, owner_)) {
      return static_cast<std::size_t>(received);
    }
  }
  return 0;
}

bool RequestBox::hand_over(int through, const Service& to,
                           std::span<const std::byte> octets) noexcept {
  return name_of(to).send(through, octets) == static_cast<ssize_t>(octets.size());
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/service_name.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace verbatim::host {

namespace {

/// Messages of strangers that one call throws away before it says that there is nothing.
constexpr int kStrangersMax = 16;

union SocketAddress {
  sockaddr base;
  sockaddr_un un;
};

struct Name {
  SocketAddress address{};
  socklen_t octets = 0;
};

/// The abstract name: a zero in front, none behind.
Name abstract(const std::string& text) noexcept {
  Name name;
  name.address.un = {};
  name.address.un.sun_family = AF_UNIX;
  const std::size_t length = std::min(text.size(), sizeof name.address.un.sun_path - 1);
  std::memcpy(name.address.un.sun_path + 1, text.data(), length);
  name.octets = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return name;
}

/// What the names of a service of this user have in common behind `kind`.
std::string text_of(const char* kind, const Service& service) {
  char id[17];
  std::snprintf(id, sizeof id, "%llx", static_cast<unsigned long long>(service.id));
  return "verbatim/" + std::to_string(::geteuid()) + "/" + kind + "/" + digits_of(service.address) +
         "/" + id;
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

std::string digits_of(const std::array<std::uint8_t, 16>& address) {
  std::string digits;
  for (const std::uint8_t octet : address) {
    constexpr char kDigits[] = "0123456789abcdef";
    digits += kDigits[octet >> 4];
    digits += kDigits[octet & 0xf];
  }
  return digits;
}

ServiceName::ServiceName(ServiceName&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

ServiceName& ServiceName::operator=(ServiceName&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

ServiceName::~ServiceName() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Expected<ServiceName> ServiceName::claim(const Service& service) noexcept {
  return take(text_of("cm", service));
}

Expected<ServiceName> ServiceName::advertise(const Service& service, std::uint32_t slot) noexcept {
  return take(text_of("at", service) + "/" + std::to_string(slot));
}

Expected<ServiceName> ServiceName::take(const std::string& text) noexcept {
  ServiceName held;
  held.descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (held.descriptor_ < 0) return Errc::kNoMemory;
  const int on = 1;  // before the name is there for others to send to
  if (::setsockopt(held.descriptor_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return Errc::kNoMemory;
  }
  const Name name = abstract(text);
  if (::bind(held.descriptor_, &name.address.base, name.octets) != 0) {
    return errno == EADDRINUSE ? Errc::kAddressInUse : Errc::kNoMemory;
  }
  return held;
}

bool ServiceName::forward(int through, const Service& to,
                          std::span<const std::byte> octets) noexcept {
  if (octets.empty()) return false;
  const Name name = abstract(text_of("cm", to));
  ssize_t sent = -1;
  do {
    sent = ::sendto(through, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                    &name.address.base, name.octets);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(octets.size());
}

std::size_t ServiceName::take_forwarded(std::span<std::byte> into) const noexcept {
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

}  // namespace verbatim::host

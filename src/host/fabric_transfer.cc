// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_transfer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/uncancelled.h"
#include "host/sealed_file.h"

namespace verbatim::host {
namespace {

/// Room for descriptors beside a message.
struct alignas(cmsghdr) ControlRoom {
  std::array<std::byte, CMSG_SPACE(kDescriptorsMax * sizeof(int))> octets{};
};

void attach(msghdr& message, ControlRoom& room, std::span<const int> descriptors) noexcept {
  const auto added = std::as_bytes(descriptors);
  message.msg_control = room.octets.data();
  message.msg_controllen = CMSG_SPACE(added.size());
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(added.size());
  std::memcpy(CMSG_DATA(head), added.data(), added.size());
}

void take_descriptors(msghdr& message, ArrivedMessage& arrived) noexcept {
  arrived.lacks_descriptors = (message.msg_flags & MSG_CTRUNC) != 0;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return;
  std::array<int, kDescriptorsMax> numbers{};
  const std::size_t octets = std::min(head->cmsg_len - CMSG_LEN(0), sizeof numbers);
  std::memcpy(numbers.data(), CMSG_DATA(head), octets);
  for (std::size_t at = 0; at < octets / sizeof(int); ++at) {
    (at == 0 ? arrived.descriptor : arrived.other_descriptors[at - 1]) = Descriptor(numbers[at]);
  }
}

Transfer outcome_of(int error) noexcept {
  switch (error) {
    case EAGAIN:
      return Transfer::kFull;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case EBADF:
      return Transfer::kGone;
    default:
      return Transfer::kRefused;
  }
}

/// A sealed memory file with these octets; not open when there is no memory.
Descriptor memory_file_of(std::span<const std::byte> octets) noexcept {
  Descriptor file(::memfd_create("verbatim-mad", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  while (file.is_open() && !octets.empty()) {
    const ssize_t written = ::write(file.number(), octets.data(), octets.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Descriptor();
    octets = octets.subspan(static_cast<std::size_t>(written));
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (file.is_open() && ::fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) return Descriptor();
  return file;
}

Transfer send_all(int socket, std::span<const std::byte> head, std::span<const std::byte> rest,
                  std::span<const int> descriptors) noexcept {
  const Uncancelled uncancelled;
  std::array<iovec, 2> parts{
      iovec{.iov_base = const_cast<std::byte*>(head.data()), .iov_len = head.size()},
      iovec{.iov_base = const_cast<std::byte*>(rest.data()), .iov_len = rest.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = rest.empty() ? 1 : 2;
  ControlRoom room;
  if (!descriptors.empty()) attach(message, room, descriptors);
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 ? Transfer::kDone : outcome_of(errno);
}

}  // namespace

Transfer send_parts(int socket, std::span<const std::byte> head, std::span<const std::byte> rest,
                    int descriptor) noexcept {
  const std::span<const int> one(&descriptor, 1);
  return send_all(socket, head, rest, descriptor >= 0 ? one : std::span<const int>());
}

Transfer send_descriptors(int socket, std::span<const std::byte> message,
                          std::span<const int> descriptors) noexcept {
  return send_all(socket, message, {},
                  descriptors.first(std::min(descriptors.size(), kDescriptorsMax)));
}

Transfer send_user_mad(int socket, UserMadHeader header,
                       std::span<const std::byte> message) noexcept {
  const Uncancelled uncancelled;
  const std::size_t octets = sizeof header + message.size();
  if (octets > kUserMadOctetsMax) return Transfer::kRefused;
  header.octets = static_cast<std::uint32_t>(octets);
  if (!is_in_memory_file(octets)) return send_parts(socket, octets_of(header), message, -1);
  const Descriptor file = memory_file_of(message);
  if (!file.is_open()) return Transfer::kRefused;
  return send_parts(socket, octets_of(header), message.first(kMadOctets), file.number());
}

std::optional<ArrivedMessage> receive_message(int socket, std::span<std::byte> room,
                                              bool& is_gone) noexcept {
  const Uncancelled uncancelled;
  iovec part{.iov_base = room.data(), .iov_len = room.size()};
  ControlRoom control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.octets.data();
  message.msg_controllen = control.octets.size();
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    // ECONNRESET, once: the other side has closed without reading all. What it has sent is there.
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  is_gone = got == 0 || (got < 0 && errno != EAGAIN);
  if (got <= 0) return std::nullopt;
  ArrivedMessage arrived;
  arrived.octets = static_cast<std::size_t>(got);
  take_descriptors(message, arrived);
  return arrived;
}

bool read_memory_file(int file, std::span<std::byte> to) noexcept {
  const Uncancelled uncancelled;
  if (octets_of_sealed(file) != to.size()) return false;
  off_t at = 0;
  while (!to.empty()) {
    const ssize_t got = ::pread(file, to.data(), to.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(got));
    at += got;
  }
  return true;
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/door.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "host/slot.h"
#include "host/unix_name.h"

namespace verbatim::host {

namespace {
constexpr std::size_t kGuestLimit = 2 * kSlotCount;
}  // namespace

Status Door::open(std::uint32_t slot, int epoll, const Offer& offer) noexcept {
  slot_ = slot;
  epoll_ = epoll;
  offer_ = offer;
  listener_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0) return Errc::kNoMemory;
  if (UnixName::of_door(slot).bind(listener_) != 0 || ::listen(listener_, kSlotCount) != 0) {
    close();
    return Errc::kAddressInUse;
  }
  watch(listener_);
  return Ok{};
}

void Door::close() noexcept {
  for (const Guest& guest : guests_) ::close(guest.descriptor);
  guests_.clear();
  if (listener_ >= 0) ::close(listener_);
  listener_ = -1;
}

void Door::watch(int descriptor) const noexcept {
  epoll_event readable{.events = EPOLLIN, .data = {.fd = descriptor}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &readable);
}

bool Door::is_ours(int descriptor) const noexcept {
  return descriptor == listener_ ||
         std::any_of(guests_.begin(), guests_.end(),
                     [&](const Guest& guest) { return guest.descriptor == descriptor; });
}

std::vector<std::uint32_t> Door::serve() {
  std::vector<std::uint32_t> gone;
  if (listener_ < 0) return gone;
  accept_all();
  std::erase_if(guests_, [&](Guest& guest) {
    if (listen_to(guest)) return false;
    if (guest.is_known) gone.push_back(guest.slot);
    ::close(guest.descriptor);
    return true;
  });
  return gone;
}

void Door::accept_all() {
  for (;;) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) return;
    if (peer_of(descriptor).uid != ::geteuid() || guests_.size() >= kGuestLimit) {
      ::close(descriptor);
      continue;
    }
    guests_.push_back({.descriptor = descriptor});
    watch(descriptor);
  }
}

bool Door::listen_to(Guest& guest) {
  saying_.resize(kSayingOctetsMax);
  for (;;) {
    const ssize_t got =
        ::recv(guest.descriptor, saying_.data(), saying_.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    const auto octets = static_cast<std::size_t>(got);
    if (octets == 0 || octets > saying_.size()) return false;
    if (guest.is_known) {
      if (hearer_) hearer_(std::span(saying_).first(octets), guest.descriptor);
      continue;
    }
    AttachMessage message;
    std::memcpy(&message, saying_.data(), std::min(octets, sizeof message));
    const bool makes_sense = octets == sizeof message && message.magic == AttachMessage::kMagic &&
                             message.slot < kSlotCount;
    if (!makes_sense) return false;
    guest.slot = message.slot;
    guest.is_known = true;
    if (!answer(guest, message.version == SegmentHeader::kVersion)) return false;
  }
}

bool Door::answer(const Guest& guest, bool is_welcome) const noexcept {
  std::array<int, AttachMessage::kDescriptorCount> descriptors{};
  std::uint32_t count = 0;
  if (is_welcome) {
    descriptors[count++] = offer_.segment;
    descriptors[count++] = offer_.bell;
    if (offer_.arena >= 0) descriptors[count++] = offer_.arena;
  }
  AttachMessage message;
  message.slot = slot_;
  message.descriptors = count;
  iovec octets{.iov_base = &message, .iov_len = sizeof message};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr header{};
  header.msg_iov = &octets;
  header.msg_iovlen = 1;
  if (count > 0) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), count * sizeof(int));
  }
  return ::sendmsg(guest.descriptor, &header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof message);
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/door.h"

#include <fcntl.h>
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
constexpr std::size_t kViewerLimit = 32;  // more would be an attempt to be a nuisance
constexpr std::size_t kGuestLimit = 2 * kSlotCount + kViewerLimit;
}  // namespace

Status Door::open(std::uint32_t slot, int epoll, const Offer& offer) noexcept {
  slot_ = slot;
  epoll_ = epoll;
  offer_ = offer;
  own_ = Credentials::current();
  return listener_.open(offer.admits_peers ? UnixName::of_door(slot) : UnixName::of_view(slot),
                        kSlotCount, epoll);
}

void Door::close() noexcept {
  guests_.clear();
  challenge_.close();
  listener_.close();
}

void Door::watch(int descriptor) const noexcept {
  epoll_event readable{.events = EPOLLIN, .data = {.fd = descriptor}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &readable);
}

bool Door::is_ours(int descriptor) const noexcept {
  return descriptor == listener_.descriptor() ||
         std::any_of(guests_.begin(), guests_.end(),
                     [&](const Guest& guest) { return guest.descriptor.number() == descriptor; });
}

std::vector<std::uint32_t> Door::serve() {
  std::vector<std::uint32_t> gone;
  if (!listener_.is_open()) return gone;
  accept_all();
  std::erase_if(guests_, [&](Guest& guest) {
    if (listen_to(guest)) return false;
    if (guest.is_peer()) gone.push_back(guest.slot);
    return true;
  });
  const bool is_awaited = std::any_of(guests_.begin(), guests_.end(), [](const Guest& guest) {
    return guest.state == Guest::State::kChallenged;
  });
  if (!is_awaited) challenge_.close();
  return gone;
}

void Door::accept_all() {
  for (int descriptor = listener_.accept(); descriptor >= 0; descriptor = listener_.accept()) {
    OwnDescriptor own(descriptor);
    if (!own_.match(peer_of(own.number())) || guests_.size() >= kGuestLimit) continue;
    watch(own.number());
    guests_.push_back({.descriptor = std::move(own)});
  }
}

bool Door::listen_to(Guest& guest) {
  saying_.resize(kSayingOctetsMax);
  for (;;) {
    const ssize_t got =
        ::recv(guest.descriptor.number(), saying_.data(), saying_.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    const auto octets = static_cast<std::size_t>(got);
    if (octets == 0 || octets > saying_.size()) return false;
    const auto said = std::span<const std::byte>(saying_).first(octets);
    switch (guest.state) {
      case Guest::State::kSilent:
        if (!challenge(guest, said)) return false;
        break;
      case Guest::State::kChallenged:
        if (!let_in(guest, said)) return false;
        break;
      case Guest::State::kKnown:
        if (guest.is_viewer()) return false;
        if (hearer_) hearer_(said, guest.descriptor.number());
        break;
    }
  }
}

/// A process of another version gets the answer that it is refused, which all versions understand.
bool Door::challenge(Guest& guest, std::span<const std::byte> hello) noexcept {
  AttachMessage message;
  if (hello.size() != sizeof message) return false;
  std::memcpy(&message, hello.data(), sizeof message);
  const bool is_viewer = message.slot == AttachMessage::kViewer && has_room_for_viewers();
  const bool is_peer = message.slot < kSlotCount && offer_.admits_peers;
  if (message.magic != AttachMessage::kMagic || !(is_viewer || is_peer)) return false;
  guest.slot = message.slot;
  if (message.version != SegmentHeader::kVersion) {
    AttachMessage refusal;
    refusal.slot = slot_;
    (void)::send(guest.descriptor.number(), &refusal, sizeof refusal, MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
  }
  if (!challenge_.is_open() && !challenge_.open()) return false;
  guest.state = Guest::State::kChallenged;
  ChallengeMessage question;
  question.descriptor = challenge_.descriptor();
  return ::send(guest.descriptor.number(), &question, sizeof question,
                MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof question);
}

bool Door::let_in(Guest& guest, std::span<const std::byte> proof) noexcept {
  ProofMessage message;
  if (proof.size() != sizeof message) return false;
  std::memcpy(&message, proof.data(), sizeof message);
  const bool is_proven =
      message.magic == ProofMessage::kMagic && challenge_.is_met_by(message.secret);
  if (!is_proven || !may_be_let_in(guest)) return false;
  guest.state = Guest::State::kKnown;
  return answer(guest);
}

bool Door::may_be_let_in(const Guest& guest) const noexcept {
  return own_.match(peer_of(guest.descriptor.number())) && own_.admit_others() &&
         (guest.is_viewer() || Challenge::may_look_into_peer_of(guest.descriptor.number()));
}

bool Door::has_room_for_viewers() const noexcept {
  const auto viewers = std::count_if(guests_.begin(), guests_.end(), [](const Guest& guest) {
    return guest.is_known() && guest.is_viewer();
  });
  return static_cast<std::size_t>(viewers) < kViewerLimit;
}

bool Door::answer(const Guest& guest) const noexcept {
  AttachMessage message;
  message.slot = slot_;
  std::array<int, AttachMessage::kDescriptorCount> descriptors{};
  std::uint32_t count = 0;
  const auto add = [&](AttachMessage::Descriptor kind, int descriptor) {
    if (descriptor < 0) return;
    descriptors[count++] = descriptor;
    message.add(kind);
  };
  const bool lends = guest.is_peer() && offer_.lends_memory;
  const int memory = lends ? ::open("/proc/self/mem", O_RDWR | O_CLOEXEC) : -1;
  add(AttachMessage::kSegment, offer_.segment);
  if (guest.is_peer()) add(AttachMessage::kBell, offer_.bell);
  if (guest.is_peer()) add(AttachMessage::kArena, offer_.arena);
  add(AttachMessage::kMemory, memory);
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
  const ssize_t sent = ::sendmsg(guest.descriptor.number(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (memory >= 0) ::close(memory);
  return sent == static_cast<ssize_t>(sizeof message);
}

}  // namespace verbatim::host

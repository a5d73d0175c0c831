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
constexpr std::size_t kViewerLimit = 32;  // more than any sensible use needs
constexpr std::size_t kConnectionLimit = 2 * kSlotCount + kViewerLimit;
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
  connections_.clear();
  challenge_.close();
  listener_.close();
}

void Door::watch(int descriptor) const noexcept {
  epoll_event readable{.events = EPOLLIN, .data = {.fd = descriptor}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &readable);
}

bool Door::is_ours(int descriptor) const noexcept {
  return descriptor == listener_.descriptor() ||
         std::any_of(connections_.begin(), connections_.end(), [&](const Connection& connection) {
           return connection.descriptor.number() == descriptor;
         });
}

std::vector<std::uint32_t> Door::serve() {
  std::vector<std::uint32_t> gone;
  if (!listener_.is_open()) return gone;
  accept_all();
  std::erase_if(connections_, [&](Connection& connection) {
    if (read_from(connection)) return false;
    if (connection.is_peer()) gone.push_back(connection.slot);
    return true;
  });
  const bool is_awaited =
      std::any_of(connections_.begin(), connections_.end(), [](const Connection& connection) {
        return connection.state == Connection::State::kChallenged;
      });
  if (!is_awaited) challenge_.close();
  return gone;
}

void Door::accept_all() {
  for (int descriptor = listener_.accept(); descriptor >= 0; descriptor = listener_.accept()) {
    OwnDescriptor own(descriptor);
    if (!own_.match(peer_of(own.number())) || connections_.size() >= kConnectionLimit) continue;
    watch(own.number());
    connections_.push_back({.descriptor = std::move(own)});
  }
}

bool Door::read_from(Connection& connection) {
  message_.resize(kMessageOctetsMax);
  for (;;) {
    const ssize_t got = ::recv(connection.descriptor.number(), message_.data(), message_.size(),
                               MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    const auto octets = static_cast<std::size_t>(got);
    if (octets == 0 || octets > message_.size()) return false;
    const auto received = std::span<const std::byte>(message_).first(octets);
    switch (connection.state) {
      case Connection::State::kSilent:
        if (!challenge(connection, received)) return false;
        break;
      case Connection::State::kChallenged:
        if (!let_in(connection, received)) return false;
        break;
      case Connection::State::kAdmitted:
        if (connection.is_viewer()) return false;
        if (handler_) handler_(received, connection.descriptor.number());
        break;
    }
  }
}

/// A process of another version is refused with an answer that all versions understand.
bool Door::challenge(Connection& connection, std::span<const std::byte> hello) noexcept {
  AttachMessage message;
  if (hello.size() != sizeof message) return false;
  std::memcpy(&message, hello.data(), sizeof message);
  const bool is_viewer = message.slot == AttachMessage::kViewer && has_room_for_viewers();
  const bool is_peer = message.slot < kSlotCount && offer_.admits_peers;
  if (message.magic != AttachMessage::kMagic || !(is_viewer || is_peer)) return false;
  connection.slot = message.slot;
  if (message.version != SegmentHeader::kVersion) {
    AttachMessage refusal;
    refusal.slot = slot_;
    (void)::send(connection.descriptor.number(), &refusal, sizeof refusal,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
  }
  if (!challenge_.is_open() && !challenge_.open()) return false;
  connection.state = Connection::State::kChallenged;
  ChallengeMessage question;
  question.descriptor = challenge_.descriptor();
  return ::send(connection.descriptor.number(), &question, sizeof question,
                MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof question);
}

bool Door::let_in(Connection& connection, std::span<const std::byte> proof) noexcept {
  ProofMessage message;
  if (proof.size() != sizeof message) return false;
  std::memcpy(&message, proof.data(), sizeof message);
  const bool is_proven =
      message.magic == ProofMessage::kMagic && challenge_.is_met_by(message.secret);
  if (!is_proven || !may_be_let_in(connection)) return false;
  connection.state = Connection::State::kAdmitted;
  return answer(connection);
}

bool Door::may_be_let_in(const Connection& connection) const noexcept {
  return own_.match(peer_of(connection.descriptor.number())) && own_.admit_others() &&
         (connection.is_viewer() ||
          Challenge::may_look_into_peer_of(connection.descriptor.number()));
}

bool Door::has_room_for_viewers() const noexcept {
  const auto viewers =
      std::count_if(connections_.begin(), connections_.end(), [](const Connection& connection) {
        return connection.is_admitted() && connection.is_viewer();
      });
  return static_cast<std::size_t>(viewers) < kViewerLimit;
}

bool Door::answer(const Connection& connection) const noexcept {
  AttachMessage message;
  message.slot = slot_;
  std::array<int, AttachMessage::kDescriptorCount> descriptors{};
  std::uint32_t count = 0;
  const auto add = [&](AttachMessage::Descriptor kind, int descriptor) {
    if (descriptor < 0) return;
    descriptors[count++] = descriptor;
    message.add(kind);
  };
  const bool lends = connection.is_peer() && offer_.lends_memory;
  const int memory = lends ? ::open("/proc/self/mem", O_RDWR | O_CLOEXEC) : -1;
  add(AttachMessage::kSegment, offer_.segment);
  if (connection.is_peer()) add(AttachMessage::kBell, offer_.bell);
  if (connection.is_peer()) add(AttachMessage::kArena, offer_.arena);
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
  const ssize_t sent =
      ::sendmsg(connection.descriptor.number(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (memory >= 0) ::close(memory);
  return sent == static_cast<ssize_t>(sizeof message);
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/viewer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "host/attach_answer.h"
#include "host/credentials.h"
#include "host/sealed_file.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

/// Which slots have a process.
class Occupants {
 public:
  Occupants() noexcept : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  Occupants(const Occupants&) = delete;
  Occupants& operator=(const Occupants&) = delete;
  ~Occupants() {
    if (socket_ >= 0) ::close(socket_);
  }
  [[nodiscard]] bool has(std::uint32_t slot) const noexcept {
    return UnixName::of_slot(slot).connect(socket_) == 0 || errno == EPERM;
  }

 private:
  int socket_;
};

bool has_ended(int connection) noexcept {
  std::byte octet;
  const ssize_t got = ::recv(connection, &octet, sizeof octet, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/// The connection, or the negative errno.
int connect_to(const UnixName& name) noexcept {
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return -errno;
  if (name.connect(connection) == 0) return connection;
  const int error = errno;
  ::close(connection);
  return -error;
}

}  // namespace

Viewer::~Viewer() {
  for (Place& place : places_) forget(place);
}

void Viewer::forget(Place& place) noexcept {
  if (place.connection >= 0) ::close(place.connection);
  if (place.sight.segment >= 0) ::close(place.sight.segment);
  place = {};
}

std::vector<Viewer::Sight> Viewer::look(Duration patience) {
  const Occupants occupants;
  std::vector<std::uint32_t> taken;
  for (std::uint32_t slot = 0; slot < kSlotCount; ++slot) {
    Place& place = places_[slot];
    const bool is_taken = occupants.has(slot);
    const bool has_left = place.connection >= 0 && !place.is_asked() && has_ended(place.connection);
    if (has_left || !is_taken) forget(place);
    if (!is_taken) continue;
    taken.push_back(slot);
    place.sight.slot = slot;
    if (place.connection < 0) knock(place);
  }
  await_answers(patience);
  std::vector<Sight> sights;
  for (const std::uint32_t slot : taken) sights.push_back(places_[slot].sight);
  return sights;
}

/// A process that was hidden is asked again each time: its door may have been opened since, or be
/// another one.
void Viewer::knock(Place& place) noexcept {
  const std::uint32_t slot = place.sight.slot;
  int connection = connect_to(UnixName::of_door(slot));
  if (connection == -ECONNREFUSED) connection = connect_to(UnixName::of_view(slot));
  // EAGAIN: too many connections wait at that door already.
  place.sight.kind = connection == -EAGAIN ? Sight::Kind::kSilent : Sight::Kind::kHidden;
  if (connection < 0) return;
  place.connection = connection;
  const ucred owner = peer_of(connection);
  place.sight.process = owner.pid;
  AttachMessage hello;
  hello.slot = AttachMessage::kViewer;
  const ssize_t sent = ::send(connection, &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!Credentials::current().match(owner) || sent != static_cast<ssize_t>(sizeof hello)) {
    ::close(std::exchange(place.connection, -1));
    return;
  }
  place.sight.kind = Sight::Kind::kSilent;
}

void Viewer::await_answers(Duration patience) {
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Place*> asked;
    for (Place& place : places_) {
      if (!place.is_asked()) continue;
      waiting.push_back({.fd = place.connection, .events = POLLIN, .revents = 0});
      asked.push_back(&place);
    }
    const Duration left = patience - (steady_clock::now() - start);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (waiting.empty()) return;
    const int ready = ::poll(waiting.data(), waiting.size(),
                             milliseconds > 0 ? static_cast<int>(milliseconds) : 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) take_answer(*asked[i]);
    }
  }
}

void Viewer::take_answer(Place& place) noexcept {
  const auto hide = [&] {
    ::close(std::exchange(place.connection, -1));
    place.is_challenged = false;
    place.sight.kind = Sight::Kind::kHidden;
  };
  if (!std::exchange(place.is_challenged, true)) {
    if (!meet_challenge(place.connection)) hide();
    return;
  }
  AttachAnswer answer(place.connection);
  int& segment = answer.descriptors[AttachMessage::kSegment];
  const std::uint64_t octets = answer.makes_sense && segment >= 0 ? octets_of_sealed(segment) : 0;
  if (octets == 0) {
    hide();
    return;
  }
  place.sight.segment = std::exchange(segment, -1);
  place.sight.octets = octets;
  place.sight.kind = Sight::Kind::kShown;
}

}  // namespace verbatim::host

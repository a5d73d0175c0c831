// SPDX-License-Identifier: Apache-2.0
#include "host/socket_share.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "host/slot.h"
#include "host/unix_name.h"

namespace verbatim::host {

namespace {

constexpr int kQueueMax = 4096;      // connections that wait while this process is stopped
constexpr int kMessagesInARow = 64;  // of one connection
constexpr int kRetryMs = 5;          // when too many descriptors are sent but unread (ETOOMANYREFS)
constexpr int kShortageMs = 100;     // until the next attempt to accept without descriptors
constexpr int kAnnounceTries = 20;   // of kRetryMs each; after that the peer must ask

int open_socket() noexcept {
  return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool is_datagram_socket(int descriptor) noexcept {
  int type = 0;
  socklen_t octets = sizeof type;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &octets) == 0 && type == SOCK_DGRAM;
}

/// One packet of a connection: the message and the descriptors that came with it.
struct Packet {
  ShareMessage message;
  std::array<int, ShareMessage::kEntriesMax> descriptors{};
  std::size_t descriptor_count = 0;

  enum class Outcome : std::uint8_t { kTaken, kNothingThere, kEnded };
  [[nodiscard]] Outcome receive(int socket) noexcept;
  [[nodiscard]] bool send(int socket) const noexcept;

 private:
  struct Room {
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * ShareMessage::kEntriesMax)];
    std::array<std::byte, ShareMessage::kOctetsMax> octets;
  };
  void take_descriptors(msghdr& header) noexcept;
};

Packet::Outcome Packet::receive(int socket) noexcept {
  Room room;
  iovec part{.iov_base = room.octets.data(), .iov_len = room.octets.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.control;
  header.msg_controllen = sizeof room.control;
  ssize_t received = -1;
  do {
    received = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && errno == EAGAIN) return Outcome::kNothingThere;
  if (received <= 0) return Outcome::kEnded;
  take_descriptors(header);
  const auto octets = std::span(room.octets).first(static_cast<std::size_t>(received));
  const bool whole = (header.msg_flags & MSG_TRUNC) == 0;
  if (whole && message.parse(octets)) return Outcome::kTaken;
  for (std::size_t i = 0; i < descriptor_count; ++i) ::close(descriptors[i]);
  return Outcome::kEnded;
}

/// Fewer descriptors may arrive than were sent, when the process may have no more: then the first
/// ones.
void Packet::take_descriptors(msghdr& header) noexcept {
  descriptor_count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof descriptor);
      if (descriptor_count < descriptors.size()) {
        descriptors[descriptor_count++] = descriptor;
      } else {
        ::close(descriptor);
      }
    }
  }
}

bool Packet::send(int socket) const noexcept {
  Room room;
  iovec part{.iov_base = room.octets.data(), .iov_len = message.emit(room.octets)};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor_count > 0) {
    header.msg_control = room.control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptor_count);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptor_count);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptor_count);
  }
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace

// ---- While opening ----

void SocketShare::want(const SocketLabel& address) {
  if (!wants(address)) wanted_.push_back(address);
}

std::size_t SocketShare::find_peers(std::optional<std::uint32_t> own) {
  for (std::uint32_t slot = 0; slot < kSlotCount; ++slot) {
    if (slot == own) continue;
    Connection peer{.descriptor = OwnDescriptor(open_socket()), .is_ours = true};
    if (!peer.descriptor.is_open()) break;
    const bool is_there = UnixName::of_share(slot).connect(peer.descriptor.number()) == 0 &&
                          peer_of(peer.descriptor.number()).uid == ::geteuid();
    if (is_there) connections_.push_back(std::move(peer));
  }
  return connections_.size();
}

bool SocketShare::ask_next_peer() noexcept {
  for (Connection& peer : connections_) {
    if (peer.was_asked) continue;
    ask(peer);
    return true;
  }
  return false;
}

void SocketShare::ask(Connection& connection) noexcept {
  Packet packet;
  packet.message.kind = ShareMessage::Kind::kWant;
  packet.message.count = std::min(wanted_.size(), ShareMessage::kEntriesMax);
  std::copy_n(wanted_.begin(), packet.message.count, packet.message.entries.begin());
  connection.was_asked = true;
  connection.owes_answer = packet.send(connection.descriptor.number());
}

bool SocketShare::take_answers(Duration patience) {
  std::vector<pollfd> debtors;
  for (const Connection& peer : connections_) {
    if (!peer.owes_answer) continue;
    debtors.push_back({.fd = peer.descriptor.number(), .events = POLLIN, .revents = 0});
  }
  if (debtors.empty()) return false;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  if (::poll(debtors.data(), debtors.size(), std::max(1, static_cast<int>(limit))) > 0) read_all();
  return true;
}

void SocketShare::start_over() noexcept {
  held_.clear();
  connections_.clear();
}

void SocketShare::add(const SocketLabel& label, int descriptor) {
  held_.push_back({.label = label, .descriptor = OwnDescriptor(descriptor), .is_news = true});
}

int SocketShare::find(const SocketLabel& label) const noexcept {
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const Held& held) { return held.label == label; });
  return found != held_.end() ? found->descriptor.number() : -1;
}

std::size_t SocketShare::count_beside(const SocketLabel& address) const noexcept {
  return static_cast<std::size_t>(std::count_if(
      held_.begin(), held_.end(), [&](const Held& held) { return held.label.is_beside(address); }));
}

std::vector<SocketShare::Holding> SocketShare::held_beside(const SocketLabel& address) const {
  std::vector<Holding> result;
  for (const Held& held : held_) {
    if (held.label.is_beside(address)) result.push_back({held.label, held.descriptor.number()});
  }
  return result;
}

Status SocketShare::serve(std::uint32_t slot) {
  user_ = ::geteuid();
  socket_ = OwnDescriptor(open_socket());
  if (!socket_.is_open()) return Errc::kNoMemory;
  if (auto opened = bell_.open(); !opened) return opened;
  if (UnixName::of_share(slot).bind(socket_.number()) != 0) return Errc::kAddressInUse;
  if (::listen(socket_.number(), kQueueMax) != 0) return Errc::kNoMemory;
  if (lender_) (void)desk_.open(lender_);  // on failure other users have to use another address
  announce();
  return thread_.start("verbatim-port", [this] { run(); });
}

/// A peer that cannot take the message now notices the missing slot when another process sends it
/// the socket of a higher one.
void SocketShare::announce() noexcept {
  int tries = 0;
  for (Connection& peer : connections_) {
    while (!send_held(peer, true) && errno == ETOOMANYREFS && tries < kAnnounceTries) {
      (void)::poll(nullptr, 0, kRetryMs);
      ++tries;
    }
  }
  for (Held& held : held_) held.is_news = false;
}

// ---- Afterwards ----

void SocketShare::serve_more() noexcept {
  announce();
  bell_.ring();  // the thread must watch the new connections
}

void SocketShare::close() noexcept {
  if (thread_.exists()) {
    {
      const LockGuard lock(mutex_);
      is_closing_ = true;
    }
    bell_.ring();
    thread_.join();
  }
  close_all();
}

void SocketShare::abandon_in_child() noexcept {
  thread_.forget_in_child();
  close_all();
}

void SocketShare::close_all() noexcept {
  start_over();
  desk_.close();
  is_closing_ = false;
  socket_.close();
  bell_.close();
}

void SocketShare::run() noexcept {
  std::vector<pollfd> polled;
  for (;;) {
    bool has_questions = false;
    {
      const LockGuard lock(mutex_);
      if (is_closing_) return;
      polled.assign({bell_.polled(), {.fd = socket_.number(), .events = POLLIN, .revents = 0}});
      for (const Connection& connection : connections_) {
        polled.push_back({.fd = connection.descriptor.number(), .events = POLLIN, .revents = 0});
        has_questions = has_questions || connection.has_question;
      }
      desk_.add_to(polled);
      has_questions = has_questions || desk_.has_questions();
    }
    // Without a descriptor to accept with, the listener would be readable all the time.
    if (is_short_of_descriptors_) polled[1].fd = -1;
    const int otherwise = is_short_of_descriptors_ ? kShortageMs : -1;
    (void)::poll(polled.data(), polled.size(), has_questions ? kRetryMs : otherwise);
    // False when the program has closed the descriptors of this object.
    if (!bell_.take(polled[0])) return;
    const LockGuard lock(mutex_);
    if (!socket_.is_still_own()) return;
    serve_all();
  }
}

/// All connections are read once more before a question is answered: sockets that others have sent
/// before it was asked belong into the answer.
void SocketShare::serve_all() noexcept {
  for (int look = 0; look < 2; ++look) {
    accept_all();
    read_all();
  }
  for (Connection& connection : connections_) {
    if (connection.has_question && send_held(connection, false)) connection.has_question = false;
  }
  drop_closed();
  if (!desk_.serve()) is_short_of_descriptors_ = true;
}

void SocketShare::accept_all() noexcept {
  for (;;) {
    const int accepted =
        ::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0 && errno == EINTR) continue;
    if (accepted < 0) {
      is_short_of_descriptors_ = errno != EAGAIN;
      return;
    }
    OwnDescriptor own(accepted);
    if (peer_of(own.number()).uid == user_) {
      connections_.push_back({.descriptor = std::move(own)});
    }
  }
}

void SocketShare::read_all() {
  for (Connection& connection : connections_) read(connection);
  drop_closed();
}

/// Closes the descriptor when the connection has ended.
void SocketShare::read(Connection& connection) {
  for (int count = 0; count < kMessagesInARow; ++count) {
    Packet packet;
    const auto outcome = packet.receive(connection.descriptor.number());
    if (outcome == Packet::Outcome::kNothingThere) return;
    if (outcome == Packet::Outcome::kEnded) {
      connection.descriptor.close();
      return;
    }
    keep(packet.message, std::span(packet.descriptors).first(packet.descriptor_count));
    handle(connection, packet.message);
  }
}

/// A peer that sends sockets gets no answer. If its message shows that a socket of another slot is
/// missing here, the peer is asked for it, once.
void SocketShare::handle(Connection& connection, const ShareMessage& message) {
  if (message.kind == ShareMessage::Kind::kWant) {
    connection.has_question = true;
    connection.question.assign(message.entries.begin(), message.entries.begin() + message.count);
    return;
  }
  if (message.more_follows) return;
  connection.owes_answer = false;
  if (connection.is_ours) return;
  if (!connection.was_asked && lacks_any()) {
    ask(connection);
  } else {
    connection.is_done = true;
  }
}

void SocketShare::keep(const ShareMessage& message, std::span<const int> descriptors) {
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const bool is_named = i < message.count;
    const SocketLabel& label = message.entries[std::min(i, ShareMessage::kEntriesMax - 1)];
    if (is_named && label.slot < kSlotCount && wants(label) && find(label) < 0 &&
        is_datagram_socket(descriptors[i])) {
      held_.push_back({.label = label, .descriptor = OwnDescriptor(descriptors[i])});
    } else {
      ::close(descriptors[i]);
    }
  }
}

bool SocketShare::wants(const SocketLabel& label) const noexcept {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](const SocketLabel& wanted) { return wanted.is_beside(label); });
}

/// Slots are taken from the lowest on. So an unknown slot below a known one means that its socket
/// is missing here.
bool SocketShare::lacks_any() const noexcept {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& held) { return held.label.slot >= count_beside(held.label); });
}

/// Sends all held sockets of the addresses that were asked for, or all new ones. False, with errno,
/// when not all could be sent.
bool SocketShare::send_held(Connection& connection, bool news_only) noexcept {
  Packet packet;
  packet.message.kind = ShareMessage::Kind::kHave;
  for (const Held& held : held_) {
    const auto& question = connection.question;
    const bool belongs =
        news_only ? held.is_news
                  : std::any_of(question.begin(), question.end(), [&](const SocketLabel& asked) {
                      return asked.is_beside(held.label);
                    });
    if (!belongs) continue;
    if (packet.message.count == ShareMessage::kEntriesMax) {
      packet.message.more_follows = true;
      if (!packet.send(connection.descriptor.number())) return false;
      packet.message.more_follows = false;
      packet.message.count = packet.descriptor_count = 0;
    }
    packet.message.entries[packet.message.count++] = held.label;
    packet.descriptors[packet.descriptor_count++] = held.descriptor.number();
  }
  return packet.send(connection.descriptor.number());
}

void SocketShare::drop_closed() noexcept {
  for (Connection& connection : connections_) {
    const bool is_content =
        connection.is_done && !connection.has_question && !connection.owes_answer;
    if (is_content) connection.descriptor.close();
  }
  std::erase_if(connections_,
                [](const Connection& connection) { return !connection.descriptor.is_open(); });
}

}  // namespace verbatim::host

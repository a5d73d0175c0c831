// SPDX-License-Identifier: Apache-2.0
#include "host/lending_desk.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "host/desk_names.h"
#include "host/public_name.h"
#include "host/unix_name.h"

namespace verbatim::host {

namespace {

constexpr int kQueueMax = 128;
constexpr std::size_t kDescriptorsMax = ShareMessage::kEntriesMax;
constexpr std::size_t kDesksMax = 256;                 // desks that a borrower asks
constexpr Duration kLatest = std::chrono::seconds(1);  // an older question is refused

int open_socket() noexcept {
  return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

struct ControlRoom {
  alignas(cmsghdr) std::byte octets[CMSG_SPACE(sizeof(int) * kDescriptorsMax)];
};

bool send_answer(int socket, const std::vector<int>& descriptors) noexcept {
  auto magic = LendingMessage::kMagic;
  iovec part{.iov_base = magic.data(), .iov_len = magic.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlRoom room;
  const std::size_t count = std::min(descriptors.size(), kDescriptorsMax);
  if (count > 0) {
    header.msg_control = room.octets;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * count);
  }
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/// Reads an answer, if one has arrived. Descriptors that come with anything else are closed.
bool take_answer(int socket, std::vector<int>& descriptors) noexcept {
  std::array<char, 8> octets{};
  iovec part{.iov_base = octets.data(), .iov_len = octets.size()};
  ControlRoom room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.octets;
  header.msg_controllen = sizeof room.octets;
  const ssize_t received = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0) return false;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr;
       rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(rights) + i * sizeof(int), sizeof descriptor);
      descriptors.push_back(descriptor);
    }
  }
  return received == static_cast<ssize_t>(LendingMessage::kMagic.size()) &&
         std::memcmp(octets.data(), LendingMessage::kMagic.data(), LendingMessage::kMagic.size()) ==
             0 &&
         !descriptors.empty();
}

}  // namespace

// ---- Lending ----

Status LendingDesk::open(Lender lender) noexcept {
  std::uint64_t digits = 0;
  if (::getrandom(&digits, sizeof digits, 0) != sizeof digits) return Errc::kNoMemory;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s%016llx", kPrefix.data(),
                static_cast<unsigned long long>(digits));
  socket_ = OwnDescriptor(open_socket());
  if (!socket_.is_open() || PublicName(text.data()).bind(socket_.number()) != 0 ||
      ::listen(socket_.number(), kQueueMax) != 0) {
    close();
    return Errc::kNoMemory;
  }
  lender_ = std::move(lender);
  return Ok{};
}

void LendingDesk::close() noexcept {
  connections_.clear();
  socket_.close();
}

void LendingDesk::add_to(std::vector<pollfd>& polled) const {
  if (!socket_.is_open()) return;
  if (!is_full_) polled.push_back({.fd = socket_.number(), .events = POLLIN, .revents = 0});
  for (const Connection& connection : connections_) {
    if (connection.has_question) continue;  // serve() looks at it again after a while
    // After the answer, only the end of the connection matters.
    const short events = connection.is_answered ? 0 : POLLIN;
    polled.push_back({.fd = connection.descriptor.number(), .events = events, .revents = 0});
  }
}

bool LendingDesk::has_questions() const noexcept {
  return std::ranges::any_of(connections_, &Connection::has_question);
}

bool LendingDesk::serve() noexcept {
  if (!socket_.is_open()) return true;
  is_full_ = !accept_some();
  for (Connection& connection : connections_) drop_if_read(connection);
  for (Connection& connection : connections_) {
    if (!connection.descriptor.is_open() || connection.is_answered) continue;
    if (!connection.has_question) read(connection);
    if (connection.has_question) answer(connection);
  }
  std::erase_if(connections_,
                [](const Connection& connection) { return !connection.descriptor.is_open(); });
  return !is_full_;
}

/// At most kConnectionsMax at a time: processes may connect faster than this accepts, and the
/// caller holds a lock.
bool LendingDesk::accept_some() noexcept {
  for (std::size_t count = 0; count < kConnectionsMax; ++count) {
    const int accepted =
        ::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0 && errno == EINTR) continue;
    if (accepted < 0) return errno == EAGAIN;
    OwnDescriptor own(accepted);
    const uid_t user = peer_of(own.number()).uid;
    make_room_for(user);
    connections_.push_back({.descriptor = std::move(own), .user = user});
  }
  return true;
}

/// Closes the oldest connection of the same user when that user has too many, else the oldest of
/// all. Connections with an unread answer stay; there are fewer of them than either limit.
void LendingDesk::make_room_for(uid_t user) noexcept {
  const auto is_same = [&](const Connection& other) {
    return other.user == user && !other.is_answered;
  };
  auto oldest = connections_.end();
  if (std::ranges::count_if(connections_, is_same) >=
      static_cast<std::ptrdiff_t>(kConnectionsPerUser)) {
    oldest = std::ranges::find_if(connections_, is_same);
  } else if (connections_.size() >= kConnectionsMax) {
    oldest = std::ranges::find(connections_, false, &Connection::is_answered);
  }
  if (oldest == connections_.end()) return;
  connections_.erase(oldest);
}

/// Closes the descriptor when the connection has ended, or has sent something unexpected.
void LendingDesk::read(Connection& connection) noexcept {
  std::array<std::byte, LendingMessage::kOctets + 1> octets{};
  const ssize_t received =
      ::recv(connection.descriptor.number(), octets.data(), octets.size(), MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto message =
      std::span(octets).first(static_cast<std::size_t>(std::max<ssize_t>(received, 0)));
  connection.has_question = bool(connection.question.parse(message));
  connection.asked_at = Clock::now();
  if (!connection.has_question) connection.descriptor.close();
}

void LendingDesk::answer(Connection& connection) noexcept {
  const bool is_late = Clock::now() - connection.asked_at > kLatest;
  const bool may = may_answer(connection.user) && takes_its_turn(connection);
  if (!may && !is_late) return;
  const Answer answer =
      may ? lender_(connection.question, connection.user) : Answer{.kind = Answer::Kind::kRefused};
  if (answer.kind == Answer::Kind::kLater && !is_late) return;
  const bool is_sent = send_answer(connection.descriptor.number(), answer.descriptors);
  // Too many descriptors of this user are sent but unread: tries again later.
  if (!is_sent && errno == ETOOMANYREFS && !is_late) return;
  connection.has_question = false;
  connection.is_answered = is_sent && !answer.descriptors.empty();
  if (!connection.is_answered) connection.descriptor.close();
}

/// The kernel counts octets that were sent and not read yet. The count is also 0 when the other end
/// has closed.
void LendingDesk::drop_if_read(Connection& connection) noexcept {
  if (!connection.is_answered) return;
  int unread = 0;
  if (::ioctl(connection.descriptor.number(), SIOCOUTQ, &unread) == 0 && unread > 0) return;
  connection.descriptor.close();
}

bool LendingDesk::may_answer(uid_t user) const noexcept {
  std::size_t unread = 0;
  for (const Connection& connection : connections_) {
    if (!connection.is_answered || !connection.descriptor.is_open()) continue;
    if (connection.user == user) return false;
    ++unread;
  }
  return unread < kUnreadMax;
}

/// Counts each question once; false when the user has to wait.
bool LendingDesk::takes_its_turn(Connection& connection) noexcept {
  if (connection.has_turn) return true;
  const auto now = Clock::now();
  std::erase_if(askers_, [&](const Asker& asker) { return now - asker.since >= kPeriod; });
  auto asker = std::ranges::find(askers_, connection.user, &Asker::user);
  if (asker == askers_.end()) {
    asker = askers_.insert(askers_.end(), {.user = connection.user, .since = now});
  }
  if (asker->questions >= kQuestionsPerUser) return false;
  ++asker->questions;
  return connection.has_turn = true;
}

// ---- Borrowing ----

bool has_desk(uid_t user) {
  const auto names = desk_names_of(user, LendingDesk::kPrefix);
  return std::ranges::any_of(names, [&](const std::string& name) {
    const int desk = open_socket();
    const bool is_there =
        desk >= 0 && PublicName(name).connect(desk) == 0 && peer_of(desk).uid == user;
    if (desk >= 0) ::close(desk);
    return is_there;
  });
}

std::vector<int> borrow(const LoanRequest& request) {
  using Clock = std::chrono::steady_clock;
  std::array<std::byte, LendingMessage::kOctets> question{};
  request.question.emit(question);
  std::vector<pollfd> desks;
  for (const std::string& name : desk_names_of(request.owner, LendingDesk::kPrefix)) {
    if (desks.size() == kDesksMax) break;
    const int desk = open_socket();
    if (desk < 0) break;
    if (PublicName(name).connect(desk) == 0 && peer_of(desk).uid == request.owner) {
      desks.push_back({.fd = desk, .events = POLLIN, .revents = 0});
    } else {
      ::close(desk);
    }
  }
  std::vector<int> lent;
  const auto end = Clock::now() + request.patience;
  std::size_t asked = 0;
  std::size_t open_count = desks.size();
  while (lent.empty() && open_count > 0 && Clock::now() < end) {
    if (asked < desks.size()) {
      (void)!::send(desks[asked++].fd, question.data(), question.size(),
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    const Duration wait = asked < desks.size() ? request.between : Duration(end - Clock::now());
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
    if (::poll(desks.data(), asked, std::max(1, static_cast<int>(limit))) <= 0) continue;
    for (std::size_t i = 0; i < asked && lent.empty(); ++i) {
      if (desks[i].fd < 0 || desks[i].revents == 0) continue;
      if (take_answer(desks[i].fd, lent)) break;
      for (const int descriptor : std::exchange(lent, {})) ::close(descriptor);
      ::close(std::exchange(desks[i].fd, -1));
      --open_count;
    }
  }
  for (const pollfd& desk : desks) {
    if (desk.fd >= 0) ::close(desk.fd);
  }
  return lent;
}

}  // namespace verbatim::host

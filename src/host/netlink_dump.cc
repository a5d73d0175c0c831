// SPDX-License-Identifier: Apache-2.0
#include "host/netlink_dump.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbatim::host {

namespace {

constexpr std::size_t kRoomOctets = 32 * 1024;  // the kernel puts no more into one datagram

std::span<const std::byte> behind(std::span<const std::byte> octets, std::size_t count) noexcept {
  return octets.subspan(std::min(count, octets.size()));
}

/// The end of a list may carry the reason why the list is not complete, as a negative number.
bool says_failure(std::span<const std::byte> body) noexcept {
  std::int32_t code = 0;
  if (body.size() >= sizeof code) std::memcpy(&code, body.data(), sizeof code);
  return code < 0;
}

}  // namespace

NetlinkDump NetlinkDump::of(int protocol) {
  return NetlinkDump(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
}

NetlinkDump::NetlinkDump(int socket)
    : socket_(socket), room_(std::make_unique<std::byte[]>(kRoomOctets)) {}

NetlinkDump::~NetlinkDump() {
  if (socket_ >= 0) ::close(socket_);
}

bool NetlinkDump::ask(std::uint16_t type, std::span<const std::byte> body) noexcept {
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(body.size()));
  header.nlmsg_type = type;
  header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  static_assert(sizeof header == NLMSG_HDRLEN, "the body follows at once");
  iovec parts[] = {{.iov_base = &header, .iov_len = sizeof header},
                   {.iov_base = const_cast<std::byte*>(body.data()), .iov_len = body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  const bool is_sent = socket_ >= 0 && ::sendmsg(socket_, &message, MSG_NOSIGNAL) ==
                                           static_cast<ssize_t>(header.nlmsg_len);
  if (!is_sent) state_ = State::kFailed;
  return is_sent;
}

std::optional<NetlinkDump::Entry> NetlinkDump::next() noexcept {
  while (state_ == State::kGoesOn) {
    if (rest_.empty() && !receive()) break;
    const auto entry = take_message();
    if (!entry) break;
    if (entry->type == NLMSG_DONE) {
      state_ = says_failure(entry->body) ? State::kFailed : State::kComplete;
    } else if (entry->type == NLMSG_ERROR) {
      state_ = State::kFailed;
    } else if (entry->type != NLMSG_NOOP) {
      return entry;
    }
  }
  return std::nullopt;
}

bool NetlinkDump::receive() noexcept {
  ssize_t received = -1;
  do {
    received = ::recv(socket_, room_.get(), kRoomOctets, 0);
  } while (received < 0 && errno == EINTR);
  if (received <= 0) {
    state_ = State::kFailed;
    return false;
  }
  rest_ = {room_.get(), static_cast<std::size_t>(received)};
  return true;
}

/// The first message in the rest of the last datagram.
std::optional<NetlinkDump::Entry> NetlinkDump::take_message() noexcept {
  nlmsghdr header{};
  if (rest_.size() >= sizeof header) std::memcpy(&header, rest_.data(), sizeof header);
  if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest_.size()) {
    state_ = State::kFailed;
    return std::nullopt;
  }
  const auto message = rest_.first(header.nlmsg_len);
  rest_ = behind(rest_, NLMSG_ALIGN(message.size()));
  return Entry{.type = header.nlmsg_type, .body = message.subspan(sizeof header)};
}

std::optional<NetlinkAttribute> take_attribute(std::span<const std::byte>& attributes) noexcept {
  rtattr head{};
  if (attributes.size() >= sizeof head) std::memcpy(&head, attributes.data(), sizeof head);
  if (head.rta_len < sizeof head || head.rta_len > attributes.size()) return std::nullopt;
  const auto attribute = attributes.first(head.rta_len);
  attributes = behind(attributes, RTA_ALIGN(attribute.size()));
  return NetlinkAttribute{.type = head.rta_type, .value = attribute.subspan(sizeof head)};
}

}  // namespace verbatim::host

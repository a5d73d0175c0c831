// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor_control.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>

#include "udp/socket_address.h"

namespace verbatim::tools {
namespace {

constexpr int kConnectPatienceMs = 5000;

/// Waits until the connection is established. 0, or the errno of its failure.
int await_connection(int socket) {
  pollfd writable{.fd = socket, .events = POLLOUT, .revents = 0};
  if (::poll(&writable, 1, kConnectPatienceMs) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t octets = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &octets);
  return error;
}

template <typename Ask>
wire::Gid address_from(int descriptor, Ask&& ask) noexcept {
  link::SocketAddress name{};
  socklen_t octets = sizeof name;
  if (ask(descriptor, &name.base, &octets) != 0) return {};
  return link::gid_of(name);
}

}  // namespace

ControlLine::~ControlLine() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<ControlLine> ControlLine::connect(const std::string& host, std::uint16_t port,
                                                std::string& message) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    message = "the name '" + host + "' leads to no address: " + ::gai_strerror(failed);
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    ControlLine line(
        ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (line.descriptor_ < 0) continue;
    error = ::connect(line.descriptor_, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) error = await_connection(line.descriptor_);
    if (error == 0) return line;
  }
  message = "no connection to " + host + ", TCP port " + std::to_string(port) + ": " +
            std::strerror(error);
  return std::nullopt;
}

bool ControlLine::send(const std::string& line) const {
  const std::string octets = line + "\n";  // short, so the socket's buffer has room
  return ::send(descriptor_, octets.data(), octets.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(octets.size());
}

std::optional<std::string> ControlLine::receive(int patience_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (!has_line()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() < 0 || unread_.size() > kLineMax) return std::nullopt;
    pollfd readable{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, kLineMax> room{};
    const ssize_t octets = ::recv(descriptor_, room.data(), room.size(), 0);
    if (octets <= 0) return std::nullopt;
    unread_.append(room.data(), static_cast<std::size_t>(octets));
  }
  const std::size_t end = unread_.find('\n');
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

wire::Gid ControlLine::local_address() const noexcept {
  return address_from(descriptor_, ::getsockname);
}
wire::Gid ControlLine::remote_address() const noexcept {
  return address_from(descriptor_, ::getpeername);
}

std::string word_in(std::string_view line, std::string_view key) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=') {
      return std::string(word.substr(key.size() + 1));
    }
    at = end + 1;
  }
  return {};
}

std::optional<std::uint64_t> number_in(std::string_view line, std::string_view key) {
  const std::string word = word_in(line, key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
// How fast are the kernel's sockets on one host? Receivers spin, which is the fastest way.
//
// Usage: sockets tcp|unix latency|rate|bandwidth OCTETS COUNT
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstring>

#include "ends.h"

namespace {

using namespace verbatim::bench;

/// A connected socket in each end.
int tcp_socket(End& end) {
  const int made = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t octets = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  int connected = made;
  if (end.is_server()) {
    if (::bind(made, generic, octets) != 0 || ::listen(made, 1) != 0 ||
        ::getsockname(made, generic, &octets) != 0) {
      stop("cannot listen on the loopback interface");
    }
    end.exchange_value(address.sin_port);
    connected = ::accept(made, nullptr, nullptr);
  } else {
    address.sin_port = end.exchange_value(address.sin_port);
    if (::connect(made, generic, octets) != 0) stop("connect failed");
  }
  const int yes = 1;
  ::setsockopt(connected, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return connected;
}

void send_all(int socket, std::span<const std::byte> octets) {
  while (!octets.empty()) {
    const ssize_t done = ::send(socket, octets.data(), octets.size(), MSG_NOSIGNAL);
    if (done <= 0) stop("send failed");
    octets = octets.subspan(static_cast<std::size_t>(done));
  }
}

void receive_all(int socket, std::span<std::byte> octets) {
  while (!octets.empty()) {
    const ssize_t done = ::recv(socket, octets.data(), octets.size(), MSG_DONTWAIT);
    if (done == 0) stop("the connection has ended");
    if (done > 0) octets = octets.subspan(static_cast<std::size_t>(done));
  }
}

/// Takes whatever is there, several small messages at once.
void receive_stream(int socket, std::size_t octets) {
  std::vector<std::byte> buffer(1U << 20);
  while (octets > 0) {
    const ssize_t done = ::recv(socket, buffer.data(), std::min(buffer.size(), octets), 0);
    if (done <= 0) stop("recv failed");
    octets -= static_cast<std::size_t>(done);
  }
}

double ping_pong(int socket, const End& end, const Question& question) {
  std::vector<std::byte> message(question.octets);
  if (end.is_server()) {
    for (std::size_t i = 0; i < whole_groups(question.count); ++i) {
      receive_all(socket, message);
      send_all(socket, message);
    }
    return 0;
  }
  return half_trip(question.count, [&] {
    send_all(socket, message);
    receive_all(socket, message);
  });
}

double stream(int socket, End& end, const Question& question) {
  const std::vector<std::byte> message(question.octets);
  const auto start = Clock::now();
  if (end.is_server()) {
    receive_stream(socket, question.octets * question.count);
  } else {
    for (std::size_t i = 0; i < question.count; ++i) send_all(socket, message);
  }
  end.meet();  // all of it has arrived
  return throughput(question, seconds_since(start));
}

}  // namespace

int main(int count, char** words) {
  const Question question = question_of(count, words, 1);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) stop("socketpair failed");
  End end;
  const bool is_tcp = std::string_view(words[1]) == "tcp";
  const int socket = is_tcp ? tcp_socket(end) : ends[end.is_server() ? 0 : 1];
  end.meet();
  const double number =
      question.kind == "latency" ? ping_pong(socket, end, question) : stream(socket, end, question);
  if (!end.is_server()) answer(number);
  return end.finish();
}

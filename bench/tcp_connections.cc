// SPDX-License-Identifier: Apache-2.0
// What cmtime does, with TCP: many connections, all of them through one step before the next step
// begins. Prints microseconds per connection for the steps that correspond to cmtime's.
//
// Usage: tcp_connections serve PORT COUNT
//        tcp_connections ADDRESS PORT COUNT
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::exit(1);
}

double microseconds_each(Clock::time_point since, std::size_t count) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count() /
         static_cast<double>(count);
}

sockaddr_in address_of(const char* text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, text, &address.sin_addr) != 1) stop("address");
  return address;
}

void close_all(std::span<const int> sockets) {
  for (const int socket : sockets) ::close(socket);
}

/// The peer has said that it sends no more.
void await_end(int socket) {
  char octet;
  if (::recv(socket, &octet, 1, 0) != 0) stop("recv");
}

int serve(int port, std::size_t count) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in any = address_of("0.0.0.0", port);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) stop("bind");
  if (::listen(listener, static_cast<int>(count)) != 0) stop("listen");
  std::vector<int> sockets;
  while (sockets.size() < count) {
    const int accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) stop("accept");
    // So that the peer knows when it was accepted, as it does with a connection of rdma_cm.
    if (::send(accepted, "", 1, MSG_NOSIGNAL) != 1) stop("send");
    sockets.push_back(accepted);
  }
  for (const int socket : sockets) {
    await_end(socket);
    ::shutdown(socket, SHUT_WR);
  }
  close_all(sockets);
  return 0;
}

int connect_to(const char* text, int port, std::size_t count) {
  const sockaddr_in address = address_of(text, port);
  const auto begun = Clock::now();
  std::vector<int> sockets;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (sockets.back() < 0) stop("socket");
  }
  const auto connecting = Clock::now();
  for (const int socket : sockets) {
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      stop("connect");
    }
  }
  for (const int socket : sockets) {
    char octet;
    if (::recv(socket, &octet, 1, 0) != 1) stop("recv");
  }
  const double connect = microseconds_each(connecting, count);
  for (const int socket : sockets) ::shutdown(socket, SHUT_WR);
  for (const int socket : sockets) await_end(socket);
  close_all(sockets);
  std::printf("connect %.3f all %.3f\n", connect, microseconds_each(begun, count));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s serve|ADDRESS PORT COUNT\n", words[0]);
    return 2;
  }
  const int port = std::atoi(words[2]);
  const auto connections = static_cast<std::size_t>(std::atoi(words[3]));
  if (std::string_view(words[1]) == "serve") return serve(port, connections);
  return connect_to(words[1], port, connections);
}

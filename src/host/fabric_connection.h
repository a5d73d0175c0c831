// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/descriptor.h"
#include "host/fabric_transfer.h"

namespace verbatim::host {

/// One program at a FabricServer: its socket, the messages that it has not taken yet, and calls
/// that wait for a reply.
///
/// Thread: one.
class FabricConnection {
 public:
  /// What the next messages are.
  enum class Phase : std::uint8_t {
    kGreeting,  // a FabricHello
    kDecision,  // nothing: the owner has not accepted the program yet
    kPort,      // datagrams and calls
    kCommands,  // text
    kEnded,     // nothing any more
  };
  // A program that reads nothing keeps at most so much memory of the fabric busy.
  static constexpr std::size_t kWaitingMessagesMax = 65'536;
  static constexpr std::size_t kWaitingOctetsMax = 2 * kUserMadOctetsMax;

  explicit FabricConnection(Descriptor socket) noexcept : socket_(std::move(socket)) {}

  Phase phase = Phase::kGreeting;
  std::uint32_t epoll_events = 0;  // what the epoll of the server waits for

  [[nodiscard]] int socket() const noexcept { return socket_.number(); }
  [[nodiscard]] bool has_waiting() const noexcept { return !waiting_.empty(); }

  /// False: too much waits already, or there is no memory; the message was dropped.
  bool send(const UserMadHeader& header, std::span<const std::byte> message);
  bool send(std::span<const std::byte> head, std::span<const std::byte> rest, int descriptor = -1);
  /// Sends what had to wait.
  void flush();

  /// Keeps the socket for the reply and returns the number of the call.
  [[nodiscard]] std::uint32_t add_call(Descriptor reply_to);
  void reply(std::uint32_t call, const FabricReply& reply);

 private:
  struct Waiting {
    bool is_datagram = false;
    UserMadHeader header;
    std::vector<std::byte> octets;
    Descriptor descriptor;
  };
  static constexpr std::size_t kCallsMax = 64;

  [[nodiscard]] bool keep(Waiting message);
  [[nodiscard]] Transfer transfer(const Waiting& message) const noexcept;

  Descriptor socket_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_octets_ = 0;
  std::unordered_map<std::uint32_t, Descriptor> calls_;
  std::uint32_t next_call_ = 1;
};

}  // namespace verbatim::host

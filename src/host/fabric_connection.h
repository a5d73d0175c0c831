// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/octet_budget.h"
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
    kData,      // a FabricClaim
    kEnded,     // nothing any more
  };
  // A program that reads nothing keeps at most so much memory of the fabric busy, and beyond
  // kOwnOctets only what is left of the budget that all programs share.
  static constexpr std::size_t kWaitingMessagesMax = 65'536;
  static constexpr std::size_t kOwnOctets = std::size_t{1} << 20;
  static constexpr std::size_t kWaitingOctetsMax = kUserMadOctetsMax;

  /// `process`: that has connected; 0: not known.
  FabricConnection(Descriptor socket, pid_t process, OctetBudget& shared) noexcept
      : socket_(std::move(socket)), process_(process), shared_(shared), files_(shared) {}

  Phase phase = Phase::kGreeting;
  std::uint32_t epoll_events = 0;  // what the epoll of the server waits for
  std::uint32_t node = 0;          // whose changes it is told of, in kData

  [[nodiscard]] int socket() const noexcept { return socket_.number(); }
  [[nodiscard]] pid_t process() const noexcept { return process_; }
  [[nodiscard]] bool has_waiting() const noexcept { return !waiting_.empty(); }

  /// False: too much waits already, or there is no memory; the message was dropped.
  bool send(const UserMadHeader& header, std::span<const std::byte> message);
  bool send(std::span<const std::byte> head, std::span<const std::byte> rest, int descriptor = -1);
  /// Sends what had to wait.
  void flush();
  /// Tells the program that its node has changed, if it has taken all that it was told before.
  void tell_news() noexcept;

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
  [[nodiscard]] Transfer transfer(const Waiting& message) noexcept;
  [[nodiscard]] Transfer transfer(const UserMadHeader& header,
                                  std::span<const std::byte> message) noexcept;
  [[nodiscard]] bool has_room_for_file(std::size_t octets) noexcept;
  [[nodiscard]] bool has_taken_all() const noexcept;

  Descriptor socket_;
  pid_t process_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_octets_ = 0;
  HeldOctets shared_;  // beyond kOwnOctets, by `waiting_`
  HeldOctets files_;   // of memory files in the socket, which the program has not taken yet
  std::unordered_map<std::uint32_t, Descriptor> calls_;
  std::uint32_t next_call_ = 1;
};

}  // namespace verbatim::host

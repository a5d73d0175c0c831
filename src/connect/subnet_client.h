// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "device/fabric_port.h"
#include "host/fabric_message.h"
#include "host/own_descriptor.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"

namespace verbatim::connect {

/// Names a request to subnet administration, for as long as it waits for its answer.
enum class SubnetToken : std::uint32_t {};

/// What became of a request.
struct SubnetAnswer {
  SubnetToken token{};
  bool is_answered = false;  // false: nothing came within the time, or the fabric has ended
  std::array<std::byte, wire::Mad::kSize> octets{};  // of the answer
};

/// A connection of this process to its fabric, as an agent of the class of subnet administration.
/// The fabric repeats requests and gives them up, as a kernel does. It also knows the nodes by
/// their addresses, leaves multicast groups when this process has ended (GroupKeeper in
/// tools/fabric), and tells of other processes that have ended.
///
/// open() and find_node() wait for the fabric, at most host::kFabricPatienceMs for each of their
/// messages, and are called without locks. open() under a ForkPause.
/// All others return at once: one thread at a time.
class SubnetClient {
 public:
  static constexpr std::size_t kOutstandingMax = 16'384;
  /// How often a request is sent, in equal parts of its time.
  static constexpr std::uint32_t kAttempts = 10;
  /// How much longer than its time a request can last. The fabric gives it up before, if it runs.
  static constexpr Duration kGrace = std::chrono::seconds(1);
  static constexpr Duration kPatienceMax = std::chrono::minutes(10);

  /// To the fabric that the environment names.
  [[nodiscard]] static Expected<SubnetClient> open(const device::FabricPort& port);
  SubnetClient() noexcept = default;

  /// Readable when receive() is to be called; -1: not open. It stays the same when the fabric has
  /// ended, because another thread may be in find_node(); it is always readable then.
  [[nodiscard]] int descriptor() const noexcept { return connection_.number(); }
  [[nodiscard]] bool is_open() const noexcept { return connection_.is_open(); }
  /// The fabric has ended, or the program has closed the descriptor: nothing is answered any more.
  [[nodiscard]] bool has_ended() const noexcept {
    return has_ended_ || !connection_.is_still_own();
  }
  /// The GID of the node with this IPv4 address, in host byte order. kNoSuchObject: there is none.
  [[nodiscard]] static Expected<wire::Gid> find_node(int descriptor, std::uint32_t address);
  /// Sends a request to the subnet administration of `port`. Without one, or if the fabric has
  /// ended, the answer is there at once: none. kNoMemory: too many are outstanding.
  [[nodiscard]] Expected<SubnetToken> post(Instant now, const device::FabricPort& port,
                                           std::span<const std::byte, wire::Mad::kSize> octets,
                                           Duration patience);
  void receive();
  void handle_timeout(Instant now);
  [[nodiscard]] Instant next_timeout() const noexcept;
  [[nodiscard]] std::optional<SubnetAnswer> poll_answer();
  /// A process of the fabric that has ended.
  [[nodiscard]] std::optional<host::FabricDeparture> poll_departure();
  [[nodiscard]] bool has_answers() const noexcept { return !answers_.empty(); }

 private:
  struct Outstanding {
    SubnetToken token{};
    Instant deadline{};
  };
  void give_up(SubnetToken token);
  void give_up_all();
  bool forget(SubnetToken token) noexcept;
  void take(std::span<const std::byte> message);

  host::OwnDescriptor connection_;
  bool has_ended_ = false;
  std::uint32_t agent_ = 0;
  std::uint32_t next_token_ = 1;
  std::vector<Outstanding> outstanding_;
  std::deque<SubnetAnswer> answers_;
  std::deque<host::FabricDeparture> departures_;
};

}  // namespace verbatim::connect

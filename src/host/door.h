// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/expected.h"
#include "host/attach_message.h"
#include "host/challenge.h"
#include "host/credentials.h"
#include "host/own_descriptor.h"
#include "host/unix_listener.h"

namespace verbatim::host {

/// The UNIX socket at which the other processes of this user attach to this one, at the UNIX name
/// `<slot>.attach`. Each gets descriptors of what it may map, and keeps the connection; the kernel
/// closes the connection when that process ends. A process of another user cannot connect, because
/// the name is in a directory that is closed to it. A process that connects is let in
///   1. when it has the user and the group that this process had when the door was opened, and this
///      process still has them and is dumpable;
///   2. when it meets a Challenge: then the kernel lets it look into this process;
///   3. as a peer, when the kernel also lets this process look into it, because requests go both
///      ways.
/// All of this is checked when the proof has arrived, not before.
///
/// Viewers (AttachMessage::kViewer) get only the segment, and serve() does not report their end. A
/// process that admits no peers has the name `<slot>.view` instead.
///
/// When this process has no descriptor left, a new connection is refused.
///
/// Thread: one at a time.
class Door {
 public:
  /// The caller keeps the descriptors open.
  struct Offer {
    int segment = -1;
    int bell = -1;              // an eventfd that wakes this process
    int arena = -1;             // registered memory that peers may map; -1: none
    bool admits_peers = true;   // else viewers only
    bool lends_memory = false;  // peers get a descriptor of this process's address space
  };

  Door() noexcept = default;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() { close(); }

  /// Its sockets are added to `epoll`. kAddressInUse when the name is taken.
  [[nodiscard]] Status open(std::uint32_t slot, int epoll, const Offer& offer) noexcept;
  void close() noexcept;
  [[nodiscard]] bool is_ours(int descriptor) const noexcept;

  /// Called with each message of an admitted peer, and with the connection for the answer.
  using Handler = std::function<void(std::span<const std::byte>, int)>;
  void set_handler(Handler handler) { handler_ = std::move(handler); }

  /// Accepts, reads and answers. Returns the slots of peers whose connection has ended since.
  [[nodiscard]] std::vector<std::uint32_t> serve();

 private:
  struct Connection {
    OwnDescriptor descriptor;
    std::uint32_t slot = 0;
    enum class State : std::uint8_t {
      kSilent,      // has sent nothing
      kChallenged,  // has sent its slot, and must prove that it may be let in
      kAdmitted,    // has got the descriptors
    };
    State state = State::kSilent;
    [[nodiscard]] bool is_admitted() const noexcept { return state == State::kAdmitted; }
    [[nodiscard]] bool is_viewer() const noexcept { return slot == AttachMessage::kViewer; }
    [[nodiscard]] bool is_peer() const noexcept { return is_admitted() && !is_viewer(); }
  };
  void accept_all();
  /// False when the connection has ended, or has sent something unexpected.
  [[nodiscard]] bool read_from(Connection& connection);
  [[nodiscard]] bool challenge(Connection& connection, std::span<const std::byte> hello) noexcept;
  [[nodiscard]] bool let_in(Connection& connection, std::span<const std::byte> proof) noexcept;
  [[nodiscard]] bool may_be_let_in(const Connection& connection) const noexcept;
  [[nodiscard]] bool has_room_for_viewers() const noexcept;
  [[nodiscard]] bool answer(const Connection& connection) const noexcept;
  void watch(int descriptor) const noexcept;

  std::uint32_t slot_ = 0;
  int epoll_ = -1;  // the caller's
  UnixListener listener_;
  Credentials own_{};  // of this process when the door was opened
  Offer offer_;
  std::vector<Connection> connections_;
  Challenge challenge_;  // open while connections are challenged; then the next secret is another
  Handler handler_;
  std::vector<std::byte> message_;
};

}  // namespace verbatim::host

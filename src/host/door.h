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
#include "host/listener.h"
#include "host/own_descriptor.h"

namespace verbatim::host {

/// Where the other processes of this user attach to this one (the UNIX name `<slot>.attach`): each
/// gets descriptors of what it may map, and keeps the connection, so that its end tells of its
/// death. A process of another user cannot connect, because the name is in a directory that is
/// closed to it. A process that connects is let in
///   1. when it has the user and the group that we had when the door was opened, and ours are the
///      same still, and we are dumpable;
///   2. when it meets a Challenge: then the kernel lets it look into this process;
///   3. as a peer, when the kernel lets us look into it as well: requests go both ways.
/// All of it is looked at when the proof has arrived, not before.
///
/// Viewers (AttachMessage::kViewer) get the segment alone, and that they come and go is not
/// reported. A process that lets no peers in shows itself at `<slot>.view`.
///
/// A process that has no descriptor left for a guest refuses it.
///
/// Thread: one at a time.
class Door {
 public:
  /// The descriptors stay the caller's.
  struct Offer {
    int segment = -1;
    int bell = -1;              // an eventfd that wakes us
    int arena = -1;             // registered memory that peers may map; -1: none
    bool admits_peers = true;   // else viewers only
    bool lends_memory = false;  // peers get a descriptor of our address space
  };

  Door() noexcept = default;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() { close(); }

  /// Its sockets are added to `epoll`. kAddressInUse when the name is taken.
  [[nodiscard]] Status open(std::uint32_t slot, int epoll, const Offer& offer) noexcept;
  void close() noexcept;
  [[nodiscard]] bool is_ours(int descriptor) const noexcept;

  /// What a guest says once it is in, and the connection to answer through.
  using Hearer = std::function<void(std::span<const std::byte>, int)>;
  void set_hearer(Hearer hearer) { hearer_ = std::move(hearer); }

  /// Answers who knocked. Returns the slots whose process has gone since.
  [[nodiscard]] std::vector<std::uint32_t> serve();

 private:
  struct Guest {
    OwnDescriptor descriptor;
    std::uint32_t slot = 0;
    enum class State : std::uint8_t {
      kSilent,      // has said nothing
      kChallenged,  // has said its slot, and is to prove that it may be let in
      kKnown,       // has got the descriptors
    };
    State state = State::kSilent;
    [[nodiscard]] bool is_known() const noexcept { return state == State::kKnown; }
    [[nodiscard]] bool is_viewer() const noexcept { return slot == AttachMessage::kViewer; }
    [[nodiscard]] bool is_peer() const noexcept { return is_known() && !is_viewer(); }
  };
  void accept_all();
  /// False when the guest has left, or said something else.
  [[nodiscard]] bool listen_to(Guest& guest);
  [[nodiscard]] bool challenge(Guest& guest, std::span<const std::byte> hello) noexcept;
  [[nodiscard]] bool let_in(Guest& guest, std::span<const std::byte> proof) noexcept;
  [[nodiscard]] bool may_be_let_in(const Guest& guest) const noexcept;
  [[nodiscard]] bool has_room_for_viewers() const noexcept;
  [[nodiscard]] bool answer(const Guest& guest) const noexcept;
  void watch(int descriptor) const noexcept;

  std::uint32_t slot_ = 0;
  int epoll_ = -1;  // the caller's
  Listener listener_;
  Credentials own_{};  // when it was opened
  Offer offer_;
  std::vector<Guest> guests_;
  Challenge challenge_;  // open while guests are challenged; the next ones get another secret
  Hearer hearer_;
  std::vector<std::byte> saying_;
};

}  // namespace verbatim::host

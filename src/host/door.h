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
#include "host/credentials.h"
#include "host/listener.h"

namespace verbatim::host {

/// Where the other processes of this user attach to this one (the UNIX name `<slot>.attach`): each
/// gets descriptors of what it may map, and keeps the connection, so that its end tells of its
/// death. A process of another user cannot connect, because the name is in a directory that is
/// closed to it; one that has another user or group than we had when the door was opened is
/// refused; and so are all others once our own have changed, or we are no longer dumpable.
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
    int descriptor = -1;
    std::uint32_t slot = 0;
    bool is_known = false;  // has said who it is, and was answered
    [[nodiscard]] bool is_peer() const noexcept {
      return is_known && slot != AttachMessage::kViewer;
    }
  };
  void accept_all();
  /// False when the guest has left, or said something else.
  [[nodiscard]] bool listen_to(Guest& guest);
  [[nodiscard]] bool let_in(Guest& guest, std::span<const std::byte> hello) noexcept;
  [[nodiscard]] bool has_room_for_viewers() const noexcept;
  [[nodiscard]] bool answer(const Guest& guest, bool is_welcome) const noexcept;
  void watch(int descriptor) const noexcept;

  std::uint32_t slot_ = 0;
  int epoll_ = -1;  // the caller's
  Listener listener_;
  Credentials own_{};  // when it was opened
  Offer offer_;
  std::vector<Guest> guests_;
  Hearer hearer_;
  std::vector<std::byte> saying_;
};

}  // namespace verbatim::host

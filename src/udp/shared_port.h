// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "host/slot.h"
#include "host/socket_share.h"
#include "udp/port_lender.h"
#include "udp/udp_socket.h"

namespace verbatim::link {

/// UDP port 4791 as the processes of one user share it (docs/decisions/0007): at each address there
/// is one socket per slot, and the n-th that was bound is slot n's, because that is how the
/// steering program names them. Every process holds all of them, so the order outlives each of
/// them.
///
/// A newcomer takes the lowest slot that it can serve at all of its addresses: one whose socket it
/// was given, or one behind all sockets there are. What lies between is filled with sockets that
/// wait for an owner. So it also gets in, without waiting for anybody, while all others are
/// stopped.
///
/// Where another user has the port already, sockets are borrowed from one of its processes
/// (docs/decisions/0025), and the slot is one of those that were lent.
class SharedPort {
 public:
  /// How far a newcomer has come; for tests, which end it there.
  enum class Step : std::uint8_t {
    kLocked,     // is the only one that changes anything
    kAsked,      // has got the sockets of the others
    kClaimed,    // has a slot
    kBound,      // has bound a socket (comes once for each)
    kListening,  // is there for others, and has told them
  };
  struct Options {
    Duration lock_patience = std::chrono::seconds(10);
    Duration peer_patience = std::chrono::milliseconds(100);  // before the next peer is asked, too
    Duration answer_patience = std::chrono::milliseconds(1000);  // for all of them
    bool lends = true;  // sockets to other users, where this user has the port
    void (*at_step)(Step) = nullptr;
  };
  struct Place {
    host::Slot slot;
    std::vector<Receiver> receivers;
  };

  SharedPort() = default;

  /// Addresses that this host does not have are left out; kNoDevice when that leaves none.
  /// kAddressInUse when another user has the port on one of them and lends no socket, or something
  /// else has it. kTimedOut
  /// when a process has been joining for too long, because it is stopped. kNoMemory when all slots
  /// are taken. `message` says what happened, and what to do about it.
  [[nodiscard]] Expected<Place> join(std::span<const LocalAddress> addresses, std::string& message,
                                     const Options& options);
  [[nodiscard]] Expected<Place> join(std::span<const LocalAddress> addresses,
                                     std::string& message) {
    return join(addresses, message, Options());
  }
  /// Sockets of `slot`, which is ours, at addresses that have come since; with the same errors, and
  /// kBusy when another process has the socket that belongs to the slot and cannot be asked for it.
  /// All or none. Waits for others as join() does.
  [[nodiscard]] Expected<std::vector<Receiver>> extend(std::span<const LocalAddress> addresses,
                                                       std::uint32_t slot, std::string& message,
                                                       const Options& options);
  [[nodiscard]] Expected<std::vector<Receiver>> extend(std::span<const LocalAddress> addresses,
                                                       std::uint32_t slot, std::string& message) {
    return extend(addresses, slot, message, Options());
  }
  /// How full the receive buffer of a slot's socket is, in the system's count; nothing when we do
  /// not have that socket. Never waits: while the sockets change hands, it is full.
  struct Fill {
    std::size_t used = 0;
    std::size_t limit = 0;
  };
  [[nodiscard]] std::optional<Fill> fill_of(const LocalAddress& address,
                                            std::uint32_t slot) noexcept;

  /// Whose the queue pairs of a slot at an address are. The same slot may be this user's at one
  /// address and another user's at the next. Never waits.
  enum class Whose : std::uint8_t {
    kThisUsers,
    kAnotherUsers,
    kNotKnown,  // this process does not hold the slot's socket
    kBusy,      // the sockets change hands: ask again later
  };
  [[nodiscard]] Whose whose(const LocalAddress& address, std::uint32_t slot) noexcept;

  /// Give up the slot after this, or others would read its sockets, too.
  void leave() noexcept { share_.close(); }

  /// Held while the process forks.
  [[nodiscard]] std::mutex& mutex() noexcept { return share_.mutex(); }
  void abandon_in_child() noexcept { share_.abandon_in_child(); }

 private:
  struct Group;

  [[nodiscard]] std::vector<Group> groups_of(std::span<const LocalAddress> addresses);
  [[nodiscard]] Expected<std::vector<Receiver>> take_receivers(std::span<Group> groups,
                                                               std::uint32_t slot,
                                                               std::string& message,
                                                               const Options& options);
  [[nodiscard]] Expected<std::vector<Receiver>> try_to_extend(
      std::span<const LocalAddress> addresses, std::uint32_t slot, std::string& message,
      const Options& options);
  [[nodiscard]] Expected<Place> try_to_join(std::span<const LocalAddress> addresses,
                                            std::string& message, const Options& options);
  /// Returns how many processes of this user there are.
  std::size_t gather(std::span<Group> groups, std::optional<std::uint32_t> own,
                     const Options& options);
  [[nodiscard]] static bool is_held_by_others_of_this_user(std::span<const Group> groups,
                                                           std::string& message);
  [[nodiscard]] bool holds_all(std::span<const Group> groups) const noexcept;
  [[nodiscard]] Status borrow_first(std::span<Group> groups, std::string& message,
                                    const Options& options);
  [[nodiscard]] bool borrow_more(std::span<Group> groups, const Options& options);
  [[nodiscard]] std::size_t borrow(const Group& group, const Options& options);
  [[nodiscard]] bool is_fit(const Group& group, std::uint32_t slot) const noexcept;
  [[nodiscard]] Expected<host::Slot> claim_slot(std::span<const Group> groups,
                                                std::string& message) const;
  [[nodiscard]] Status fill(Group& group, std::uint32_t slot, std::string& message,
                            const Options& options);
  [[nodiscard]] static Errc explain_refusal(const Group& group, Errc error, std::string& message);
  [[nodiscard]] Expected<Receiver> receiver_of(const Group& group, std::uint32_t slot);

  host::SocketShare share_;
  std::optional<PortLender> lender_;
  std::uint32_t slot_ = 0;  // ours, once we have joined
};

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
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

/// UDP port 4791 as the processes of one user share it (docs/decisions/0007). At each address there
/// is one socket per slot. The n-th socket that was bound belongs to slot n, because the steering
/// program names sockets by this number. Every process holds all of them, so the order does not
/// change when a process ends.
///
/// A process that joins takes the lowest slot that it can serve at all of its addresses: a slot
/// whose socket another process gave it, or one beyond all sockets that exist. For slots between
/// those it binds sockets, too, which wait for a process. So a process can join while all others
/// are stopped.
///
/// Where another user has the port already, sockets are borrowed from one of its processes
/// (docs/decisions/0025), and the slot is one of those that were lent.
class SharedPort {
 public:
  /// How far a process that joins has come. Tests end a process at each step.
  enum class Step : std::uint8_t {
    kLocked,     // is the only process that changes the sockets
    kAsked,      // has got the sockets of the other processes
    kClaimed,    // has a slot
    kBound,      // has bound a socket (once for each)
    kListening,  // answers other processes, and has told them so
  };
  struct Options {
    Duration lock_patience = std::chrono::seconds(10);
    Duration peer_patience = std::chrono::milliseconds(100);  // before the next peer is asked, too
    Duration answer_patience = std::chrono::milliseconds(1000);  // for all of them
    bool lends = true;  // lends sockets to other users, where this user has the port
    void (*at_step)(Step) = nullptr;
  };
  struct Place {
    host::Slot slot;
    std::vector<ReceivingSocket> receivers;
  };

  SharedPort() = default;

  /// Addresses that this host does not have are left out; kNoDevice when that leaves none.
  /// kAddressInUse when another user has the port on one of them and lends no socket, or another
  /// program has it. kTimedOut when another process has been joining for too long, because it is
  /// stopped. kNoMemory when all slots are taken. `message` says what happened, and what to do
  /// about it.
  [[nodiscard]] Expected<Place> join(std::span<const LocalAddress> addresses, std::string& message,
                                     const Options& options);
  [[nodiscard]] Expected<Place> join(std::span<const LocalAddress> addresses,
                                     std::string& message) {
    return join(addresses, message, Options());
  }
  /// Sockets of `slot`, the slot of this process, at further addresses. The errors are those of
  /// join(), and kBusy when another process holds the socket of the slot and does not answer.
  /// Returns all sockets or none. Waits for other processes as join() does.
  [[nodiscard]] Expected<std::vector<ReceivingSocket>> extend(
      std::span<const LocalAddress> addresses, std::uint32_t slot, std::string& message,
      const Options& options);
  [[nodiscard]] Expected<std::vector<ReceivingSocket>> extend(
      std::span<const LocalAddress> addresses, std::uint32_t slot, std::string& message) {
    return extend(addresses, slot, message, Options());
  }
  /// How full the receive buffer of a slot's socket is, as the system counts; nothing when this
  /// process does not hold the socket. Never waits: while another thread exchanges sockets, the
  /// buffer counts as full.
  struct Fill {
    std::size_t used = 0;
    std::size_t limit = 0;
  };
  [[nodiscard]] std::optional<Fill> fill_of(const LocalAddress& address,
                                            std::uint32_t slot) noexcept;

  /// Which user the queue pairs of a slot at an address belong to. The same slot may belong to this
  /// user at one address and to another user at the next. Never waits.
  enum class SlotUser : std::uint8_t {
    kThisUser,
    kAnotherUser,
    kNotKnown,  // this process does not hold the slot's socket
    kBusy,      // another thread exchanges sockets: ask again later
  };
  [[nodiscard]] SlotUser user_of(const LocalAddress& address, std::uint32_t slot) noexcept;

  /// Give up the slot only after this: another process that gets the slot reads its sockets.
  void leave() noexcept { share_.close(); }

  /// Held while the process forks.
  [[nodiscard]] Mutex& mutex() noexcept { return share_.mutex(); }
  void abandon_in_child() noexcept { share_.abandon_in_child(); }

 private:
  struct Group;

  [[nodiscard]] std::vector<Group> groups_of(std::span<const LocalAddress> addresses);
  [[nodiscard]] Expected<std::vector<ReceivingSocket>> take_receivers(std::span<Group> groups,
                                                                      std::uint32_t slot,
                                                                      std::string& message,
                                                                      const Options& options);
  [[nodiscard]] Expected<std::vector<ReceivingSocket>> try_to_extend(
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
  [[nodiscard]] Expected<ReceivingSocket> receiver_of(const Group& group, std::uint32_t slot);

  host::SocketShare share_;
  std::optional<PortLender> lender_;
  std::uint32_t slot_ = 0;  // of this process, after join()
};

}  // namespace verbatim::link

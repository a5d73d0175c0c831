// SPDX-License-Identifier: Apache-2.0
#include "udp/shared_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "host/lending_desk.h"
#include "host/opening_lock.h"
#include "host/runtime_directory.h"
#include "host/users.h"
#include "udp/lent_socket.h"
#include "udp/socket_address.h"
#include "udp/udp_link.h"
#include "udp/udp_table.h"

namespace verbatim::link {

namespace {

constexpr int kAttempts = 4;               // when processes end while one joins
constexpr int kDesksAskedAtOnce = 4;       // of another user, in the patience for one peer
constexpr int kStalePacketsMax = 1 << 16;  // discarded at most

std::string port_text() { return "UDP port " + std::to_string(kRocePort); }

/// Discards packets for a process that has ended.
void throw_away_what_waits(int socket) noexcept {
  for (int count = 0; count < kStalePacketsMax; ++count) {
    char nothing = 0;
    if (::recv(socket, &nothing, 0, MSG_DONTWAIT | MSG_TRUNC) < 0) return;
  }
}

bool is_bound_to(int socket, const LocalAddress& address) noexcept {
  SocketAddress name{};
  socklen_t octets = sizeof name;
  return ::getsockname(socket, &name.base, &octets) == 0 && gid_of(name) == address.gid &&
         port_of(name) == kRocePort;
}

bool is_of_this_host(const LocalAddress& address) noexcept {
  const auto probe = UdpSocket::open_sender(address, 0);
  return probe || probe.error() != Errc::kNoDevice;
}

std::string text_of(const LocalAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_ipv4 = address.gid.is_ipv4_mapped();
  (void)::inet_ntop(is_ipv4 ? AF_INET : AF_INET6, address.gid.octets.data() + (is_ipv4 ? 12 : 0),
                    text.data(), text.size());
  return text.data();
}

/// In a user namespace the lender may see another number for this user. There every lent socket is
/// this user's, because a process in such a namespace lends none itself.
bool is_lent_to_this_user(const LentNote& note) {
  return note.borrower == ::geteuid() || !host::can_tell_users_apart();
}

bool may_be_used_here(const LentNote& note) {
  return note.use == LentNote::Use::kSpare || is_lent_to_this_user(note);
}

host::SocketLabel label_of(const LocalAddress& address, std::uint32_t slot) noexcept {
  return {.address = address.gid.octets,
          .scope = needs_scope(address.gid) ? address.scope : 0,
          .slot = slot};
}

/// The possible reasons why the user that has the port lends no socket.
std::string explain_no_loan(uid_t owner) {
  return host::has_desk(owner)
             ? ". Its processes lend no socket now: they are stopped (continue them: kill -CONT), "
               "or have changed their user id (start another program of that user), or have lent "
               "all sockets, or have started again while other users had the port. Otherwise use "
               "another address, or end all programs that use this one"
             : ", and no process of that user lends a socket: it does not use this adapter, or has "
               "VERBATIM_LEND=0, or has ended while other users still use the address. Use another "
               "address, or end all programs that use this one";
}

void pass(const SharedPort::Options& options, SharedPort::Step step) {
  if (options.at_step != nullptr) options.at_step(step);
}

}  // namespace

/// The sockets of one address.
struct SharedPort::Group {
  LocalAddress address{};
  host::SocketLabel label{};
  std::optional<std::size_t> counted{};  // how many sockets there are, as the system counts
  std::size_t size = 0;                  // as far as this process knows
  bool is_lent = false;                  // another user has the port at this address
  bool counts_exactly = true;

  explicit Group(const LocalAddress& of)
      : address(of), label(label_of(of, 0)), counts_exactly(link::counts_exactly(of)) {}
  void update_size(const host::SocketShare& share) {
    size = share.count_beside(label);
    const auto now_counted = count_sockets(address, kRocePort);
    if (now_counted && counts_exactly) size = *now_counted;
  }
  [[nodiscard]] host::SocketLabel labelled(std::uint32_t slot) const noexcept {
    host::SocketLabel result = label;
    result.slot = slot;
    return result;
  }
};

namespace {

/// One process at a time changes the sockets of the port.
Expected<host::OpeningLock> take_opening_lock(std::string& message,
                                              const SharedPort::Options& options) {
  host::OpeningLock::Holder holder;
  auto lock = host::OpeningLock::take(options.lock_patience, holder);
  if (!lock) {
    const std::string pid = std::to_string(holder.pid);
    message = lock.error() == Errc::kTimedOut
                  ? "process " + pid + " began to open " + port_text() +
                        " and has not finished; if it is stopped, continue it (kill -CONT " + pid +
                        "), or end it"
                  : host::RuntimeDirectory::explain();
    if (message.empty())
      message =
          "the system gives no UNIX socket; check `ulimit -n`, and that a sandbox allows AF_UNIX";
  }
  return lock;
}

}  // namespace

Expected<SharedPort::Place> SharedPort::join(std::span<const LocalAddress> addresses,
                                             std::string& message, const Options& options) {
  const auto lock = take_opening_lock(message, options);
  if (!lock) return lock.error();
  pass(options, Step::kLocked);
  for (int attempt = 1;; ++attempt) {
    auto place = try_to_join(addresses, message, options);
    const bool again = !place && place.error() == Errc::kTryAgain && attempt < kAttempts;
    if (!again) {
      if (!place) share_.close();
      return place;
    }
    share_.start_over();
  }
}

Expected<SharedPort::Place> SharedPort::try_to_join(std::span<const LocalAddress> addresses,
                                                    std::string& message, const Options& options) {
  std::vector<Group> groups = groups_of(addresses);
  if (groups.empty()) {
    message = "none of the device's addresses is one of this host";
    return Errc::kNoDevice;
  }
  if (gather(groups, {}, options) == 0 && is_held_by_others_of_this_user(groups, message)) {
    return Errc::kAddressInUse;
  }
  if (auto borrowed = borrow_first(groups, message, options); !borrowed) return borrowed.error();
  pass(options, Step::kAsked);
  const auto claim = [&] {
    auto first = claim_slot(groups, message);
    const bool may_get_more = !first && first.error() == Errc::kNoMemory;
    return may_get_more && borrow_more(groups, options) ? claim_slot(groups, message)
                                                        : std::move(first);
  };
  auto slot = claim();
  if (!slot) return slot.error();
  pass(options, Step::kClaimed);

  auto receivers = take_receivers(groups, slot->number(), message, options);
  if (!receivers) return receivers.error();
  slot_ = slot->number();
  if (options.lends) {
    lender_.emplace(share_, slot->number());
    share_.set_lender([this](const host::LendingMessage& question, uid_t borrower) {
      return lender_->lend(question, borrower);
    });
  }
  if (auto served = share_.serve(slot->number()); !served) {
    message = served.error() == Errc::kAddressInUse
                  ? "another process of this user holds the name of slot " +
                        std::to_string(slot->number()) + " at " + port_text() +
                        " and does not hold the slot; end it (`verbatim stat` shows processes)"
                  : "the system gives no socket or thread to share " + port_text() +
                        "; check `ulimit -n`, `ulimit -u` and `ulimit -v`";
    return served.error();
  }
  pass(options, Step::kListening);
  return Place{.slot = std::move(*slot), .receivers = std::move(*receivers)};
}

Expected<std::vector<ReceivingSocket>> SharedPort::extend(std::span<const LocalAddress> addresses,
                                                          std::uint32_t slot, std::string& message,
                                                          const Options& options) {
  const auto lock = take_opening_lock(message, options);
  if (!lock) return lock.error();
  const LockGuard holding(share_.mutex());
  for (int attempt = 1;; ++attempt) {
    auto receivers = try_to_extend(addresses, slot, message, options);
    const bool again = !receivers && receivers.error() == Errc::kTryAgain && attempt < kAttempts;
    if (!again) return receivers;
  }
}

Expected<std::vector<ReceivingSocket>> SharedPort::try_to_extend(
    std::span<const LocalAddress> addresses, std::uint32_t slot, std::string& message,
    const Options& options) {
  std::vector<Group> groups = groups_of(addresses);
  (void)gather(groups, slot, options);
  if (auto borrowed = borrow_first(groups, message, options); !borrowed) return borrowed.error();
  const auto other = std::find_if_not(groups.begin(), groups.end(),
                                      [&](const Group& group) { return is_fit(group, slot); });
  auto receivers = other == groups.end() ? take_receivers(groups, slot, message, options)
                                         : Expected<std::vector<ReceivingSocket>>(Errc::kBusy);
  if (other != groups.end()) {
    message = "the socket of " + port_text() + " on " + text_of(other->address) +
              " is held by a process that does not answer; continue it or end it";
  }
  share_.serve_more();
  return receivers;
}

/// The addresses that this host has, each once.
std::vector<SharedPort::Group> SharedPort::groups_of(std::span<const LocalAddress> addresses) {
  std::vector<Group> groups;
  for (const LocalAddress& address : addresses) {
    const bool is_known = std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
      return group.address.gid == address.gid;
    });
    if (is_known || !is_of_this_host(address)) continue;
    groups.emplace_back(address);
    share_.want(groups.back().label);
  }
  return groups;
}

Expected<std::vector<ReceivingSocket>> SharedPort::take_receivers(std::span<Group> groups,
                                                                  std::uint32_t slot,
                                                                  std::string& message,
                                                                  const Options& options) {
  for (Group& group : groups) {
    if (auto filled = fill(group, slot, message, options); !filled) return filled.error();
  }
  std::vector<ReceivingSocket> receivers;
  for (const Group& group : groups) {
    auto receiver = receiver_of(group, slot);
    if (!receiver) {
      message = "no descriptor is left for the sockets of " + port_text() + "; raise `ulimit -n`";
      return receiver.error();
    }
    receivers.push_back(std::move(*receiver));
  }
  return receivers;
}

/// Asks the other processes, one after the other, until this process holds every socket. A process
/// that does not answer may be stopped: the next one is asked meanwhile.
std::size_t SharedPort::gather(std::span<Group> groups, std::optional<std::uint32_t> own,
                               const Options& options) {
  using Clock = std::chrono::steady_clock;
  for (Group& group : groups) {
    group.counted = count_sockets(group.address, kRocePort);
    const auto user = user_of_port(group.address, kRocePort);
    group.is_lent = user && *user != ::geteuid();
  }
  const auto end = Clock::now() + options.answer_patience;
  const std::size_t peer_count = share_.find_peers(own);
  for (auto at = Clock::now(); !holds_all(groups) && at < end; at = Clock::now()) {
    const bool asked = share_.ask_next_peer();
    const bool is_owed_something =
        share_.take_answers(std::min<Duration>(options.peer_patience, end - at));
    if (!asked && !is_owed_something) break;
  }
  for (Group& group : groups) group.update_size(share_);
  return peer_count;
}

/// This process cannot get the sockets of such processes, and the places of its own would change
/// when they end. Sockets without a living process of this user belong to a forked child, and do no
/// harm.
bool SharedPort::is_held_by_others_of_this_user(std::span<const Group> groups,
                                                std::string& message) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [](const Group& group) { return group.counted.value_or(0) > 0; });
  if (found == groups.end() || !host::has_desk(::geteuid())) return false;
  message = port_text() + " on " + text_of(found->address) +
            " is in use by processes of this user that this one cannot find: they run in another "
            "container, or have another VERBATIM_DIR; set VERBATIM_DIR for all of them to one "
            "directory of this user that each of them can open";
  return true;
}

/// Of a port that is lent, all sockets of this user: each of its processes holds them all.
bool SharedPort::holds_all(std::span<const Group> groups) const noexcept {
  return std::all_of(groups.begin(), groups.end(), [&](const Group& group) {
    const std::size_t held = share_.count_beside(group.label);
    return group.is_lent ? held > 0 : group.counted && held >= *group.counted;
  });
}

/// Borrows at the addresses where another user has the port and no process of this user holds a
/// socket yet.
Status SharedPort::borrow_first(std::span<Group> groups, std::string& message,
                                const Options& options) {
  for (const Group& group : groups) {
    if (!group.is_lent || share_.count_beside(group.label) > 0 || borrow(group, options) > 0) {
      continue;
    }
    const std::string holder = name_port_holder(group.address, kRocePort);
    message = port_text() + " on " + text_of(group.address) + " is held by " +
              (holder.empty() ? "another program" : holder) +
              explain_no_loan(user_of_port(group.address, kRocePort).value_or(0));
    return Errc::kAddressInUse;
  }
  return Ok{};
}

/// For the case that all lent slots are taken. Returns whether there are more now.
bool SharedPort::borrow_more(std::span<Group> groups, const Options& options) {
  std::size_t count = 0;
  for (const Group& group : groups) {
    if (group.is_lent) count += borrow(group, options);
  }
  return count > 0;
}

/// Returns how many sockets were borrowed. They come from another user, so each one is checked, and
/// a socket that does not fit the question is closed.
std::size_t SharedPort::borrow(const Group& group, const Options& options) {
  const auto held = share_.held_beside(group.label);
  const auto slots = std::ranges::count_if(held, [](const host::SocketShare::Holding& holding) {
    const auto note = note_of(holding.descriptor);
    return note && note->use == LentNote::Use::kSlot;
  });
  const auto lent =
      host::borrow({.question = {.address = group.label, .held = static_cast<std::uint32_t>(slots)},
                    .owner = user_of_port(group.address, kRocePort).value_or(0),
                    .between = options.peer_patience / kDesksAskedAtOnce,
                    .patience = options.answer_patience});
  std::size_t count = 0;
  for (const int descriptor : lent) {
    const auto note = note_of(descriptor);
    const bool is_new = note && note->slot < host::kSlotCount && may_be_used_here(*note) &&
                        is_bound_to(descriptor, group.address) &&
                        share_.find(group.labelled(note->slot)) < 0;
    if (is_new) {
      share_.add(group.labelled(note->slot), descriptor);
      ++count;
    } else {
      ::close(descriptor);
    }
  }
  return count;
}

/// Whether the process in this slot has a socket there, or can bind one. Where this user has the
/// port, a socket with a note is lent to another user, which reads from it.
bool SharedPort::is_fit(const Group& group, std::uint32_t slot) const noexcept {
  const int held = share_.find(group.labelled(slot));
  if (held < 0) return !group.is_lent && slot >= group.size;
  const auto note = note_of(held);
  if (!group.is_lent) return !note;
  return note && note->use == LentNote::Use::kSlot && is_lent_to_this_user(*note);
}

Expected<host::Slot> SharedPort::claim_slot(std::span<const Group> groups,
                                            std::string& message) const {
  for (std::uint32_t number = 0; number < host::kSlotCount; ++number) {
    const bool fits = std::all_of(groups.begin(), groups.end(),
                                  [&](const Group& group) { return is_fit(group, number); });
    if (!fits) continue;
    auto slot = host::Slot::claim(number);
    if (slot) return slot;
    if (slot.error() == Errc::kBusy) continue;
    message =
        "the system gives no UNIX socket; check `ulimit -n`, and that a sandbox allows AF_UNIX";
    return slot.error();
  }
  const bool is_lent = std::ranges::any_of(groups, &Group::is_lent);
  message =
      is_lent
          ? "all places that the owner of " + port_text() +
                " has lent to this user are taken; end some processes of this user"
          : "all " + std::to_string(host::kSlotCount) +
                " places for processes of this user are taken, or no descriptor is left to look; "
                "end some of these processes, or raise `ulimit -n`";
  return Errc::kNoMemory;
}

/// Completes the message of a socket that could not be bound. The port is never treated as lent
/// because of that: a user that borrowed sockets can cause the same error at an address where this
/// user has the port.
Errc SharedPort::explain_refusal(const Group& group, Errc error, std::string& message) {
  if (error != Errc::kAddressInUse) {
    message += " cannot be opened; check `ulimit -n` and that the address is still there";
    return error;
  }
  const auto user = user_of_port(group.address, kRocePort);
  const std::string holder = name_port_holder(group.address, kRocePort);
  if (holder.empty() || (user && *user != ::geteuid())) {  // another user has got the port
    message += " was just taken by another user; try again";
    return Errc::kTryAgain;
  }
  message += " is held by " + holder +
             ", in a socket that does not share the port: one of another program, or one that was "
             "lent to another user whose process has changed it; end that process, or use another "
             "address";
  return Errc::kAddressInUse;
}

/// Binds sockets until there is one for `slot`.
Status SharedPort::fill(Group& group, std::uint32_t slot, std::string& message,
                        const Options& options) {
  if (group.is_lent) return Ok{};  // this user cannot bind there
  std::vector<UdpSocket> made;
  while (group.size + made.size() <= slot) {
    // A single socket needs no program, which costs a tenth of a microsecond per packet. With two
    // sockets, the program must be there before the second is bound.
    auto program = UdpSocket::Program::kFind;
    if (group.size + made.size() == 1) {
      const int first = made.empty() ? share_.find(group.labelled(0)) : made.front().descriptor();
      if (first < 0 || !steer_sockets_beside(first, {})) program = UdpSocket::Program::kBring;
    }
    for (const auto& held : share_.held_beside(group.label)) share_port_again(held.descriptor);
    auto socket = UdpSocket::open_receiver(group.address, kRocePort, program);
    if (!socket) {
      message = port_text() + " on " + text_of(group.address);
      return explain_refusal(group, socket.error(), message);
    }
    made.push_back(std::move(*socket));
    pass(options, Step::kBound);
  }
  // A process may have ended meanwhile whose sockets no other process held. Then the places of the
  // new sockets have changed.
  const auto counted =
      group.counts_exactly ? count_sockets(group.address, kRocePort) : std::optional<std::size_t>();
  if (counted && *counted != group.size + made.size()) {
    message = "processes that share " + port_text() + " keep ending; try again";
    return Errc::kTryAgain;
  }
  for (UdpSocket& socket : made) {
    share_.add(group.labelled(static_cast<std::uint32_t>(group.size++)), socket.release());
  }
  return Ok{};
}

std::optional<SharedPort::Fill> SharedPort::fill_of(const LocalAddress& address,
                                                    std::uint32_t slot) noexcept {
  const std::unique_lock lock(share_.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return Fill{.used = 1, .limit = 1};
  const int socket = share_.find(label_of(address, slot));
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t octets = sizeof memory;
  if (socket < 0 || ::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &octets) != 0) {
    return std::nullopt;
  }
  return Fill{.used = memory[SK_MEMINFO_RMEM_ALLOC], .limit = memory[SK_MEMINFO_RCVBUF]};
}

SharedPort::SlotUser SharedPort::user_of(const LocalAddress& address, std::uint32_t slot) noexcept {
  const std::unique_lock lock(share_.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return SlotUser::kBusy;
  const auto is_lent = [&](int held) { return held >= 0 && note_of(held).has_value(); };
  const int held = share_.find(label_of(address, slot));
  // A borrower holds the slots of its own user only. A lender holds all, and those that it has lent
  // carry a note.
  const bool borrows = is_lent(share_.find(label_of(address, slot_)));
  if (held < 0) return borrows ? SlotUser::kAnotherUser : SlotUser::kNotKnown;
  return borrows == is_lent(held) ? SlotUser::kThisUser : SlotUser::kAnotherUser;
}

/// The share and the receiver have one descriptor each.
Expected<ReceivingSocket> SharedPort::receiver_of(const Group& group, std::uint32_t slot) {
  const int held = share_.find(group.labelled(slot));
  const int copy = ::fcntl(held, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return Errc::kNoMemory;
  ReceivingSocket receiver{.address = group.address, .socket = UdpSocket::adopt(copy)};
  const int own = receiver.socket.descriptor();
  if (!is_bound_to(own, group.address)) return Errc::kInvalidArgument;
  throw_away_what_waits(own);
  receiver.socket.reset_receiver(group.address);
  return receiver;
}

}  // namespace verbatim::link

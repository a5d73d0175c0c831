// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "host/lending_desk.h"
#include "host/own_descriptor.h"
#include "host/share_message.h"
#include "host/wake_pipe.h"

namespace verbatim::host {

/// The sockets that the processes of one user hold together, so that a death closes none of them
/// (docs/decisions/0007). Each process holds a descriptor of every slot's socket of the addresses
/// it uses, gives them to whoever asks, and takes what newcomers bring. It reads none of them.
///
/// First, under the OpeningLock: want(), find_peers(), then ask_next_peer() and take_answers() as
/// long as something is missing, add() what was made; then serve(). From there on a thread of its
/// own answers, whatever the program does; a process that is stopped finds the questions and the
/// sockets that came meanwhile when it goes on.
///
/// Peers are of the same user, or they are not listened to. Processes of other users may ask at a
/// desk of their own, and the lender decides (docs/decisions/0025).
class SocketShare {
 public:
  SocketShare() noexcept = default;
  SocketShare(const SocketShare&) = delete;
  SocketShare& operator=(const SocketShare&) = delete;
  ~SocketShare() { close(); }

  // ---- While opening ----

  /// From now on sockets of this address (its slot means nothing) are kept.
  void want(const SocketLabel& address);
  /// Connects to everybody who serves, but for us at `own`. Returns how many there are.
  std::size_t find_peers(std::optional<std::uint32_t> own = {});
  /// False when all have been asked.
  [[nodiscard]] bool ask_next_peer() noexcept;
  /// Waits until a peer has answered or has left, at most `patience`; false when none of those who
  /// were asked owes an answer any more.
  bool take_answers(Duration patience);
  /// Gives up what an attempt has gathered, sockets and peers.
  void start_over() noexcept;

  /// Takes the descriptor; the peers get it with serve().
  void add(const SocketLabel& label, int descriptor);
  /// The descriptor, which stays ours; -1 when there is none.
  [[nodiscard]] int find(const SocketLabel& label) const noexcept;
  /// How many sockets of this address are held.
  [[nodiscard]] std::size_t count_beside(const SocketLabel& address) const noexcept;

  /// All of this address.
  struct Holding {
    SocketLabel label;
    int descriptor = -1;
  };
  [[nodiscard]] std::vector<Holding> held_beside(const SocketLabel& address) const;

  /// Who answers the questions of other users' processes, on the thread and with mutex() held. Call
  /// it before serve(); without it they are not listened to.
  void set_lender(LendingDesk::Lender lender) { lender_ = std::move(lender); }

  /// Is there for others at the name of `slot`, and tells all peers what was added. kNoMemory when
  /// the system gives no socket or no thread; kAddressInUse when the name is taken.
  [[nodiscard]] Status serve(std::uint32_t slot);

  // ---- Afterwards ----

  /// What was done while opening may be done again for more addresses, under the OpeningLock and
  /// with mutex() held; then this, which tells the peers what was added.
  void serve_more() noexcept;

  void close() noexcept;
  /// Held while a process forks, so that the child finds everything in order.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  /// In a forked child, with the lock held: closes the child's descriptors; it has no thread.
  void abandon_in_child() noexcept;

 private:
  struct Held {
    SocketLabel label;
    OwnDescriptor descriptor;
    bool is_news = false;  // the peers have not got it from us yet
  };
  struct Connection {
    OwnDescriptor descriptor;
    bool is_ours = false;       // we connected; the other end closes it when it is content
    bool was_asked = false;     // has got our question
    bool owes_answer = false;   // and has not answered it
    bool has_question = false;  // waits for our answer
    bool is_done = false;       // has told us all that it wanted to tell
    std::vector<SocketLabel> question{};  // the addresses that it asked about
  };

  void run() noexcept;
  void serve_all() noexcept;
  void accept_all() noexcept;
  void read_all();
  void read(Connection& connection);
  void handle(Connection& connection, const ShareMessage& message);
  void keep(const ShareMessage& message, std::span<const int> descriptors);
  [[nodiscard]] bool lacks_any() const noexcept;
  [[nodiscard]] bool wants(const SocketLabel& label) const noexcept;
  void ask(Connection& connection) noexcept;
  [[nodiscard]] bool send_held(Connection& connection, bool news_only) noexcept;
  void drop_closed() noexcept;
  void announce() noexcept;
  void close_all() noexcept;

  std::mutex mutex_;  // guards all below once the thread runs
  std::vector<SocketLabel> wanted_;
  uid_t user_ = 0;  // that opened the port; the process may have given it up since
  std::vector<Held> held_;
  std::vector<Connection> connections_;  // oldest first
  OwnDescriptor listener_;
  WakePipe bell_;                         // wakes the thread up
  bool is_closing_ = false;               // the thread is to end
  bool is_short_of_descriptors_ = false;  // the thread's own: it could not accept
  LendingDesk::Lender lender_;
  LendingDesk desk_;
  std::thread thread_;
};

}  // namespace verbatim::host

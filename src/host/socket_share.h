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

/// The sockets that the processes of one user hold in common, so that the end of a process closes
/// none of them (docs/decisions/0007). Each process holds a descriptor of every slot's socket at
/// the addresses that it uses, sends them to processes that ask, and takes the sockets of new
/// processes. It reads from none of them.
///
/// Order of calls: first, under the OpeningLock: want(), find_peers(), then ask_next_peer() and
/// take_answers() as long as a socket is missing, add() for each new socket; then serve(). From
/// then on a thread of this class answers, whatever the program does. A process that was stopped
/// handles the questions and sockets that came meanwhile when it goes on.
///
/// Messages of processes of other users are ignored. Those processes may ask at a LendingDesk, and
/// the lender decides (docs/decisions/0025).
class SocketShare {
 public:
  SocketShare() noexcept = default;
  SocketShare(const SocketShare&) = delete;
  SocketShare& operator=(const SocketShare&) = delete;
  ~SocketShare() { close(); }

  // ---- While opening ----

  /// From now on sockets of this address are kept. The slot of `address` is not used.
  void want(const SocketLabel& address);
  /// Connects to every process that serves, except to this one at `own`. Returns how many there
  /// are.
  std::size_t find_peers(std::optional<std::uint32_t> own = {});
  /// False when all peers have been asked.
  [[nodiscard]] bool ask_next_peer() noexcept;
  /// Waits until a peer has answered or has closed its connection, at most `patience`; false when
  /// no peer that was asked still owes an answer.
  bool take_answers(Duration patience);
  /// Closes the sockets and the connections of an attempt.
  void start_over() noexcept;

  /// Takes the descriptor; serve() sends it to the peers.
  void add(const SocketLabel& label, int descriptor);
  /// The descriptor, which this object keeps; -1 when there is none.
  [[nodiscard]] int find(const SocketLabel& label) const noexcept;
  /// How many sockets of this address are held.
  [[nodiscard]] std::size_t count_beside(const SocketLabel& address) const noexcept;

  /// A socket of one address.
  struct Holding {
    SocketLabel label;
    int descriptor = -1;
  };
  [[nodiscard]] std::vector<Holding> held_beside(const SocketLabel& address) const;

  /// Sets the function that decides on the questions of other users' processes. The thread of this
  /// class calls it with mutex() held. Call this before serve(); without it such processes cannot
  /// ask.
  void set_lender(LendingDesk::Lender lender) { lender_ = std::move(lender); }

  /// Opens the name of `slot`, at which other processes ask, and sends the added sockets to all
  /// peers. kNoMemory when the system gives no socket or no thread; kAddressInUse when the name is
  /// taken.
  [[nodiscard]] Status serve(std::uint32_t slot);

  // ---- Afterwards ----

  /// The calls of opening may be made again for more addresses, under the OpeningLock and with
  /// mutex() held. Then this sends the added sockets to the peers.
  void serve_more() noexcept;

  void close() noexcept;
  /// Held while the process forks, so that the child finds the data consistent.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  /// In a forked child, with the lock held: closes the child's descriptors. The thread does not
  /// exist there.
  void abandon_in_child() noexcept;

 private:
  struct Held {
    SocketLabel label;
    OwnDescriptor descriptor;
    bool is_news = false;  // not sent to the peers yet
  };
  struct Connection {
    OwnDescriptor descriptor;
    bool is_ours = false;       // this process connected; the other end closes it when it is done
    bool was_asked = false;     // a question was sent
    bool owes_answer = false;   // and was not answered yet
    bool has_question = false;  // waits for the answer of this process
    bool is_done = false;       // the peer has sent all that it wants to send
    std::vector<SocketLabel> question{};  // the addresses that the peer asked about
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

  std::mutex mutex_;  // guards all members below once the thread runs
  std::vector<SocketLabel> wanted_;
  uid_t user_ = 0;  // the user that opened the port; the process may have given it up since
  std::vector<Held> held_;
  std::vector<Connection> connections_;  // oldest first
  OwnDescriptor listener_;
  WakePipe bell_;                         // wakes the thread up
  bool is_closing_ = false;               // the thread must end
  bool is_short_of_descriptors_ = false;  // of the thread alone: it could not accept
  LendingDesk::Lender lender_;
  LendingDesk desk_;
  std::thread thread_;
};

}  // namespace verbatim::host

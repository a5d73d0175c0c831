// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "host/lending_message.h"
#include "host/own_descriptor.h"

namespace verbatim::host {

/// A socket at which processes of other users ask this process for sockets of the port
/// (docs/decisions/0025). It has an abstract UNIX name with random digits,
/// `@verbatim/port/<digits>`, which borrowers find with desk_names_of(). The names are public: a
/// process of any user can connect. The desk keeps few connections, and answers one question on
/// each.
///
/// The kernel limits how many descriptors one user may have in sent but unread messages, over all
/// its processes, and a sent descriptor cannot be taken back. So each asking user can have one
/// unread answer, and there are at most kUnreadMax in all. The connection is kept until the answer
/// is read. Questions of a user that asks often wait.
///
/// Thread: one at a time.
class LendingDesk {
 public:
  static constexpr std::string_view kPrefix = "verbatim/port/";
  static constexpr std::size_t kConnectionsMax = 32;
  static constexpr std::size_t kConnectionsPerUser = 4;
  static constexpr std::size_t kUnreadMax = 8;          // answers; one for each user
  static constexpr std::size_t kQuestionsPerUser = 16;  // answered in one period
  static constexpr Duration kPeriod = std::chrono::seconds(1);

  /// What the lender answers to a question.
  struct Answer {
    enum class Kind : std::uint8_t { kRefused, kLater, kLent };
    Kind kind = Kind::kRefused;
    std::vector<int> descriptors{};  // lent; the lender keeps and closes its own
  };
  using Lender = std::function<Answer(const LendingMessage& question, uid_t borrower)>;

  LendingDesk() noexcept = default;
  LendingDesk(const LendingDesk&) = delete;
  LendingDesk& operator=(const LendingDesk&) = delete;
  ~LendingDesk() { close(); }

  /// kNoMemory when the system gives no socket.
  [[nodiscard]] Status open(Lender lender) noexcept;
  void close() noexcept;

  /// Adds the descriptors that the desk waits for.
  void add_to(std::vector<pollfd>& polled) const;
  /// Whether serve() must be called again after a short while, even if nothing arrives.
  [[nodiscard]] bool has_questions() const noexcept;
  /// Reads and answers what has arrived, without waiting. False when it cannot accept because the
  /// process has no descriptor left: then call it again later.
  bool serve() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    OwnDescriptor descriptor;
    uid_t user = 0;
    bool has_question = false;
    bool has_turn = false;     // its question was counted
    bool is_answered = false;  // and the answer has not been read yet
    Clock::time_point asked_at{};
    LendingMessage question{};
  };

  [[nodiscard]] bool accept_some() noexcept;
  void make_room_for(uid_t user) noexcept;
  void read(Connection& connection) noexcept;
  void answer(Connection& connection) noexcept;
  void drop_if_read(Connection& connection) noexcept;
  [[nodiscard]] bool may_answer(uid_t user) const noexcept;
  [[nodiscard]] bool takes_its_turn(Connection& connection) noexcept;

  /// How often a user has asked in the present period.
  struct Asker {
    uid_t user = 0;
    Clock::time_point since{};
    std::size_t questions = 0;
  };

  OwnDescriptor socket_;
  bool is_full_ = false;  // the last serve() could not accept
  Lender lender_;
  std::vector<Connection> connections_;  // oldest first
  std::vector<Asker> askers_;            // of the present period
};

/// Asks processes of user `owner` for sockets, one process after the other with `between` between
/// two, for at most `patience` in all. Returns descriptors that the caller owns; none when no
/// process lends. They come from other processes, so the caller must check what they are.
struct LoanRequest {
  LendingMessage question{};
  uid_t owner = 0;
  Duration between{};
  Duration patience{};
};
[[nodiscard]] std::vector<int> borrow(const LoanRequest& request);
/// Whether a process of this user has a desk in this network namespace.
[[nodiscard]] bool has_desk(uid_t user);

}  // namespace verbatim::host

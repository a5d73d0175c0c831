// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "wire/headers/mad.h"
#include "wire/management/notice.h"

namespace verbatim::fabric {

/// A trap that has to be sent now.
struct DueTrap {
  std::uint8_t port = 0;  // of the node, whose subnet manager gets it
  wire::TransactionId transaction{};
  wire::Notice notice{};
};

/// The traps of one node that its subnet manager has not repressed yet (IBA Vol 1, 13.4.9 and
/// 14.3.11). Each is repeated until then, no more often than the subnet timeout allows; it is given
/// up after kSendsMax times, when there has been no subnet manager for minutes.
///
/// An event that happens again while its trap waits for the repress is sent once more after it,
/// since the manager may have looked before it happened.
class TrapQueue {
 public:
  static constexpr unsigned kSendsMax = 100;    // of one trap
  static constexpr std::size_t kTrapsMax = 64;  // the events of more are lost until there is room

  /// One trap per number, port of the node and subject, which is a port that the notice tells of.
  struct Kind {
    wire::TrapNumber number{};
    std::uint8_t port = 0;
    std::uint8_t subject = 0;
    friend bool operator==(const Kind&, const Kind&) noexcept = default;
  };
  void raise(Instant now, const Kind& kind, const wire::Notice& notice);
  /// Whether it was the repress of a trap of this queue.
  bool handle_repress(Instant now, wire::TransactionId transaction);
  /// The next trap that is due; it is due again after `interval`.
  [[nodiscard]] std::optional<DueTrap> poll(Instant now, Duration interval);
  [[nodiscard]] std::optional<Instant> next_due() const noexcept;
  void clear() noexcept { traps_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return traps_.size(); }

 private:
  struct Trap {
    Kind kind{};
    wire::TransactionId transaction{};
    wire::Notice notice{};
    Instant due{};
    bool has_happened_again = false;  // since it was sent first
    unsigned sends = 0;               // with this transaction
  };
  std::vector<Trap> traps_;
  std::uint64_t next_transaction_ = 1;
};

}  // namespace verbatim::fabric

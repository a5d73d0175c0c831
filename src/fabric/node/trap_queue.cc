// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/trap_queue.h"

#include <algorithm>

namespace verbatim::fabric {

void TrapQueue::raise(Instant now, const Kind& kind, const wire::Notice& notice) {
  const auto known = std::ranges::find(traps_, kind, &Trap::kind);
  if (known != traps_.end()) {
    known->notice = notice;
    known->has_happened_again = known->sends != 0;
    return;
  }
  if (traps_.size() == kTrapsMax) return;
  traps_.push_back({.kind = kind,
                    .transaction = wire::TransactionId{next_transaction_++},
                    .notice = notice,
                    .due = now});
}

bool TrapQueue::handle_repress(Instant now, wire::TransactionId transaction) {
  const auto known = std::ranges::find(traps_, transaction, &Trap::transaction);
  if (known == traps_.end()) return false;
  if (!known->has_happened_again) {
    traps_.erase(known);
    return true;
  }
  known->has_happened_again = false;
  known->sends = 0;
  known->transaction = wire::TransactionId{next_transaction_++};
  known->due = std::max(known->due, now);
  return true;
}

std::optional<DueTrap> TrapQueue::poll(Instant now, Duration interval) {
  const auto next = std::ranges::min_element(traps_, {}, &Trap::due);
  if (next == traps_.end() || next->due > now) return std::nullopt;
  next->due = now + interval;
  const DueTrap trap{
      .port = next->kind.port, .transaction = next->transaction, .notice = next->notice};
  if (++next->sends == kSendsMax) traps_.erase(next);
  return trap;
}

std::optional<Instant> TrapQueue::next_due() const noexcept {
  const auto next = std::ranges::min_element(traps_, {}, &Trap::due);
  if (next == traps_.end()) return std::nullopt;
  return next->due;
}

}  // namespace verbatim::fabric

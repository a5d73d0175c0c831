// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "base/prng.h"
#include "base/slot_numbers.h"
#include "wire/headers/ids.h"

namespace verbatim::loop {

/// The most queue pairs of one adapter.
inline constexpr std::uint32_t kQueuePairsMax = kNumbersPerSlot - 17;

/// The queue pairs of an adapter, by number. The slot of the process is the upper part of each
/// number; the lower part is the place in this table. The numbers of shared receive queues are made
/// the same way; they have no places.
///
/// `Qp` is any type: the table keeps pointers and looks at nothing behind them. Guarded by the
/// adapter's lock.
template <typename Qp>
class QueuePairTable {
 public:
  // Numbers 0 and 1 of slot 0 are the management queue pairs. The first numbers of each slot are
  // not used.
  static constexpr std::uint32_t kFirst = 16;
  // The last number of the last slot means "multicast". The last number of each slot is not used.
  static constexpr std::uint32_t kLast = kNumbersPerSlot - 2;
  static_assert(kLast - kFirst + 1 == kQueuePairsMax);

  QueuePairTable() : places_(kNumbersPerSlot, nullptr) {}

  /// Before the first add(). The seed decides where the search for a free number begins: numbers of
  /// an earlier process in this slot are not reused at once.
  void open(std::uint32_t slot, std::uint64_t seed) noexcept VB_REQUIRES(adapter_role) {
    slot_ = slot;
    next_ = kFirst + static_cast<std::uint32_t>(Prng(seed).below(kQueuePairsMax));
  }

  /// Gives a queue pair a number. kNoMemory when none is left.
  [[nodiscard]] Expected<wire::QpNumber> add(Qp& qp) VB_REQUIRES(adapter_role) {
    for (std::uint32_t tried = 0; tried < kQueuePairsMax; ++tried) {
      if (next_ > kLast) next_ = kFirst;
      const std::uint32_t index = next_++;
      if (places_[index] != nullptr) continue;
      places_[index] = &qp;
      return wire::QpNumber{slot_ * kNumbersPerSlot + index};
    }
    return Errc::kNoMemory;
  }
  void remove(wire::QpNumber number) noexcept VB_REQUIRES(adapter_role) {
    places_[index_of(number)] = nullptr;
  }

  /// Null when no queue pair has this number.
  [[nodiscard]] Qp* find(wire::QpNumber number) const noexcept VB_REQUIRES(adapter_role) {
    Qp* qp = places_[index_of(number)];
    return static_cast<std::uint32_t>(number) / kNumbersPerSlot == slot_ ? qp : nullptr;
  }
  /// The queue pair in this place of the table; null when the place is free.
  [[nodiscard]] Qp* at(std::uint32_t index) const noexcept VB_REQUIRES(adapter_role) {
    return places_[index];
  }
  [[nodiscard]] static constexpr std::uint32_t index_of(wire::QpNumber number) noexcept {
    return static_cast<std::uint32_t>(number) % kNumbersPerSlot;
  }

  /// Calls `visit(qp)` for each queue pair, in the order of the numbers. It reads every place, so
  /// it is for rare use. It also works in a child that was forked in the middle of add() or
  /// remove().
  template <typename Visit>
  void for_each(Visit&& visit) const VB_REQUIRES(adapter_role) {
    for (Qp* qp : places_) {
      if (qp != nullptr) visit(*qp);
    }
  }

  /// The number of a new shared receive queue. Numbers are repeated after 65,536 of them.
  [[nodiscard]] wire::SrqNumber next_shared_number() noexcept VB_REQUIRES(adapter_role) {
    return wire::SrqNumber{slot_ * kNumbersPerSlot + next_shared_++ % kNumbersPerSlot};
  }

 private:
  std::vector<Qp*> places_ VB_GUARDED_BY(adapter_role);
  std::uint32_t slot_ = 0;
  // Where the search for a free number begins.
  std::uint32_t next_ VB_GUARDED_BY(adapter_role) = kFirst;
  std::uint32_t next_shared_ VB_GUARDED_BY(adapter_role) = 1;
};

}  // namespace verbatim::loop

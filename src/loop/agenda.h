// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/adapter_role.h"
#include "base/time.h"

namespace verbatim::loop {

/// What an Agenda notes in each queue pair.
struct AgendaEntry {
  Instant timer_at = Instant::never();  // when its timer is set
  bool is_listed = false;               // for a turn
};

/// Which queue pairs of an adapter have something to do, and when: those that are listed for a
/// turn, those that wait for a receive of their peer, and those whose timers are set.
///
/// `Qp` has the functions `AgendaEntry& agenda_entry()` and `number()`. The order of equal timers
/// follows the numbers, so that a simulation depends on no addresses. Guarded by the adapter's
/// lock, except for has_any().
template <typename Qp>
class Agenda {
 public:
  /// The queue pair gets a turn in the next round, behind those that are listed already.
  void list(Qp& qp) VB_REQUIRES(adapter_role) {
    if (std::exchange(qp.agenda_entry().is_listed, true)) return;
    listed_.push_back(&qp);
    has_any_.store(true, std::memory_order_relaxed);
  }
  /// list(), before all others, unless the queue pair is listed already.
  void list_first(Qp& qp) VB_REQUIRES(adapter_role) {
    if (std::exchange(qp.agenda_entry().is_listed, true)) return;
    listed_.insert(listed_.begin(), &qp);
    has_any_.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] std::span<Qp* const> listed() const noexcept VB_REQUIRES(adapter_role) {
    return listed_;
  }

  /// Begins a round: returns the listed queue pairs and empties the list. A queue pair that is
  /// listed from now on comes in the next round. The result is valid until end_round().
  [[nodiscard]] std::span<Qp* const> begin_round() VB_REQUIRES(adapter_role) {
    round_.swap(listed_);
    for (Qp* qp : round_) qp->agenda_entry().is_listed = false;
    return round_;
  }
  void end_round() noexcept VB_REQUIRES(adapter_role) {
    round_.clear();
    has_any_.store(!listed_.empty() || !waiting_.empty(), std::memory_order_relaxed);
  }

  /// A request of the queue pair waits for a receive that its peer has not posted yet.
  void note_waiting(Qp& qp) VB_REQUIRES(adapter_role) {
    if (std::ranges::find(waiting_, &qp) != waiting_.end()) return;
    waiting_.push_back(&qp);
    has_any_.store(true, std::memory_order_relaxed);
  }
  /// Lists the waiting queue pairs for which `waits_on(qp)` is false. They do not wait any more.
  template <typename WaitsOn>
  void look_at_waiting(WaitsOn&& waits_on) VB_REQUIRES(adapter_role) {
    if (waiting_.empty()) [[likely]]
      return;
    std::erase_if(waiting_, [&](Qp* qp) {
      assume_adapter_role();
      if (waits_on(*qp)) return false;
      list(*qp);
      return true;
    });
  }

  /// Sets the timer of a queue pair, unless it is set for an earlier time: a timer that is set
  /// stays set until it fires. So a connection that makes progress all the time costs one look per
  /// timeout, not one per packet. Returns whether the timer is new or earlier now.
  bool set_timer(Qp& qp, Instant at) VB_REQUIRES(adapter_role) {
    Instant& timer_at = qp.agenda_entry().timer_at;
    if (at >= timer_at) return false;
    if (timer_at != Instant::never()) timers_.erase({timer_at, &qp});
    timer_at = at;
    timers_.insert({at, &qp});
    return true;
  }
  /// When the earliest timer fires.
  [[nodiscard]] Instant next_timer() const noexcept VB_REQUIRES(adapter_role) {
    return timers_.empty() ? Instant::never() : timers_.begin()->first;
  }
  /// A queue pair whose timer has fired by now, the earliest first; null: none. Its timer is not
  /// set any more.
  [[nodiscard]] Qp* take_due(Instant now) VB_REQUIRES(adapter_role) {
    if (next_timer() > now || timers_.empty()) return nullptr;
    Qp* qp = timers_.begin()->second;
    timers_.erase(timers_.begin());
    qp->agenda_entry().timer_at = Instant::never();
    return qp;
  }

  /// The queue pair is about to be destroyed. Not in the middle of a round.
  void remove(Qp& qp) noexcept VB_REQUIRES(adapter_role) {
    AgendaEntry& entry = qp.agenda_entry();
    if (entry.timer_at != Instant::never()) timers_.erase({entry.timer_at, &qp});
    std::erase(listed_, &qp);
    std::erase(waiting_, &qp);
    entry = {};
  }

  /// Whether a queue pair is listed or waits for a receive. Any thread, without the lock; it may be
  /// true for a while when there is none any more.
  [[nodiscard]] bool has_any() const noexcept { return has_any_.load(std::memory_order_relaxed); }

 private:
  struct Earlier {
    bool operator()(const std::pair<Instant, Qp*>& one,
                    const std::pair<Instant, Qp*>& other) const noexcept {
      if (one.first != other.first) return one.first < other.first;
      return one.second->number() < other.second->number();
    }
  };

  std::vector<Qp*> listed_ VB_GUARDED_BY(adapter_role);
  std::vector<Qp*> round_ VB_GUARDED_BY(adapter_role);  // of the present round
  std::vector<Qp*> waiting_ VB_GUARDED_BY(adapter_role);
  std::set<std::pair<Instant, Qp*>, Earlier> timers_ VB_GUARDED_BY(adapter_role);
  std::atomic<bool> has_any_{false};
};

}  // namespace verbatim::loop

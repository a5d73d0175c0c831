// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/time.h"
#include "fabric/mads/mad_keys.h"

namespace verbatim::fabric {

/// Values by key, each with at most one deadline. A pointer to a value is valid until the value is
/// erased.
template <typename Key, typename Value>
class TimedTable {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool contains(const Key& key) const { return entries_.contains(key); }

  [[nodiscard]] Value* find(const Key& key) {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second.value;
  }

  /// The key must be new.
  Value& add(const Key& key, Value value) {
    return entries_.try_emplace(key, Entry{.value = std::move(value)}).first->second.value;
  }

  /// Replaces the deadline of an entry; never() removes it. No effect without the entry.
  void set_deadline(const Key& key, Instant deadline) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.deadline == deadline) return;
    remove_timer(found->first, found->second);
    found->second.deadline = deadline;
    if (deadline != Instant::never()) timers_.emplace(deadline, key);
  }

  void erase(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    remove_timer(found->first, found->second);
    entries_.erase(found);
  }

  template <typename Predicate>
  void erase_if(Predicate&& matches) {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (!matches(entry->first, entry->second.value)) {
        ++entry;
        continue;
      }
      remove_timer(entry->first, entry->second);
      entry = entries_.erase(entry);
    }
  }

  [[nodiscard]] std::optional<Instant> next_deadline() const noexcept {
    if (timers_.empty()) return std::nullopt;
    return timers_.begin()->first;
  }

  /// Erases the entry with the earliest deadline, if one has a deadline.
  void erase_earliest() {
    if (timers_.empty()) return;
    const Key key = timers_.begin()->second;
    erase(key);
  }

  /// An entry whose deadline has come, the earliest first. Its deadline is removed.
  [[nodiscard]] std::optional<Key> poll_due(Instant now) {
    if (timers_.empty() || timers_.begin()->first > now) return std::nullopt;
    const Key key = timers_.begin()->second;
    set_deadline(key, Instant::never());
    return key;
  }

 private:
  struct Entry {
    Value value;
    Instant deadline = Instant::never();
  };
  void remove_timer(const Key& key, const Entry& entry) {
    if (entry.deadline != Instant::never()) timers_.erase({entry.deadline, key});
  }

  std::unordered_map<Key, Entry, MadKeyHash> entries_;
  std::set<std::pair<Instant, Key>> timers_;  // one element per entry that has a deadline
};

}  // namespace verbatim::fabric

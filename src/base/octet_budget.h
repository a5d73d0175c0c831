// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

namespace verbatim {

/// A limit on the memory that several owners hold together. It counts; it allocates nothing. What
/// it has given out also counts against the larger budget that it is a part of, if there is one.
///
/// It must live longer than what holds octets of it. Thread: one at a time.
class OctetBudget {
 public:
  explicit OctetBudget(std::size_t limit, OctetBudget* whole = nullptr) noexcept
      : limit_(limit), whole_(whole) {}
  OctetBudget(const OctetBudget&) = delete;
  OctetBudget& operator=(const OctetBudget&) = delete;

  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  /// Whether one owner could hold so many more.
  [[nodiscard]] bool has(std::size_t octets) const noexcept {
    return octets <= limit_ - held_ && (whole_ == nullptr || whole_->has(octets));
  }

 private:
  friend class HeldOctets;
  [[nodiscard]] bool take(std::size_t octets) noexcept {
    if (!has(octets)) return false;
    for (OctetBudget* each = this; each != nullptr; each = each->whole_) each->held_ += octets;
    return true;
  }
  void give_back(std::size_t octets) noexcept {
    for (OctetBudget* each = this; each != nullptr; each = each->whole_) each->held_ -= octets;
  }

  std::size_t limit_;
  OctetBudget* whole_;    // of which this is a part; null: of none
  std::size_t held_ = 0;  // at most limit_
};

/// The octets of a budget that one owner holds. Its end gives them back.
class HeldOctets {
 public:
  HeldOctets() noexcept = default;
  explicit HeldOctets(OctetBudget& budget) noexcept : budget_(&budget) {}
  HeldOctets(HeldOctets&& other) noexcept
      : budget_(other.budget_), octets_(std::exchange(other.octets_, 0)) {}
  HeldOctets& operator=(HeldOctets&& other) noexcept {
    if (this == &other) return *this;
    release();
    budget_ = other.budget_;
    octets_ = std::exchange(other.octets_, 0);
    return *this;
  }
  ~HeldOctets() { release(); }

  [[nodiscard]] std::size_t octets() const noexcept { return octets_; }
  /// Holds so many from now on. False: the budget has not so much left, and nothing changes.
  /// Without a budget it can hold none.
  [[nodiscard]] bool hold(std::size_t octets) noexcept {
    if (octets > octets_) {
      if (budget_ == nullptr || !budget_->take(octets - octets_)) return false;
    } else if (octets < octets_) {
      budget_->give_back(octets_ - octets);
    }
    octets_ = octets;
    return true;
  }
  void release() noexcept { (void)hold(0); }  // to hold less always succeeds

 private:
  OctetBudget* budget_ = nullptr;
  std::size_t octets_ = 0;
};

}  // namespace verbatim

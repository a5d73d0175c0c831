// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace verbatim {

/// Why a caller's request was refused: one enumerator per action a caller can take.
/// The border (`src/abi`) turns each into the errno of the man pages.
enum class Errc : std::uint8_t {
  kInvalidArgument,  // EINVAL: a value the function does not allow
  kNoMemory,      // ENOMEM: a queue is full or storage ran out; poll completions, or free something
  kBusy,          // EBUSY: something still uses the object; destroy that first
  kNotSupported,  // EOPNOTSUPP: this adapter does not offer it
  kNoSuchObject,  // ENOENT: no object has this number
  kTryAgain,      // EAGAIN: nothing available now
  kAccessDenied,  // EACCES
  kFault,         // EFAULT: the memory is not mapped
  kAlreadyExists,  // EEXIST
  kNoDevice,       // ENODEV
  kTimedOut,       // ETIMEDOUT
  kAddressInUse,   // EADDRINUSE
  kNoData,         // ENODATA
  kInterrupted,    // EINTR: a signal interrupted the wait
};

/// A value, or the reason why there is none. Holds both in a union; nothing throws.
template <typename T, typename E = Errc>
class [[nodiscard]] Expected {
 public:
  using Value = T;
  using Error = E;

  Expected(T value) noexcept : has_value_(true) {  // NOLINT: implicit on purpose
    new (&value_) T(std::move(value));
  }
  Expected(E error) noexcept : error_(error), has_value_(false) {}  // NOLINT: implicit on purpose

  Expected(const Expected& other) noexcept requires std::is_copy_constructible_v<T>
      : has_value_(other.has_value_) {
    if (has_value_) {
      new (&value_) T(other.value_);
    } else {
      error_ = other.error_;
    }
  }
  Expected(Expected&& other) noexcept : has_value_(other.has_value_) {
    if (has_value_) {
      new (&value_) T(std::move(other.value_));
    } else {
      error_ = other.error_;
    }
  }
  Expected& operator=(const Expected&) = delete;
  Expected& operator=(Expected&&) = delete;
  ~Expected() {
    if (has_value_) value_.~T();
  }

  [[nodiscard]] bool ok() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value_; }

  [[nodiscard]] T& value() & noexcept {
    VB_ASSERT(has_value_);
    return value_;
  }
  [[nodiscard]] const T& value() const& noexcept {
    VB_ASSERT(has_value_);
    return value_;
  }
  [[nodiscard]] T&& value() && noexcept {
    VB_ASSERT(has_value_);
    return std::move(value_);
  }
  [[nodiscard]] T& operator*() noexcept { return value(); }
  [[nodiscard]] const T& operator*() const noexcept { return value(); }
  [[nodiscard]] T* operator->() noexcept { return &value(); }
  [[nodiscard]] const T* operator->() const noexcept { return &value(); }

  [[nodiscard]] E error() const noexcept {
    VB_ASSERT(!has_value_);
    return error_;
  }

 private:
  union {
    T value_;
    E error_;
  };
  bool has_value_;
};

/// The value of a function that returns nothing but success.
struct Ok {};

/// Success, or the reason for refusing.
template <typename E>
class [[nodiscard]] BasicStatus {
 public:
  BasicStatus(Ok) noexcept {}                                   // NOLINT: implicit on purpose
  BasicStatus(E error) noexcept : error_(error), ok_(false) {}  // NOLINT: implicit on purpose

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] E error() const noexcept {
    VB_ASSERT(!ok_);
    return error_;
  }

 private:
  E error_{};
  bool ok_ = true;
};

using Status = BasicStatus<Errc>;

}  // namespace verbatim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <type_traits>

namespace verbatim {

/// The one object of the process that `make` returns a pointer to: made at the first call, never
/// destroyed, the same one at every later call. `make` is a lambda, and each lambda has an object
/// of its own. If two threads call it first at the same time, both make an object and one of the
/// two is deleted; so making one must have no other effect.
///
/// A static variable of a function would not do: if another thread is initialising it when the
/// program forks, the child waits for that thread for ever.
template <typename Make>
[[nodiscard]] auto& process_wide(Make make) noexcept {
  using Object = std::remove_pointer_t<decltype(make())>;
  static constinit std::atomic<Object*> kept{nullptr};
  Object* object = kept.load(std::memory_order_acquire);  // pairs with the exchange below
  if (object != nullptr) [[likely]]
    return *object;
  Object* const made = make();
  if (kept.compare_exchange_strong(object, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *object;
}

}  // namespace verbatim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <type_traits>

namespace verbatim {

/// The one object of the process that `make` returns a pointer to: made at the first call, never
/// destroyed, the same one at every later call. `make` is a lambda, and each lambda has an object
/// of its own. Two threads that come first at the same time both make one, and one of the two is
/// deleted, so making one has no effect elsewhere.
///
/// Not a static variable of a function: another thread may be about to initialise that one when the
/// program forks, and the child would wait for it for ever.
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

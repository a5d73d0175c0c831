// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "cm/requests.h"
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"

namespace verbatim::cm {

/// Takes requests for some service IDs.
struct Listener {
  ListenerId id{};
  ListenRequest request{};
  std::uint32_t waiting_count = 0;  // requests that the user has not taken
};

/// The listeners of one Agent. They are few, so look-ups are linear.
class ListenerTable {
 public:
  explicit ListenerTable(std::uint32_t capacity) noexcept : capacity_(capacity) {}

  /// kAddressInUse when another one has some of these service IDs and the same address, or both
  /// have any address; kNoMemory when there are too many; kInvalidArgument for a backlog of zero.
  Expected<ListenerId> add(const ListenRequest& request);
  /// False when there is none.
  bool remove(ListenerId id) noexcept;

  /// Null when there is none. A listener for this address has priority over one for any address.
  [[nodiscard]] Listener* match(wire::ServiceId service_id, const wire::Gid& local) noexcept;
  [[nodiscard]] const Listener* match(wire::ServiceId service_id,
                                      const wire::Gid& local) const noexcept;
  [[nodiscard]] Listener* find(ListenerId id) noexcept;

 private:
  std::uint32_t capacity_;
  std::uint32_t last_id_ = 0;
  std::vector<Listener> listeners_;  // in the order of listen()
};

}  // namespace verbatim::cm

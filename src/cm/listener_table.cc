// SPDX-License-Identifier: Apache-2.0
#include "cm/listener_table.h"

#include <algorithm>
#include <utility>

namespace verbatim::cm {
namespace {

/// Whether both match some service ID at the same address.
bool overlap(const ListenRequest& a, const ListenRequest& b) noexcept {
  const std::uint64_t differ =
      static_cast<std::uint64_t>(a.service_id) ^ static_cast<std::uint64_t>(b.service_id);
  return (differ & a.service_mask & b.service_mask) == 0 && a.address == b.address;
}

bool takes(const ListenRequest& request, wire::ServiceId service_id) noexcept {
  const std::uint64_t differ =
      static_cast<std::uint64_t>(request.service_id) ^ static_cast<std::uint64_t>(service_id);
  return (differ & request.service_mask) == 0;
}

}  // namespace

Expected<ListenerId> ListenerTable::add(const ListenRequest& request) {
  if (request.backlog == 0) return Errc::kInvalidArgument;
  if (listeners_.size() >= capacity_) return Errc::kNoMemory;
  const bool is_taken = std::ranges::any_of(
      listeners_, [&](const Listener& other) { return overlap(other.request, request); });
  if (is_taken) return Errc::kAddressInUse;
  do {
    ++last_id_;
  } while (last_id_ == 0 || find(ListenerId{last_id_}) != nullptr);
  listeners_.push_back({.id = ListenerId{last_id_}, .request = request});
  return ListenerId{last_id_};
}

bool ListenerTable::remove(ListenerId id) noexcept {
  return std::erase_if(listeners_, [&](const Listener& other) { return other.id == id; }) != 0;
}

Listener* ListenerTable::match(wire::ServiceId service_id, const wire::Gid& local) noexcept {
  return const_cast<Listener*>(std::as_const(*this).match(service_id, local));
}

const Listener* ListenerTable::match(wire::ServiceId service_id,
                                     const wire::Gid& local) const noexcept {
  const Listener* for_any = nullptr;
  for (const Listener& listener : listeners_) {
    if (!takes(listener.request, service_id)) continue;
    if (listener.request.address == local) return &listener;
    if (!listener.request.address && for_any == nullptr) for_any = &listener;
  }
  return for_any;
}

Listener* ListenerTable::find(ListenerId id) noexcept {
  const auto found = std::ranges::find(listeners_, id, &Listener::id);
  return found == listeners_.end() ? nullptr : &*found;
}

}  // namespace verbatim::cm

// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/wildcards.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "abi/rdmacm/ports.h"
#include "base/fork_mutex.h"
#include "base/process_wide.h"
#include "device/process.h"

namespace verbatim::abi {
namespace {

/// The ids that listen. The lock guards where each of them does, and the ports it holds there; it
/// is taken before an adapter's.
struct Listeners {
  ForkMutex mutex;
  std::vector<IdHandle*> everywhere;
};
Listeners& listeners() noexcept {
  return process_wide([] { return new Listeners; });
}

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kListeners,
                                         .prepare = [] { listeners().mutex.lock(); },
                                         .parent = [] { listeners().mutex.unlock(); },
                                         .child =
                                             [] {
                                               listeners().everywhere.clear();
                                               listeners().mutex.unlock();
                                             },
                                         .forget = [] { device::renew(listeners()); }});

Status start_at(IdHandle& id, const IdHandle::Claim& at) {
  return at.device->with_agent([&](cm::Agent& agent, Instant) -> Status {
    auto listener = agent.listen({.service_id = id.service_at(id.source.port),
                                  .address = at.address,
                                  .backlog = id.backlog});
    if (!listener) return listener.error();
    at.device->listeners[static_cast<std::uint32_t>(*listener)] = &id;
    at.device->gsi().attract(at.address, id.service_at(id.source.port));
    id.listening.push_back({.device = at.device, .address = at.address, .id = *listener});
    return Ok{};
  });
}

void stop_at(const IdHandle::Listener& listener) noexcept {
  (void)listener.device->with_agent([&](cm::Agent& agent, Instant now) {
    listener.device->listeners.erase(static_cast<std::uint32_t>(listener.id));
    return agent.unlisten(now, listener.id);
  });
}

template <typename Place, typename Other>
bool is_among(const Place& place, const std::vector<Other>& others) noexcept {
  return std::any_of(others.begin(), others.end(), [&](const Other& other) {
    return other.device == place.device && other.address == place.address;
  });
}

void leave_lost_addresses(IdHandle& id, const std::vector<IdHandle::Claim>& wanted) {
  std::erase_if(id.listening, [&](const IdHandle::Listener& listener) {
    if (is_among(listener, wanted)) return false;
    stop_at(listener);
    return true;
  });
  std::erase_if(id.claims, [&](const IdHandle::Claim& claim) {
    if (is_among(claim, wanted)) return false;
    release_claim(id, claim);
    return true;
  });
}

/// Where somebody else has the port already, he keeps it.
void listen_at_new_addresses(IdHandle& id, const std::vector<IdHandle::Claim>& wanted) {
  for (const IdHandle::Claim& at : wanted) {
    if (is_among(at, id.listening)) continue;
    if (!is_among(at, id.claims) && !claim_at(id, at)) continue;
    (void)start_at(id, at);  // tried again with the next change
  }
}

}  // namespace

Status listen_everywhere(IdHandle& id) {
  const std::lock_guard lock(listeners().mutex);
  for (const IdHandle::Claim& at : addresses_of(id)) {
    if (auto started = start_at(id, at); !started) {
      for (const IdHandle::Listener& listener : id.listening) stop_at(listener);
      id.listening.clear();
      return started;
    }
  }
  if (id.is_everywhere()) listeners().everywhere.push_back(&id);
  return Ok{};
}

void stop_listening(IdHandle& id) noexcept {
  const std::lock_guard lock(listeners().mutex);
  std::erase(listeners().everywhere, &id);
  for (const IdHandle::Listener& listener : id.listening) stop_at(listener);
  id.listening.clear();
}

void follow_addresses() {
  refresh_cm_devices();
  const std::lock_guard lock(listeners().mutex);
  for (IdHandle* id : listeners().everywhere) {
    const auto wanted = addresses_of(*id);
    leave_lost_addresses(*id, wanted);
    listen_at_new_addresses(*id, wanted);
  }
}

}  // namespace verbatim::abi

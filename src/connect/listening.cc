// SPDX-License-Identifier: Apache-2.0
#include "connect/listening.h"

#include <algorithm>
#include <cstdio>

#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "base/process_wide.h"
#include "connect/device.h"
#include "connect/system.h"
#include "device/process.h"

namespace verbatim::connect {
namespace {

/// The ids that listen at all addresses. The lock guards the list, and the listeners and held ports
/// of each id in it. It is taken before all other locks of this layer.
struct Wildcards {
  ForkMutex mutex;
  std::vector<Listening*> all VB_GUARDED_BY(mutex);
};
Wildcards& wildcards() noexcept {
  return process_wide([] { return new Wildcards; });
}

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kListeners,
                                         .prepare = [] { wildcards().mutex.lock_for_fork(); },
                                         .parent = [] { wildcards().mutex.unlock_after_fork(); },
                                         .child =
                                             []() VB_UNCHECKED_LOCKING {
                                               wildcards().all.clear();
                                               wildcards().mutex.unlock_after_fork();
                                             },
                                         .forget = [] { device::renew(wildcards()); }});

/// Without the port other processes at the address do not find the listener and refuse its clients.
void explain_lost_user(std::uint16_t port, const Device& at) {
  std::fprintf(stderr,
               "verbatim: cannot take port %u at %s: this process has changed its user since it "
               "opened the device; call rdma_bind_addr and rdma_listen before changing the user, "
               "or open the device afterwards\n",
               static_cast<unsigned>(port), at.port().name.c_str());
}

}  // namespace

// ---- The port ----

std::vector<Listening::Place> Listening::places() const {
  if (!binding_.is_everywhere()) return {{.device = binding_.device, .address = binding_.local}};
  std::vector<Place> all;
  for (Device* device : system_.devices()) {
    for (const device::GidEntry& entry : device->port().gids) {
      if (entry.gid == wire::Gid{}) continue;  // was removed
      if (device->is_native()) {
        all.push_back({.device = device, .address = entry.gid});
        break;  // connections use the first one alone
      }
      const bool is_ipv4 = entry.gid.is_ipv4_mapped();
      const bool fits = is_ipv4 == binding_.source.is_ipv4 || (is_ipv4 && !binding_.ipv6_only);
      if (fits) all.push_back({.device = device, .address = entry.gid});
    }
  }
  return all;
}

Outcome Listening::claim(const Place& at) {
  const ServicesGuard lock(at.device->services());
  auto claimed = at.device->services().claim(at.address, binding_.service());
  if (claimed) claims_.push_back(at);
  return claimed;
}

void Listening::release(const Place& at) const noexcept {
  const ServicesGuard lock(at.device->services());
  at.device->services().release(at.address, binding_.service());
}

Outcome Listening::claim_all() {
  if (!claims_.empty()) return Ok{};
  for (const Place& wanted : places()) {
    if (auto claimed = claim(wanted); !claimed) {
      if (claimed.error() == Error::kAccessDenied) {
        explain_lost_user(binding_.source.port, *wanted.device);
      }
      for (const Place& place : claims_) release(place);
      claims_.clear();
      return claimed;
    }
  }
  return Ok{};
}

Outcome Listening::take_port(const Binding& binding, bool is_shared) {
  binding_ = binding;
  if (binding_.source.port != 0) return is_shared ? Outcome(Ok{}) : claim_all();
  auto given = system_.take_port(binding_.space);
  if (!given) return given.error();
  binding_.source.port = *given;
  has_given_port_ = true;
  return Ok{};
}

void Listening::give_port_back() noexcept {
  for (const Place& claim : claims_) release(claim);
  claims_.clear();
  if (has_given_port_) system_.give_port_back(binding_.space, binding_.source.port);
  has_given_port_ = false;
}

// ---- Requests for it ----

Outcome Listening::start(const Place& at) {
  return at.device->with_agent(
      [&](cm::Agent& agent, Instant) VB_REQUIRES(connections_mutex()) -> Status {
        assume_adapter_role();
        auto listener = agent.listen(
            {.service_id = binding_.service(), .address = at.address, .backlog = backlog_});
        if (!listener) return listener.error();
        at.device->add_listener(*listener, owner_);
        at.device->services().attract(at.address, binding_.service());
        listeners_.push_back({.place = at, .id = *listener});
        return Ok{};
      });
}

void Listening::stop(const Listener& listener) noexcept {
  Device& device = *listener.place.device;
  (void)device.with_agent([&](cm::Agent& agent, Instant now) VB_REQUIRES(connections_mutex()) {
    device.remove_listener(listener.id);
    return agent.unlisten(now, listener.id);
  });
}

Outcome Listening::listen(std::uint32_t backlog) {
  if (auto claimed = claim_all(); !claimed) return claimed;
  backlog_ = backlog;
  const LockGuard lock(wildcards().mutex);
  for (const Place& at : places()) {
    if (auto started = start(at); !started) {
      for (const Listener& listener : listeners_) stop(listener);
      listeners_.clear();
      return started;
    }
  }
  if (binding_.is_everywhere()) wildcards().all.push_back(this);
  return Ok{};
}

void Listening::stop() noexcept {
  const LockGuard lock(wildcards().mutex);
  std::erase(wildcards().all, this);
  for (const Listener& listener : listeners_) stop(listener);
  listeners_.clear();
}

// ---- Addresses that come and go ----

bool Listening::listens(const Place& at) const noexcept {
  return std::any_of(listeners_.begin(), listeners_.end(),
                     [&](const Listener& listener) { return listener.place == at; });
}

bool Listening::claims(const Place& at) const noexcept {
  return std::find(claims_.begin(), claims_.end(), at) != claims_.end();
}

void Listening::leave_lost_places(const std::vector<Place>& wanted) {
  const auto is_lost = [&](const Place& place) {
    return std::find(wanted.begin(), wanted.end(), place) == wanted.end();
  };
  std::erase_if(listeners_, [&](const Listener& listener) {
    if (!is_lost(listener.place)) return false;
    stop(listener);
    return true;
  });
  std::erase_if(claims_, [&](const Place& claim) {
    if (!is_lost(claim)) return false;
    release(claim);
    return true;
  });
}

/// If another process has the port at a new address, that process keeps it.
void Listening::listen_at_new_places(const std::vector<Place>& wanted) {
  for (const Place& at : wanted) {
    if (listens(at)) continue;
    if (!claims(at) && !claim(at)) continue;
    (void)start(at);  // tried again with the next change
  }
}

void Listening::follow_addresses() {
  const LockGuard lock(wildcards().mutex);
  for (Listening* listening : wildcards().all) {
    const auto wanted = listening->places();
    listening->leave_lost_places(wanted);
    listening->listen_at_new_places(wanted);
  }
}

}  // namespace verbatim::connect

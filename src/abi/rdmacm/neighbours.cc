// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/neighbours.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "abi/rdmacm/id.h"
#include "abi/rdmacm/probe.h"
#include "base/fork_mutex.h"
#include "base/own_threads.h"
#include "base/process_wide.h"
#include "device/clock.h"
#include "device/neighbour_table.h"
#include "device/process.h"

namespace verbatim::abi {
namespace {

constexpr std::uint16_t kRocePort = 4791;
// Between looks at the system's table, which tells nobody when it changes: ever longer.
constexpr auto kShortestPause = std::chrono::milliseconds(1);
constexpr auto kLongestPause = std::chrono::milliseconds(8);

struct Sought {
  IdHandle* id = nullptr;
  Route route{};
  std::unique_ptr<Probe> probe;
  Instant deadline{};
};

/// Those who are sought, and the thread that looks for them. Never destroyed: programs exit with
/// threads running.
struct Search {
  ForkMutex mutex;
  std::vector<Sought> all;
  bool has_thread = false;
};
Search& search() noexcept {
  return process_wide([] { return new Search; });
}

/// In a child no neighbour is sought, and there is no thread.
void begin_anew() {
  search().all.clear();
  search().has_thread = false;
  search().mutex.unlock();
}

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kNeighbours,
                                         .prepare = [] { search().mutex.lock(); },
                                         .parent = [] { search().mutex.unlock(); },
                                         .child = begin_anew,
                                         .forget = [] { device::renew(search()); }});

bool is_found(const Sought& sought) {
  switch (device::look_up_neighbour(sought.route.destination.address)) {
    case device::Neighbour::kUnknown:  // even now: it is behind a router
    case device::Neighbour::kKnown:
      return true;
    case device::Neighbour::kFailed:
      sought.probe->knock();  // as long as the program has patience
      return false;
    case device::Neighbour::kSought:
      return false;
  }
  return false;
}

/// With the lock held. False when nobody is left.
bool look(Search& from) {
  std::vector<Sought> left;
  for (Sought& sought : from.all) {
    if (is_found(sought)) {
      finish_resolving(*sought.id, sought.route, 0);
    } else if (device::now() >= sought.deadline) {
      finish_resolving(*sought.id, sought.route, ETIMEDOUT);
    } else {
      left.push_back(std::move(sought));
    }
  }
  from.all = std::move(left);
  return !from.all.empty();
}

void run() {
  const OwnThread mine;
  auto pause = kShortestPause;
  for (;;) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
    const std::lock_guard lock(search().mutex);
    if (look(search())) continue;
    search().has_thread = false;
    return;
  }
}

/// Its signals are the program's.
void start_thread() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(run);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread.native_handle(), "verbatim-seek");
  thread.detach();
}

}  // namespace

void seek_neighbour(IdHandle& id, const Route& route, Duration patience) {
  const bool is_known =
      route.destination.address.is_multicast() ||
      device::look_up_neighbour(route.destination.address) == device::Neighbour::kKnown;
  if (is_known) return finish_resolving(id, route, 0);
  Sought sought{.id = &id,
                .route = route,
                .probe = std::make_unique<Probe>(route.destination.is_ipv4),
                .deadline = device::now() + patience};
  IpEndpoint to = route.destination;
  to.port = kRocePort;
  const bool can_ask = sought.probe->bind(route.source) && sought.probe->connect(to);
  if (can_ask) sought.probe->knock();
  if (!can_ask || is_found(sought)) return finish_resolving(id, route, 0);
  const std::lock_guard lock(search().mutex);
  search().all.push_back(std::move(sought));
  if (search().has_thread) return;
  search().has_thread = true;
  start_thread();
}

void stop_seeking(IdHandle& id) noexcept {
  const std::lock_guard lock(search().mutex);
  std::erase_if(search().all, [&](const Sought& sought) { return sought.id == &id; });
}

}  // namespace verbatim::abi

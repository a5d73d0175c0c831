// SPDX-License-Identifier: Apache-2.0
#include "connect/host_system.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/process_wide.h"
#include "connect/device_list.h"
#include "connect/given_ports.h"
#include "connect/id.h"
#include "connect/neighbour_search.h"
#include "connect/probe.h"
#include "device/clock.h"
#include "device/process.h"
#include "host/library_thread.h"

namespace verbatim::connect {
namespace {

constexpr std::uint16_t kRocePort = 4791;
// The neighbour table does not report changes. It is polled with a pause that doubles.
constexpr auto kShortestPause = std::chrono::milliseconds(1);
constexpr auto kLongestPause = std::chrono::milliseconds(8);

/// Sends an empty datagram, which makes the system resolve the neighbour.
class Knock final : public NeighbourQuestion {
 public:
  explicit Knock(const Route& route)
      : address_(route.destination.address), probe_(route.destination.is_ipv4) {
    IpEndpoint to = route.destination;
    to.port = kRocePort;
    can_ask_ = probe_.bind(route.source).ok() && probe_.connect(to).ok();
    if (can_ask_) probe_.knock();
  }
  [[nodiscard]] bool can_ask() const noexcept { return can_ask_; }
  [[nodiscard]] device::Neighbour answer() override { return device::look_up_neighbour(address_); }
  void repeat() override { probe_.knock(); }

 private:
  wire::Gid address_;
  Probe probe_;
  bool can_ask_ = false;
};

NeighbourSearch& search() noexcept {
  return process_wide([] { return new NeighbourSearch; });
}

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kNeighbours,
                                         .prepare = [] { search().mutex().lock_for_fork(); },
                                         .parent = [] { search().mutex().unlock_after_fork(); },
                                         .child = [] { search().abandon_in_child(); },
                                         .forget = [] { device::renew(search()); }});

void run() {
  auto pause = kShortestPause;
  do {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  } while (search().look(device::now()));
}

/// Where the system gives no thread, the caller waits.
void start_thread() {
  host::LibraryThread thread;
  thread.start("verbatim-seek", run) ? thread.detach() : run();
}

}  // namespace

HostSystem& HostSystem::of_process() {
  return process_wide([] { return new HostSystem; });
}

std::vector<Device*> HostSystem::devices() { return DeviceList::of_process().all(); }

Expected<IpEndpoint, Error> HostSystem::route_source(const IpEndpoint& destination,
                                                     const IpEndpoint& source) {
  return connect::route_source(destination, source);
}

bool HostSystem::is_local(const IpEndpoint& endpoint) { return connect::is_local(endpoint); }

Expected<std::uint16_t, Error> HostSystem::take_port(wire::PortSpace space) {
  const auto taken = given_ports().take(static_cast<std::uint16_t>(space));
  if (!taken) return error_of(taken.error());
  return *taken;
}

void HostSystem::give_port_back(wire::PortSpace space, std::uint16_t port) noexcept {
  given_ports().give_back(static_cast<std::uint16_t>(space), port);
}

void HostSystem::seek_neighbour(Id& id, const Route& route, Duration patience) {
  const wire::Gid& sought = route.destination.address;
  const bool is_known =
      sought.is_multicast() || device::look_up_neighbour(sought) == device::Neighbour::kKnown;
  if (is_known) return id.finish_resolving(route, Ok{});
  auto question = std::make_unique<Knock>(route);
  if (!question->can_ask() || NeighbourSearch::is_found(*question)) {
    return id.finish_resolving(route, Ok{});
  }
  if (search().add(id, route, std::move(question), device::now() + patience)) start_thread();
}

void HostSystem::stop_seeking(Id& id) noexcept { search().remove(id); }

}  // namespace verbatim::connect

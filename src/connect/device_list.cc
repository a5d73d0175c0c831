// SPDX-License-Identifier: Apache-2.0
#include "connect/device_list.h"

#include <algorithm>
#include <string>

#include "base/process_wide.h"
#include "connect/listening.h"
#include "connect/lock.h"
#include "device/config.h"
#include "device/port_watch.h"
#include "device/process.h"

namespace verbatim::connect {

DeviceList& DeviceList::of_process() {
  return process_wide([] { return new DeviceList; });
}

namespace {

const device::TakesPartInForks kInForks(
    {.rank = device::ForkRank::kConnectedDevices,
     .prepare = [] { DeviceList::of_process().mutex().lock_for_fork(); },
     .parent = [] { DeviceList::of_process().mutex().unlock_after_fork(); },
     .child = [] { DeviceList::of_process().abandon_in_child(); },
     .forget = [] { DeviceList::of_process().forget_in_child(); }});

const device::TakesPartInExit kInExit(device::ExitRank::kConnections,
                                      [] { DeviceList::of_process().take_leave(); });

void follow_ports() {
  DeviceList::of_process().refresh();
  Listening::follow_addresses();
}

}  // namespace

void DeviceList::abandon_in_child() {
  inherited_.insert(inherited_.end(), list_.begin(), list_.end());
  list_.clear();
  is_open_ = false;
  mutex_.unlock_after_fork();
}

void DeviceList::forget_in_child() noexcept {
  const Opener opener = opener_;
  device::renew(*this);
  opener_ = opener;
}

void DeviceList::take_leave() {
  if (!device::lock_at_exit(mutex_)) return;
  const std::lock_guard lock(mutex_, std::adopt_lock);
  if (!device::lock_at_exit(connections_mutex())) return;
  const std::lock_guard connections(connections_mutex(), std::adopt_lock);
  for (Device* device : list_) {
    if (!device::lock_at_exit(device->services())) continue;
    const std::lock_guard held(device->services(), std::adopt_lock);
    device->take_leave();
  }
}

void DeviceList::open_new() {
  std::vector<std::uint32_t> known;
  for (const Device* device : list_) known.push_back(device->port().interface_index);
  const auto opened = opener_ != nullptr ? opener_(known) : std::vector<Device*>();
  list_.insert(list_.end(), opened.begin(), opened.end());
  is_open_ = !list_.empty();
}

std::vector<Device*> DeviceList::all() {
  const LockGuard lock(mutex_);
  if (is_open_) return list_;
  open_new();
  device::PortWatch::of_process().set_observer(follow_ports);
  return list_;
}

void DeviceList::refresh() {
  const LockGuard lock(mutex_);
  std::erase_if(list_, [&](Device* device) VB_UNCHECKED_LOCKING {
    const bool is_removed = device->services().is_removed();
    if (is_removed) removed_.push_back(device);
    return is_removed;
  });
  // A configuration that names a device that does not exist is reported to a program that asks for
  // devices. Here no program has asked, so the message is dropped.
  std::string unsaid;
  if (device::read_config(unsaid)) open_new();
}

}  // namespace verbatim::connect

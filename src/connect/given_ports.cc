// SPDX-License-Identifier: Apache-2.0
#include "connect/given_ports.h"

#include "base/process_wide.h"
#include "device/process.h"

namespace verbatim::connect {

host::PortBlocks& given_ports() {
  return process_wide([] { return new host::PortBlocks; });
}

namespace {

const device::TakesPartInForks kPortsInForks(
    {.rank = device::ForkRank::kGivenPorts,
     .prepare = [] { given_ports().mutex().lock_for_fork(); },
     .parent = [] { given_ports().mutex().unlock_after_fork(); },
     .child = [] { given_ports().abandon_in_child(); },
     .forget = [] { device::renew(given_ports()); }});

}  // namespace
}  // namespace verbatim::connect

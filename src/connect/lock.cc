// SPDX-License-Identifier: Apache-2.0
#include "connect/lock.h"

#include "base/process_wide.h"
#include "device/process.h"

namespace verbatim::connect {

ForkMutex& connections_mutex() noexcept {
  return process_wide([] { return new ForkMutex; });
}

Changes& events_acknowledged() noexcept {
  return process_wide([] { return new Changes; });
}

namespace {

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kConnections,
                                         .prepare =
                                             [] {
                                               (void)events_acknowledged();
                                               connections_mutex().lock_for_fork();
                                             },
                                         .parent = [] { connections_mutex().unlock_after_fork(); },
                                         .child =
                                             [] {
                                               device::renew(events_acknowledged());
                                               connections_mutex().unlock_after_fork();
                                             },
                                         .forget =
                                             [] {
                                               device::renew(events_acknowledged());
                                               device::renew(connections_mutex());
                                             }});

}  // namespace
}  // namespace verbatim::connect

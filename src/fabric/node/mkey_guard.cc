// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/mkey_guard.h"

#include <chrono>

namespace verbatim::fabric {
namespace {

constexpr std::uint8_t kHidesTheKey = 1;
constexpr std::uint8_t kHidesAll = 2;  // and above

}  // namespace

bool MKeyGuard::admits(Instant now, wire::PortInfo& info, wire::MadMethod method,
                       wire::MKey key) noexcept {
  if (now >= lease_end_) {
    lease_end_ = Instant::never();
    info.mkey_protection = 0;
  }
  if (info.mkey == wire::MKey{} || info.mkey == key) {
    lease_end_ = Instant::never();
    return true;
  }
  if (method == wire::MadMethod::kGet && info.mkey_protection < kHidesAll) return true;
  if (info.mkey_violations != 0xffff) ++info.mkey_violations;
  if (lease_end_ == Instant::never() && info.mkey_lease_seconds != 0) {
    lease_end_ = now + std::chrono::seconds(info.mkey_lease_seconds);
  }
  return false;
}

bool MKeyGuard::shows(const wire::PortInfo& info, wire::MKey key) noexcept {
  return info.mkey == key || info.mkey_protection < kHidesTheKey;
}

}  // namespace verbatim::fabric

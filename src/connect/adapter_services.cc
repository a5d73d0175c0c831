// SPDX-License-Identifier: Apache-2.0
#include "connect/adapter_services.h"

#include <mutex>
#include <utility>

#include "device/clock.h"

namespace verbatim::connect {

AdapterServices::AdapterServices(std::shared_ptr<device::Adapter> adapter) noexcept
    : adapter_(std::move(adapter)), general_(GeneralServices::of(*adapter_)) {}

Instant AdapterServices::now() const noexcept { return device::now(); }

void AdapterServices::set_reader(Device* reader) noexcept {
  if (reader == nullptr) {
    assume_adapter_role();  // see Services
    return general_.set_reader(nullptr);
  }
  const host::AdapterGuard lock(adapter_->mutex());
  general_.set_reader(reader);
}

Expected<wire::Gid, Error> AdapterServices::find_node(std::uint32_t address) {
  if (auto reached = general_.reach_subnet(); !reached) {
    return error_of(reached.error());
  }
  const auto found = general_.find_node(address);
  if (found) return *found;
  return found.error() == Errc::kNoSuchObject ? Error::kHostUnreachable : error_of(found.error());
}

}  // namespace verbatim::connect

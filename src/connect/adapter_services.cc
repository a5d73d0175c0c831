// SPDX-License-Identifier: Apache-2.0
#include "connect/adapter_services.h"

#include <mutex>
#include <utility>

#include "connect/device.h"
#include "device/clock.h"

namespace verbatim::connect {

AdapterServices::AdapterServices(std::shared_ptr<device::Adapter> adapter) noexcept
    : adapter_(std::move(adapter)) {}

Instant AdapterServices::now() const noexcept { return device::now(); }

void AdapterServices::set_reader(Device* reader) noexcept {
  if (reader == nullptr) return adapter_->gsi().set_reader(nullptr);
  const std::lock_guard lock(adapter_->mutex());
  reader_ = reader;
  adapter_->gsi().set_reader(this);
}

void AdapterServices::handle_news() noexcept { reader_->handle_news(); }

}  // namespace verbatim::connect

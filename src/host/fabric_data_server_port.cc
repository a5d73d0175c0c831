// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_data_server_port.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/fence.h"
#include "base/pointer.h"

namespace verbatim::host {

Status FabricDataServerPort::open() noexcept {
  file_ = Descriptor(::memfd_create("verbatim-data", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  bell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  fabric_bell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const bool is_open = bell_.is_open() && fabric_bell_.is_open() && map();
  return is_open ? Status(Ok{}) : Status(Errc::kNoMemory);
}

bool FabricDataServerPort::map() noexcept {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int file = file_.number();
  if (file < 0 || ::ftruncate(file, sizeof(FabricDataArea)) != 0 ||
      ::fcntl(file, F_ADD_SEALS, kSeals) != 0) {
    return false;
  }
  void* mapped =
      ::mmap(nullptr, sizeof(FabricDataArea), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return false;
  area_ = pointer_as<FabricDataArea>(mapped);
  area_->magic = FabricDataArea::kMagic;
  area_->version = FabricDataArea::kVersion;
  arrivals_ = FabricArrivalWriter(area_);
  return true;
}

FabricDataServerPort::~FabricDataServerPort() {
  if (area_ != nullptr) ::munmap(area_, sizeof(FabricDataArea));
}

/// A count that is too far ahead is nonsense, and looks like nothing.
bool FabricDataServerPort::has_posted() const noexcept {
  const std::uint32_t there = area_->posted.load(std::memory_order_acquire) - posted_;
  return there != 0 && there <= FabricDataArea::kBuffers;  // the acquire pairs with post()
}

auto FabricDataServerPort::take_posted() noexcept -> std::optional<Posted> {
  if (!has_posted()) return std::nullopt;
  const std::uint32_t entry =
      area_->sending[posted_++ % FabricDataArea::kBuffers].load(std::memory_order_relaxed);
  Posted posted;
  posted.buffer = entry >> 16 & 0xff;
  posted.rate = static_cast<std::uint8_t>(entry >> 24);
  posted.octets = entry & 0xffff;
  if (!take(posted.buffer, posted.octets)) {
    ++nonsense_count_;
    return std::nullopt;
  }
  const auto first = packet(posted.buffer).first(posted.start().size());
  std::memcpy(posted.octets_copied.data(), first.data(), first.size());
  return posted;
}

bool FabricDataServerPort::take(std::uint32_t buffer, std::uint32_t octets) noexcept {
  if (buffer >= FabricDataArea::kBuffers || taken_octets_[buffer] != 0) return false;
  if (octets == 0 || octets > FabricDataArea::kBufferOctets) return false;
  taken_octets_[buffer] = static_cast<std::uint16_t>(octets);
  ++taken_count_;
  return true;
}

void FabricDataServerPort::free_buffer(std::uint32_t buffer) noexcept {
  VB_ASSERT(buffer < FabricDataArea::kBuffers && taken_octets_[buffer] != 0);
  taken_octets_[buffer] = 0;
  --taken_count_;
  area_->is_busy[buffer].store(0, std::memory_order_release);  // pairs with next_buffer()
}

auto FabricDataServerPort::take_violations(FabricKey key) noexcept -> Violations {
  const auto at = static_cast<std::size_t>(key);
  const std::uint32_t count = area_->violations[at].count();
  const std::uint32_t before = std::exchange(violations_[at], count);
  return {.count = count - before, .last = area_->violations[at].last()};
}

bool FabricDataServerPort::has_violations() const noexcept {
  for (std::size_t at = 0; at < kFabricKeys; ++at) {
    if (area_->violations[at].count() != violations_[at]) return true;
  }
  return false;
}

/// is_rung is set before the bell is rung. The write may let the process run at once, in place of
/// this thread, and the process must know then that it has a bell to lower.
void FabricDataServerPort::ring() noexcept {
  full_fence();  // what was put is stored before; pairs with the fence in lower_bell()
  if (area_->is_rung.load(std::memory_order_relaxed) != 0) return;
  area_->is_rung.store(1, std::memory_order_release);  // pairs with lower_bell()
  const std::uint64_t one = 1;
  (void)!::write(bell_.number(), &one, sizeof one);  // a full counter is readable as well
}

bool FabricDataServerPort::begin_rest(std::uint32_t wanted_octets) noexcept {
  const std::uint32_t release = wanted_octets != 0 ? FabricDataArea::kAtRelease : 0;
  area_->wants_bell.store(FabricDataArea::kAtPost | release, std::memory_order_relaxed);
  full_fence();  // pairs with those in ring_fabric() and release()
  if (!has_posted() && !has_violations() &&
      (wanted_octets == 0 || !arrivals_.has_room(wanted_octets)))
    return true;
  end_rest();
  return false;
}

void FabricDataServerPort::end_rest() noexcept {
  area_->wants_bell.store(0, std::memory_order_relaxed);
}

}  // namespace verbatim::host

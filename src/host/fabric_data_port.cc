// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_data_port.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/fence.h"
#include "base/pointer.h"
#include "base/uncancelled.h"
#include "host/fabric_greeting.h"
#include "host/fabric_message.h"
#include "host/fabric_transfer.h"
#include "host/ring.h"
#include "host/sealed_file.h"
#include "host/uncancellable.h"

namespace verbatim::host {

Status FabricDataPort::open(const FabricPlace& place, std::string_view node, FabricSeat seat,
                            std::string& message) {
  VB_ASSERT(!is_open());
  const Uncancelled uncancelled;
  FabricHello hello;
  hello.purpose = FabricHello::Purpose::kData;
  hello.port = seat.port;
  hello.slot = seat.slot;
  if (!name_node(hello, node, message)) return Errc::kNoDevice;
  auto welcome = greet_fabric(place, hello, message);
  if (!welcome) return welcome.error();
  auto& [area, bell, fabric_bell] = welcome->data;
  if (!map(area.number(), welcome->page.number())) {
    close();
    message = "the system does not map the memory of a port of fabric " + place.name() +
              "; check `ulimit -v` and, if the program locks its memory (mlockall), `ulimit -l`";
    return Errc::kNoMemory;
  }
  node_ = welcome->node;
  connection_ = OwnDescriptor(welcome->connection.release());
  bell_ = OwnDescriptor(bell.release());
  fabric_bell_ = OwnDescriptor(fabric_bell.release());
  return Ok{};
}

bool FabricDataPort::map(int area, int page) noexcept {
  if (octets_of_sealed(area) != sizeof(FabricDataArea)) return false;
  if (octets_of_sealed(page) < FabricPage::kOctets) return false;
  if (!mapping_.map(area, sizeof(FabricDataArea))) return false;
  area_ = pointer_as<FabricDataArea>(mapping_.begin());
  if (!mapping_.open_up_to(sizeof(FabricDataArea))) return false;
  void* state = ::mmap(nullptr, FabricPage::kOctets, PROT_READ, MAP_SHARED, page, 0);
  if (state == MAP_FAILED) return false;
  page_ = static_cast<const FabricPage*>(state);
  arrivals_ = FabricArrivalReader(area_);
  next_ = posted_ = 0;
  has_ended_ = false;
  return area_->magic == FabricDataArea::kMagic && area_->version == FabricDataArea::kVersion;
}

/// The fabric gives the seat away at once, although a child that was forked a moment ago may not
/// have closed its descriptor yet.
void FabricDataPort::close() noexcept {
  if (is_open()) hang_up();
  if (page_ != nullptr) ::munmap(const_cast<FabricPage*>(page_), FabricPage::kOctets);
  page_ = nullptr;
  mapping_.unmap();
  area_ = nullptr;
  connection_.close();
  bell_.close();
  fabric_bell_.close();
}

void FabricDataPort::abandon_in_child() noexcept {
  if (!is_open()) return;
  mapping_.replace_in_child(-1);
  has_ended_ = true;
  connection_.close();
  bell_.close();
  fabric_bell_.close();
}

std::span<std::byte> FabricDataPort::next_buffer() noexcept {
  if (!is_open() || has_ended_) return {};
  for (std::uint32_t tries = 0; tries < FabricDataArea::kBuffers; ++tries) {
    // The acquire pairs with the release in free_buffer().
    if (area_->is_busy[next_].load(std::memory_order_acquire) == 0) return area_->buffers[next_];
    next_ = (next_ + 1) % FabricDataArea::kBuffers;
  }
  return {};
}

void FabricDataPort::post(std::size_t octets, std::uint8_t rate) noexcept {
  VB_ASSERT(is_open() && octets > 0 && octets <= kBufferOctets);
  const std::uint32_t entry =
      std::uint32_t{rate} << 24 | next_ << 16 | static_cast<std::uint32_t>(octets);
  area_->is_busy[next_].store(1, std::memory_order_relaxed);
  area_->sending[posted_ % FabricDataArea::kBuffers].store(entry, std::memory_order_relaxed);
  area_->posted.store(++posted_, std::memory_order_release);  // pairs with has_posted()
  next_ = (next_ + 1) % FabricDataArea::kBuffers;
}

void FabricDataPort::report(FabricKey key, const FabricKeyViolation& violation) noexcept {
  if (!is_open()) return;
  area_->violations[static_cast<std::size_t>(key)].add(violation);
  ring_fabric();
}

void FabricDataPort::ring_fabric() noexcept { ring_if(FabricDataArea::kAtPost); }

/// After a store that the fabric looks for before it rests.
void FabricDataPort::ring_if(std::uint32_t wanted) noexcept {
  if (!is_open()) return;
  full_fence();  // pairs with the fence in begin_rest()
  if ((area_->wants_bell.load(std::memory_order_relaxed) & wanted) == 0) return;
  if (area_->wants_bell.exchange(0, std::memory_order_relaxed) != 0) ring(fabric_bell_);
}

std::size_t FabricDataPort::free_buffer_count() const noexcept {
  if (!is_open()) return 0;
  const auto is_free = [](const auto& flag) { return flag.load(std::memory_order_relaxed) == 0; };
  return static_cast<std::size_t>(std::ranges::count_if(area_->is_busy, is_free));
}

bool FabricDataPort::has_free_buffers(std::size_t count) const noexcept {
  if (!is_open()) return count == 0;
  for (std::uint32_t tries = 0; tries < FabricDataArea::kBuffers && count > 0; ++tries) {
    const auto& flag = area_->is_busy[(next_ + tries) % FabricDataArea::kBuffers];
    if (flag.load(std::memory_order_relaxed) == 0) --count;
  }
  return count == 0;
}

std::span<const std::span<const std::byte>> FabricDataPort::receive() noexcept {
  if (!is_open()) return {};
  std::size_t count = 0;
  while (count < kBurst) {
    burst_[count] = arrivals_.next();
    if (burst_[count].empty()) break;
    ++count;
  }
  if (arrivals_.is_broken()) [[unlikely]]
    hang_up();
  return std::span(burst_).first(count);
}

/// As if the fabric had ended: connection() becomes readable.
void FabricDataPort::hang_up() noexcept {
  has_ended_ = true;
  if (!connection_.is_still_own()) return;
  const int before = errno;
  (void)::shutdown(connection_.number(), SHUT_RDWR);
  errno = before;
}

void FabricDataPort::release() noexcept {
  if (!is_open() || !arrivals_.has_unreleased()) return;
  arrivals_.release();
  ring_if(FabricDataArea::kAtRelease);
}

/// The bell is read before is_rung is cleared: a ring that follows must not be read with it. If
/// is_rung is set and the bell cannot be read, the fabric is about to ring it, and is_rung stays.
bool FabricDataPort::lower_bell() noexcept {
  if (!is_open()) return true;
  if (area_->is_rung.load(std::memory_order_acquire) != 0 && read_bell()) {  // pairs with ring()
    area_->is_rung.store(0, std::memory_order_relaxed);
    full_fence();  // pairs with the fence in ring()
  }
  return arrivals_.is_empty();
}

bool FabricDataPort::read_bell() noexcept {
  if (!bell_.is_still_own()) return false;
  const int before = errno;
  std::uint64_t count = 0;
  const long got = ::syscall(SYS_read, bell_.number(), &count, sizeof count);
  errno = before;
  return got == static_cast<long>(sizeof count);
}

bool FabricDataPort::take_change() noexcept {
  if (!is_open()) return false;
  if (!connection_.is_still_own()) {
    has_ended_ = true;
    return false;
  }
  const int before = errno;
  bool has_changed = false;
  for (;;) {
    FabricNews news;
    const ssize_t got = uncancellable::recv(connection_.number(), &news, sizeof news, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) has_ended_ = true;
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    has_changed = has_changed || got > 0;
  }
  errno = before;
  return has_changed;
}

bool FabricDataPort::tell_claim(std::uint32_t service, bool listens) noexcept {
  if (!is_open() || has_ended_ || !connection_.is_still_own()) return false;
  const FabricClaim claim{.service = service, .listens = listens ? 1U : 0U};
  const int before = errno;
  const bool is_told =
      send_parts(connection_.number(), octets_of(claim), {}, -1) == Transfer::kDone;
  errno = before;
  return is_told;
}

std::optional<FabricNodeState> FabricDataPort::state() const noexcept {
  return page_ != nullptr ? page_->read() : std::nullopt;
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "direct/reach.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/bulk_copy.h"
#include "base/fence.h"
#include "base/pointer.h"
#include "host/uncancellable.h"

namespace verbatim::direct {
namespace {

constexpr std::size_t kCallPieceLimit = 64;  // in one call; a request has fewer
constexpr std::size_t kTailOctets = 8;
// Memory that its owner is moving is absent for a while. The call is repeated this often, each time
// a tenth of a millisecond later. Then an errand is used: the owner's own thread waits for the page
// as long as that takes, and its fault handler finds out if the page does not exist.
constexpr int kTriesWhileMoving = 100;

// The most of a region that is mapped at once.
constexpr std::uint64_t kMapOctets = std::uint64_t{1} << 30;

/// Faults if memory of this process is not mapped; the caller's fault guard handles the fault.
/// Waits for a page that is missing because it moves (rehome/page_mover.h); only system calls fail
/// there. An octet that is stored again is exchanged for itself atomically: what another thread
/// stores at that moment stays.
void touch_own(std::span<const iovec> pieces, bool stores) noexcept {
  constexpr std::size_t kPage = 4096;
  for (const iovec& piece : pieces) {
    auto* at = static_cast<std::byte*>(piece.iov_base);
    for (std::size_t done = 0; done < piece.iov_len;
         done += kPage - numeric_address(at + done) % kPage) {
      const std::atomic_ref octet(*pointer_as<std::uint8_t>(at + done));
      std::uint8_t value = octet.load(std::memory_order_relaxed);
      while (stores && !octet.compare_exchange_weak(value, value, std::memory_order_relaxed)) {
      }
    }
  }
}

/// Where a transfer begins, its length, and the permission for it.
struct Transfer {
  std::uint64_t address = 0;
  std::uint64_t octets = 0;
  const Permission& permission;
};

/// Repeats the call until all octets are moved: a call stops at the first page that is absent. The
/// permission is checked before each call but the first, for which the caller has checked it: where
/// a page was absent, other memory may be mapped by the next call.
template <typename Call>
Reached move_all(Call&& call, std::span<iovec> pieces, bool stores, Transfer transfer) noexcept {
  auto [address, octets, permission] = transfer;
  int tries = 0;
  for (bool is_first = true; octets > 0; is_first = false) {
    if (!is_first && !permission.lasts()) return Reached::kRevoked;
    const ssize_t moved = call(pieces, static_cast<off_t>(address));
    if (moved == 0) return Reached::kGone;  // the address space no longer exists
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EFAULT) {
      touch_own(pieces, stores);
      if (++tries == kTriesWhileMoving) return Reached::kNotMapped;
      continue;
    }
    if (moved < 0 && errno != EIO) return Reached::kForbidden;
    if (moved < 0 && ++tries == kTriesWhileMoving) return Reached::kForbidden;
    if (moved < 0) {  // the owner may be moving the page
      const timespec nap{.tv_sec = 0, .tv_nsec = 100'000};
      host::uncancellable::nanosleep(nap);
      continue;
    }
    tries = 0;
    auto left = static_cast<std::size_t>(moved);
    address += left;
    octets -= left;
    while (!pieces.empty() && left >= pieces.front().iov_len) {
      left -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (!pieces.empty()) {
      pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + left;
      pieces.front().iov_len -= left;
    }
  }
  return Reached::kYes;
}

void store_tail(std::byte* to, const std::byte* from, std::size_t octets) noexcept {
  const auto store = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, from, sizeof value);
    std::atomic_ref(*pointer_as<T>(to)).store(value, std::memory_order_release);
  };
  // One store only where it is aligned: elsewhere a store-release faults on Arm.
  const bool is_aligned = numeric_address(to) % octets == 0;
  switch (is_aligned ? octets : 0) {
    case 8:
      return store(std::uint64_t{});
    case 4:
      return store(std::uint32_t{});
    case 2:
      return store(std::uint16_t{});
    case 1:
      return store(std::uint8_t{});
    default:
      std::memcpy(to, from, octets - 1);
      return store_tail(to + octets - 1, from + octets - 1, 1);
  }
}

}  // namespace

void store_in_order(std::byte* to, const std::byte* from, std::size_t octets) noexcept {
  if (octets == 0) return;
  // The tail begins at a multiple of eight, so that one store can write it.
  const std::size_t past = (numeric_address(to) + octets) % kTailOctets;
  const std::size_t tail = std::min(octets, past == 0 ? kTailOctets : past);
  if (octets > tail) bulk_copy(to, from, octets - tail);
  store_tail(to + (octets - tail), from + (octets - tail), tail);
}

Reach Reach::own() noexcept {
  Reach reach;
  reach.is_own_ = true;
  return reach;
}

std::byte* Reach::look_up(std::uint64_t shared_at, std::uint64_t octets) noexcept {
  const host::ArenaViews::View view = arena_->find(shared_at, octets);
  if (view.at == nullptr) return nullptr;
  known_[shared_at / kKnownGrain % known_.size()] = view;
  return view.at + (shared_at - view.first);
}

void Reach::map(memory::KnownRegion& known, std::uint64_t address) noexcept {
  const memory::LiveEntry& region = known.copy;
  if (is_own_) {
    known.map(pointer_as<std::byte>(static_cast<std::uintptr_t>(region.local)), 0, region.octets);
    return;
  }
  memory::SharedPart part = memory::shared_part(region);
  const std::uint64_t offset = address - region.base;
  if (offset < part.offset || offset - part.offset >= part.octets) return;
  const std::uint64_t window = (offset - part.offset) / kMapOctets * kMapOctets;
  part = {.offset = part.offset + window, .octets = std::min(part.octets - window, kMapOctets)};
  std::byte* const at = look_up(region.shared_at + part.offset, part.octets);
  if (at != nullptr) known.map(at, part.offset, part.octets);
}

Reached Reach::write(const memory::Grant& to, std::span<const iovec> pieces,
                     std::uint64_t octets) noexcept {
  if (octets == 0) return Reached::kYes;
  if (std::byte* at = pointer(to, octets); at != nullptr) {
    touched_ = {at, octets};
    for (const iovec& piece : pieces) {
      store_in_order(at, static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
      at += piece.iov_len;
    }
    return Reached::kYes;
  }
  return Reached::kByCall;
}

/// Two calls, the body and then the tail: the order of the stores within one call is unspecified.
Reached Reach::write_by_call(std::uint64_t address, std::span<const iovec> pieces,
                             std::uint64_t octets, bool is_end,
                             const Permission& permission) const noexcept {
  if (memory_ < 0 || pieces.size() > kCallPieceLimit) return Reached::kForbidden;
  std::array<iovec, kCallPieceLimit> copy;
  std::ranges::copy(pieces, copy.begin());
  std::span<iovec> body(copy.data(), pieces.size());
  std::array<std::byte, kTailOctets> tail{};
  const std::size_t tail_octets =
      is_end ? std::min<std::uint64_t>({octets, kTailOctets, body.back().iov_len}) : 0;
  body.back().iov_len -= tail_octets;
  std::memcpy(tail.data(),
              static_cast<const std::byte*>(body.back().iov_base) + body.back().iov_len,
              tail_octets);
  const auto call = [&](std::span<iovec> local, off_t at) {
    return host::uncancellable::pwritev(memory_, local.data(), static_cast<int>(local.size()), at);
  };
  const std::uint64_t body_octets = octets - tail_octets;
  full_fence();  // stores so far become visible before those of the kernel
  const Reached moved = move_all(
      call, body, false, {.address = address, .octets = body_octets, .permission = permission});
  if (moved != Reached::kYes || tail_octets == 0) return moved;
  if (body_octets > 0 && !permission.lasts()) return Reached::kRevoked;
  iovec last{.iov_base = tail.data(), .iov_len = tail_octets};
  return move_all(
      call, {&last, 1}, false,
      {.address = address + body_octets, .octets = tail_octets, .permission = permission});
}

Reached Reach::read(const memory::Grant& from, std::span<const iovec> pieces,
                    std::uint64_t octets) noexcept {
  if (octets == 0) return Reached::kYes;
  if (const std::byte* at = pointer(from, octets); at != nullptr) {
    touched_ = {at, octets};
    for (const iovec& piece : pieces) {
      bulk_copy(static_cast<std::byte*>(piece.iov_base), at, piece.iov_len);
      at += piece.iov_len;
    }
    return Reached::kYes;
  }
  return Reached::kByCall;
}

Reached Reach::read_by_call(std::uint64_t address, std::span<const iovec> pieces,
                            std::uint64_t octets, const Permission& permission) const noexcept {
  if (memory_ < 0 || pieces.size() > kCallPieceLimit) return Reached::kForbidden;
  std::array<iovec, kCallPieceLimit> copy;
  std::ranges::copy(pieces, copy.begin());
  const auto call = [&](std::span<iovec> local, off_t at) {
    return host::uncancellable::preadv(memory_, local.data(), static_cast<int>(local.size()), at);
  };
  return move_all(call, {copy.data(), pieces.size()}, true,
                  {.address = address, .octets = octets, .permission = permission});
}

}  // namespace verbatim::direct

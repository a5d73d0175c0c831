// SPDX-License-Identifier: Apache-2.0
#include "host/port_blocks.h"

#include <unistd.h>

#include <utility>

namespace verbatim::host {

namespace {

/// A block is held like a service, at an address that no host has.
constexpr std::uint64_t kBlockService = std::uint64_t{1} << 63;

}  // namespace

Expected<std::uint16_t> PortBlocks::take_from(Block& block) noexcept {
  // In a circle: a port that was just given back is the last one to be given again.
  for (std::uint32_t tried = 0; tried < kBlockPorts; ++tried) {
    const std::uint32_t index = block.next++ % kBlockPorts;
    const std::uint64_t bit = std::uint64_t{1} << index;
    if ((block.taken & bit) != 0) continue;
    block.taken |= bit;
    return static_cast<std::uint16_t>(block.first_port + index);
  }
  return Errc::kAddressInUse;
}

Expected<std::uint16_t> PortBlocks::take(std::uint16_t space) {
  const LockGuard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.space != space || ~block.taken == 0) continue;
    return take_from(block);
  }
  auto taken = take_block(space, true);
  const bool is_none_left = !taken && taken.error() == Errc::kAddressInUse;
  return is_none_left ? take_block(space, false) : std::move(taken);
}

/// With `for_all_users`, the block is also exclusive among all users, so that listeners of two
/// users do not get the same port. Any user can occupy the public names; where no such block is
/// left, the caller takes one that is exclusive only among the processes of this user.
Expected<std::uint16_t> PortBlocks::take_block(std::uint16_t space, bool for_all_users) {
  const auto start = static_cast<std::uint32_t>(::getpid()) * 7U;  // differs between processes
  for (std::uint32_t tried = 0; tried < kBlockCount; ++tried) {
    const std::uint32_t number = (start + tried) % kBlockCount;
    const Service block{.address = {}, .id = kBlockService | std::uint64_t{space} << 16 | number};
    auto name = ServiceName::claim(block);
    if (!name && name.error() == Errc::kAddressInUse) continue;
    if (!name) return name.error();
    auto box = for_all_users ? RequestBox::open(block, ::geteuid()) : RequestBox();
    if (!box && box.error() == Errc::kAddressInUse) continue;
    blocks_.push_back({.space = space,
                       .first_port = static_cast<std::uint16_t>(kFirstPort + number * kBlockPorts),
                       .name = std::move(*name),
                       .public_name = box ? std::move(*box) : RequestBox()});
    return take_from(blocks_.back());
  }
  return Errc::kAddressInUse;
}

void PortBlocks::give_back(std::uint16_t space, std::uint16_t port) noexcept {
  const LockGuard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.space != space || port < block.first_port) continue;
    const unsigned index = static_cast<unsigned>(port - block.first_port);
    if (index < kBlockPorts) block.taken &= ~(std::uint64_t{1} << index);
  }
}

void PortBlocks::abandon_in_child() noexcept {
  blocks_.clear();
  mutex_.unlock();  // locked by the thread that forked
}

}  // namespace verbatim::host

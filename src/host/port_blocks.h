// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "host/request_box.h"
#include "host/service_name.h"

namespace verbatim::host {

/// Ports for callers that accept any port; unique among the processes on this host. A process takes
/// them in blocks, so that thousands of connections cost a handful of names. A process keeps a
/// block until it ends; then the kernel frees it.
///
/// The range is the one that Linux uses for sockets. Any thread.
class PortBlocks {
 public:
  static constexpr std::uint16_t kFirstPort = 32768;
  static constexpr std::uint16_t kBlockPorts = 64;
  static constexpr std::uint32_t kBlockCount = 441;  // up to port 60991

  /// A port of `space` that is not in use on this host. kAddressInUse when there is none.
  [[nodiscard]] Expected<std::uint16_t> take(std::uint16_t space);
  void give_back(std::uint16_t space, std::uint16_t port) noexcept;
  /// Held while the process forks.
  [[nodiscard]] ForkMutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  /// In a forked child: the blocks are the parent's.
  void abandon_in_child() noexcept VB_UNCHECKED_LOCKING;

 private:
  struct Block {
    std::uint16_t space = 0;
    std::uint16_t first_port = 0;
    std::uint64_t taken = 0;  // one bit per port
    std::uint32_t next = 0;   // index at which the search for a free port begins
    ServiceName name;
    RequestBox public_name;  // reserves the block among all users; never read
  };
  [[nodiscard]] Expected<std::uint16_t> take_block(std::uint16_t space, bool for_all_users)
      VB_REQUIRES(mutex_);
  [[nodiscard]] static Expected<std::uint16_t> take_from(Block& block) noexcept;

  ForkMutex mutex_;
  std::vector<Block> blocks_ VB_GUARDED_BY(mutex_);
};

}  // namespace verbatim::host

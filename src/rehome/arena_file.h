// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rehome/arena.h"
#include "rehome/system_call.h"
#include "rehome/watch.h"

namespace verbatim::rehome {

/// The file of the arena for the time of a fork: the descriptor of the arena, or, if the program
/// has closed that one, another that is opened for the fork.
class ArenaFile {
 public:
  /// False when the system gives no descriptor.
  [[nodiscard]] bool open(const Arena& arena, const Watch& watch) noexcept {
    number_ = arena.descriptor();
    if (arena.is_intact()) return true;
    opened_.reset(watch.open_arena());
    number_ = opened_.number();
    return opened_.is_open();
  }
  void close() noexcept { opened_.close(); }
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_ = -1;
  kernel::Descriptor opened_{-EBADF};
};

}  // namespace verbatim::rehome

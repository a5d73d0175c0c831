// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "host/descriptor.h"
#include "host/fabric_place.h"

namespace verbatim::host {

/// The issm files of a fabric: one FIFO per port. A subnet manager opens the one of its port for
/// reading and keeps it open while it runs. inotify(7) reports the opening. The fabric then holds
/// the writing end, on which epoll(7) reports an error once no process has the reading end any
/// more, so also when the subnet manager was killed.
///
/// Thread: one.
class FabricSmFiles {
 public:
  struct Change {
    std::uint32_t node = 0;
    std::uint32_t port = 0;
    bool is_sm = false;
  };

  /// `epoll` is the caller's; the data of an event is `tag` in the upper half and handle()'s
  /// argument in the lower. False when the system refuses.
  [[nodiscard]] bool open(const FabricPlace& place, int epoll, std::uint32_t tag);
  /// Makes the FIFO of a port, unless it is there.
  [[nodiscard]] bool add(std::uint32_t node, std::uint32_t port);
  /// Removes the files.
  void close() noexcept;

  void handle(std::uint32_t which);
  [[nodiscard]] std::optional<Change> poll_change();

 private:
  struct File {
    std::string name;
    Descriptor writer;  // open while a subnet manager runs
    bool is_reported = false;
  };
  using Key = std::pair<std::uint32_t, std::uint32_t>;

  void read_openings();
  void look(File& file);

  std::optional<FabricPlace> place_;
  int epoll_ = -1;
  std::uint32_t tag_ = 0;
  Descriptor watch_;
  std::map<Key, File> files_;
};

}  // namespace verbatim::host

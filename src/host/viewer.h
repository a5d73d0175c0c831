// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "host/slot.h"

namespace verbatim::host {

/// One who looks at the processes of this user on this host and takes no part: it has no slot, and
/// reads their segments by system calls, so that it neither changes them nor makes them larger, and
/// nothing that they do with them can hurt it.
///
/// Thread: one at a time.
class Viewer {
 public:
  struct Sight {
    enum class Kind : std::uint8_t {
      kShown,
      kSilent,  // does not answer: it is stopped, or very busy
      // Shows nothing: it is of another version, or about to begin or to end, or the kernel does
      // not let this process look into it (Challenge).
      kHidden,
    };
    std::uint32_t slot = 0;
    Kind kind = Kind::kHidden;
    int process = 0;           // its number in our process namespace; 0: none, or unknown
    int segment = -1;          // kShown; the viewer's
    std::uint64_t octets = 0;  // of the segment
  };

  Viewer() noexcept : places_(kSlotCount) {}
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;
  ~Viewer();

  /// Who is there, by slot; what it says is good until the next look. Waits for all who do not
  /// answer together, so long at most.
  [[nodiscard]] std::vector<Sight> look(Duration patience);

 private:
  /// What is known of a slot.
  struct Place {
    int connection = -1;         // to its door
    bool is_challenged = false;  // and has answered
    Sight sight{};
    [[nodiscard]] bool is_asked() const noexcept {
      return connection >= 0 && sight.kind == Sight::Kind::kSilent;
    }
  };
  void knock(Place& place) noexcept;
  void await_answers(Duration patience);
  void take_answer(Place& place) noexcept;
  static void forget(Place& place) noexcept;

  std::vector<Place> places_;  // by slot
};

}  // namespace verbatim::host

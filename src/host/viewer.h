// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "host/slot.h"

namespace verbatim::host {

/// Reads the segments of the processes of this user on this host, without being a peer: it has no
/// slot. It reads by system calls, so it neither changes the segments nor makes them larger, and
/// changes that a process makes meanwhile cannot harm the viewer.
///
/// Thread: one at a time.
class Viewer {
 public:
  struct Sight {
    enum class Kind : std::uint8_t {
      kShown,
      kSilent,  // does not answer: it is stopped, or very busy
      // Refuses: it is of another version, or is starting or ending, or the kernel does not let
      // this process look into it (Challenge).
      kHidden,
    };
    std::uint32_t slot = 0;
    Kind kind = Kind::kHidden;
    int process = 0;           // its number in this process namespace; 0: none, or unknown
    int segment = -1;          // if kShown; the viewer keeps it
    std::uint64_t octets = 0;  // of the segment
  };

  Viewer() noexcept : places_(kSlotCount) {}
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;
  ~Viewer();

  /// The processes, by slot. The result is valid until the next look. Waits for all processes
  /// together, at most `patience`.
  [[nodiscard]] std::vector<Sight> look(Duration patience);

 private:
  /// The state of one slot.
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

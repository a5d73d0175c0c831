// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "connect/error.h"
#include "wire/cm_ids.h"
#include "wire/ids.h"

namespace verbatim::connect {

/// The queue pair of an id, as connecting moves it through its states. The border implements it: it
/// knows what the program has given the id. An id without a queue pair has nothing to move, and all
/// commands succeed.
class PairControl {
 public:
  /// READs and atomics at a time; nothing: what both ends have agreed.
  struct Depths {
    std::optional<std::uint8_t> responder_resources{};
    std::optional<std::uint8_t> initiator_depth{};
  };

  [[nodiscard]] virtual bool has_pair() const noexcept = 0;
  /// To RTS, with the settings that both ends have agreed.
  [[nodiscard]] virtual Outcome make_ready(const Depths& depths) = 0;
  virtual Outcome enter_error() = 0;
  [[nodiscard]] virtual Outcome attach(const wire::Gid& group) = 0;
  virtual void detach(const wire::Gid& group) noexcept = 0;
  /// The first packet of the peer says that the communication is established. With the lock of the
  /// device held.
  virtual void await_data(wire::CommId communication) noexcept = 0;

 protected:
  ~PairControl() = default;
};

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "connect/error.h"
#include "wire/cm/cm_ids.h"
#include "wire/headers/ids.h"

namespace verbatim::connect {

/// The queue pair of an id and its states. The border implements it. All commands succeed for an id
/// without a queue pair.
class PairControl {
 public:
  /// READs and atomics at a time. Nothing: the numbers that both ends have agreed on.
  struct Depths {
    std::optional<std::uint8_t> responder_resources{};
    std::optional<std::uint8_t> initiator_depth{};
  };

  [[nodiscard]] virtual bool has_pair() const noexcept = 0;
  /// Takes it to RTS, with the settings that both ends have agreed on.
  [[nodiscard]] virtual Outcome make_ready(const Depths& depths) = 0;
  virtual Outcome enter_error() = 0;
  [[nodiscard]] virtual Outcome attach(const wire::Gid& group) = 0;
  virtual void detach(const wire::Gid& group) noexcept = 0;
  /// The first packet from the peer establishes the communication. With the lock of the device
  /// held.
  virtual void await_data(wire::CommId communication) noexcept = 0;

 protected:
  ~PairControl() = default;
};

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/time.h"
#include "link/packet_burst.h"
#include "udp/shared_port.h"

namespace verbatim::link {

/// How much the processes of this host can take from one that sends without hearing of losses (UC,
/// UD): the place of flow control on a lossless fabric. Every process holds every slot's socket
/// (docs/decisions/0007), so the sender sees how full the receiver's buffer is, and waits while it
/// is half full; the other half is for reliable senders, and for those who looked at the same time.
///
/// A receiver that takes nothing for kPatience is given up until it does again: what it is sent
/// then is lost where the network would lose it. Receivers of other hosts are not known here.
///
/// One thread at a time.
class Backpressure {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  /// When to look again at a receiver that has no room: a fraction of what fills its buffer.
  static constexpr Duration kNextLook = std::chrono::microseconds(50);
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

  explicit Backpressure(SharedPort& port) noexcept : port_(port) {}

  struct Receiver {
    LocalAddress address{};
    std::uint32_t slot = 0;
    friend bool operator==(const Receiver&, const Receiver&) = default;
  };
  /// What may be sent there at once before the next look, in octets of charge(): at least one
  /// packet unless it is 0. kUnlimited when the receiver is not known.
  [[nodiscard]] std::size_t room_at(const Receiver& receiver, Instant now);

  /// The most that the system counts for so many packets: their buffers are rounded up to powers of
  /// two, and something describes them.
  [[nodiscard]] static constexpr std::size_t charge(const Load& load) noexcept {
    return 2 * load.octets + 1280 * load.packets;
  }

 private:
  struct Full {
    Receiver receiver{};
    Instant since{};
  };
  void forget(const Receiver& receiver) noexcept;

  SharedPort& port_;
  std::vector<Full> full_;  // those that had no room when looked at last
};

}  // namespace verbatim::link

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

/// How much a process of this host may send to another one by services that do not report losses
/// (UC, UD). It takes the place of the flow control of a lossless fabric. Every process holds every
/// slot's socket (docs/decisions/0007), so the sender sees how full the receiver's buffer is, and
/// waits while it is half full. The other half is for reliable senders, and for several senders
/// that look at the same time.
///
/// The sender no longer waits for a receiver that has taken nothing for kPatience, until that
/// receiver takes something again. Packets may be lost then, as in a network. Receivers on other
/// hosts are not known here.
///
/// One thread at a time.
class Backpressure {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  /// When to look again at a receiver that has no room: a fraction of the time that fills its
  /// buffer.
  static constexpr Duration kNextLook = std::chrono::microseconds(50);
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

  explicit Backpressure(SharedPort& port) noexcept : port_(port) {}

  struct Receiver {
    LocalAddress address{};
    std::uint32_t slot = 0;
    friend bool operator==(const Receiver&, const Receiver&) = default;
  };
  /// How much may be sent there before the next look, in octets of charge(): 0, or enough for one
  /// packet. kUnlimited when the receiver is not known.
  [[nodiscard]] std::size_t room_at(const Receiver& receiver, Instant now);

  /// The most that the system counts for these packets: it rounds their buffers up to powers of two
  /// and adds a descriptor for each.
  [[nodiscard]] static constexpr std::size_t charge(const Load& load) noexcept {
    return 2 * load.octets + 1280 * load.packets;
  }

 private:
  struct FullReceiver {
    Receiver receiver{};
    Instant since{};
  };
  void forget(const Receiver& receiver) noexcept;

  SharedPort& port_;
  std::vector<FullReceiver> full_;  // receivers that had no room at the last look
};

}  // namespace verbatim::link

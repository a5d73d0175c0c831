// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "base/expected.h"
#include "wire/ids.h"

namespace verbatim::link {

/// One local address that packets leave from and arrive at.
struct LocalAddress {
  wire::Gid gid{};
  std::uint32_t scope = 0;  // interface index, for link-local IPv6
};

/// A UDP socket of RoCEv2, for one of its two uses. Owns the descriptor, which does not block and
/// is closed on exec.
class UdpSocket {
 public:
  /// What a sending socket gives a packet that asks for nothing else.
  static constexpr std::uint8_t kDefaultTrafficClass = 0;
  static constexpr std::uint8_t kDefaultHopLimit = 64;

  UdpSocket() noexcept = default;
  UdpSocket(UdpSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  UdpSocket& operator=(UdpSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;
  ~UdpSocket();

  /// Receives on `port`, shared with the other processes of this user: the kernel gives a packet to
  /// the n-th socket that was bound, n being the upper octet of its destination queue pair number,
  /// and to any of them when there is none.
  [[nodiscard]] static Expected<UdpSocket> open_receiver(const LocalAddress& address,
                                                         std::uint16_t port) noexcept;
  /// Sends from `port`, and takes nothing in. Over IPv4 "don't fragment" is set and the
  /// identification is 0; that holds for a socket that is not connected, and ours never is.
  [[nodiscard]] static Expected<UdpSocket> open_sender(const LocalAddress& address,
                                                       std::uint16_t port) noexcept;

  /// From now on packets of one flow that came together are read together (UDP GRO), with their
  /// length beside them. False where the system cannot do that.
  [[nodiscard]] bool keep_trains() noexcept;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  [[nodiscard]] Status create(const LocalAddress& address) noexcept;
  [[nodiscard]] Status bind_to(const LocalAddress& address, std::uint16_t port) noexcept;
  [[nodiscard]] bool set(int level, int option, int value) noexcept;
  void enlarge(int forced, int ordinary, int octets) noexcept;
  [[nodiscard]] bool steer_by_slot() noexcept;

  int descriptor_ = -1;
};

}  // namespace verbatim::link

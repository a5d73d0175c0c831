// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "fabric/management_packet.h"
#include "wire/crc/icrc.h"
#include "wire/headers/bth.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/packet.h"

namespace verbatim::fabric {

/// A management datagram as a packet on a link, from the LRH to the ICRC (IBA Vol 1, 9.8.3 and
/// 13.5.3). Its packet sequence number is 0: receivers of datagrams do not check it.
class DatagramOctets {
 public:
  DatagramOctets(const ManagementPacket& packet, wire::VirtualLane lane) noexcept;
  [[nodiscard]] std::span<const std::byte> octets() const noexcept {
    return std::span(octets_).first(used_);
  }

 private:
  static constexpr std::size_t kMost = wire::Lrh::kSize + wire::Grh::kSize + wire::Bth::kSize +
                                       wire::Deth::kSize + wire::Mad::kSize + wire::kIcrcSize;
  std::array<std::byte, kMost> octets_{};
  std::size_t used_ = 0;
};

}  // namespace verbatim::fabric

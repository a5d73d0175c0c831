// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstring>

#include "device/adapter.h"

namespace verbatim::abi {

/// What an address vector of the verbs names. The caller sets the entropy.
[[nodiscard]] inline device::Destination destination_of(const ibv_ah_attr& attr) noexcept {
  device::Destination to{.is_global = attr.is_global != 0,
                         .gid_index = attr.grh.sgid_index,
                         .gid = {},
                         .traffic_class = attr.grh.traffic_class,
                         .hop_limit = attr.grh.hop_limit,
                         .flow_label = attr.grh.flow_label,
                         .lid = wire::Lid{attr.dlid},
                         .level = wire::ServiceLevel{static_cast<std::uint8_t>(attr.sl & 0xf)},
                         .path_bits = static_cast<std::uint8_t>(attr.src_path_bits & 0x7f),
                         .rate = attr.static_rate};
  std::memcpy(to.gid.octets.data(), attr.grh.dgid.raw, sizeof attr.grh.dgid.raw);
  return to;
}

}  // namespace verbatim::abi

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstring>

#include "device/adapter.h"

namespace verbatim::abi {

/// What an address vector of the verbs names; kInvalidArgument without a global route. The caller
/// sets the entropy.
[[nodiscard]] inline Expected<device::Adapter::Destination> destination_of(
    const ibv_ah_attr& attr) noexcept {
  if (attr.is_global == 0) return Errc::kInvalidArgument;
  device::Adapter::Destination to{.gid_index = attr.grh.sgid_index,
                                  .gid = {},
                                  .traffic_class = attr.grh.traffic_class,
                                  .hop_limit = attr.grh.hop_limit,
                                  .flow_label = attr.grh.flow_label};
  std::memcpy(to.gid.octets.data(), attr.grh.dgid.raw, sizeof attr.grh.dgid.raw);
  return to;
}

}  // namespace verbatim::abi

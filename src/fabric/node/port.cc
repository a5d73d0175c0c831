// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/port.h"

#include <algorithm>
#include <span>

#include "base/byte_order.h"

namespace verbatim::fabric {

bool Port::is_in_partition(wire::PKey pkey) const noexcept {
  return std::ranges::any_of(pkeys,
                             [pkey](wire::PKey own) { return wire::pkeys_match(own, pkey); });
}

wire::Gid Port::gid(std::size_t index) const noexcept {
  wire::Gid gid;
  const auto octets = std::as_writable_bytes(std::span(gid.octets));
  store_be_at<std::uint64_t>(octets.data(), info.gid_prefix);
  store_be_at<std::uint64_t>(octets.data() + 8, static_cast<std::uint64_t>(guids[index]));
  return gid;
}

}  // namespace verbatim::fabric

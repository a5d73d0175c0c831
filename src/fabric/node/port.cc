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

bool Port::names_partition(wire::PKey pkey) const noexcept {
  constexpr unsigned kNumber = 0x7fff;
  const unsigned number = static_cast<unsigned>(pkey) & kNumber;
  return number != 0 && std::ranges::any_of(pkeys, [number](wire::PKey own) {
           return (static_cast<unsigned>(own) & kNumber) == number;
         });
}

wire::Gid Port::gid(std::size_t index) const noexcept {
  wire::Gid gid;
  const auto octets = std::as_writable_bytes(std::span(gid.octets));
  store_be_at<std::uint64_t>(octets.data(), info.gid_prefix);
  store_be_at<std::uint64_t>(octets.data() + 8, static_cast<std::uint64_t>(guids[index]));
  return gid;
}

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#include "loop/multicast_table.h"

namespace verbatim::loop {

wire::Gid group_address(const wire::Gid& gid) noexcept {
  wire::Gid mapped = gid;
  mapped.octets[0] = mapped.octets[1] = 0;
  const bool has_prefix = gid.octets[0] == 0xff && gid.octets[1] == 0x0e;
  return has_prefix && mapped.is_ipv4_mapped() && mapped.is_multicast() ? mapped : gid;
}

}  // namespace verbatim::loop

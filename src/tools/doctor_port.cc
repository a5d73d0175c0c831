// SPDX-License-Identifier: Apache-2.0
// UDP port 4791 at the devices' addresses.
#include <filesystem>

#include "link/shared_port.h"
#include "link/udp_link.h"
#include "link/udp_table.h"
#include "tools/doctor.h"

namespace verbatim::tools {

void look_at_port(const std::vector<device::PortInfo>& ports, Findings& findings) {
  for (const device::PortInfo& port : ports) {
    const std::string subject = port.name + " UDP port " + std::to_string(link::kRocePort);
    std::vector<link::LocalAddress> addresses;
    for (const auto& entry : port.gids) {
      addresses.push_back({.gid = entry.gid, .scope = entry.interface_index});
    }
    link::SharedPort shared;
    std::string message;
    const auto place = shared.join(addresses, message);
    if (place) {
      const std::uint32_t others = place->slot.number();
      shared.leave();
      add_ok(findings, subject,
             others == 0 ? "free" : "shared with other processes of this user, as it should be");
      continue;
    }
    const bool has_rxe = std::filesystem::exists("/sys/module/rdma_rxe");
    add_problem(findings, subject, message,
                std::string("end the program that has it, run as the same user, or use another "
                            "address") +
                    (has_rxe ? "; the kernel's own software adapter takes the port, too: rmmod "
                               "rdma_rxe"
                             : ""));
  }
}

}  // namespace verbatim::tools

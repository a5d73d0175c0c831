// SPDX-License-Identifier: Apache-2.0
// UDP port 4791 at the devices' addresses.
#include <algorithm>
#include <filesystem>

#include "tools/doctor.h"
#include "udp/lent_socket.h"
#include "udp/shared_port.h"
#include "udp/udp_link.h"
#include "udp/udp_table.h"

namespace verbatim::tools {
namespace {

std::string advice_for(Errc error) {
  switch (error) {
    case Errc::kAddressInUse:
    case Errc::kBusy:
    case Errc::kTimedOut: {
      const bool has_rxe = std::filesystem::exists("/sys/module/rdma_rxe");
      return std::string("continue the program that has it, end it, or use another address") +
             (has_rxe ? "; the kernel's own software adapter takes the port, too: rmmod rdma_rxe"
                      : "");
    }
    case Errc::kNoMemory:
      return "raise the limit; `ulimit -a` shows those of this process, and a container may have a "
             "limit on processes of its own";
    default:
      return "correct that; the finding \"directory\" says where processes meet";
  }
}

}  // namespace

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
      const auto lent =
          std::ranges::find_if(place->receivers, [](const link::ReceivingSocket& receiver) {
            return link::note_of(receiver.socket.descriptor()).has_value();
          });
      std::string words = place->slot.number() == 0
                              ? "free"
                              : "shared with other processes of this user, as it should be";
      if (lent != place->receivers.end()) {
        const std::string holder = link::name_port_holder(lent->address, link::kRocePort);
        words = "lent by " + (holder.empty() ? "another user" : holder) +
                ", which has it: programs work, and packets reach their user directly";
      }
      shared.leave();
      add_ok(findings, subject, words);
      continue;
    }
    add_problem(findings, subject, message, advice_for(place.error()));
  }
}

}  // namespace verbatim::tools

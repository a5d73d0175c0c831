// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "device/config.h"
#include "device/port_info.h"
#include "host/membarrier.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/text.h"
#include "udp/udp_socket.h"

namespace verbatim::tools {
namespace {

using device::PortInfo;

std::string guid_of(const PortInfo& port) {
  std::string text;
  for (std::size_t i = 0; i < port.guid.size(); ++i) {
    std::array<char, 4> octet{};
    (void)std::snprintf(octet.data(), octet.size(), "%02x", port.guid[i]);
    if (i != 0 && i % 2 == 0) text += ':';
    text += octet.data();
  }
  return text;
}

/// Whether a GID can send and receive packets: the interface has that address. The first GID is
/// made from the MAC address, whether or not the interface has this link-local address. Processes
/// of one host, which need no packets, can use it in any case.
bool has_packets(const device::GidEntry& entry) noexcept {
  const auto probe =
      link::UdpSocket::open_sender({.gid = entry.gid, .scope = entry.interface_index}, 0);
  return probe || probe.error() != Errc::kNoDevice;
}

/// The advice after a GID that cannot: which one to use instead.
std::string advice_about(const PortInfo& port) {
  std::string text = "no packets: " + port.interface + " does not have this address; ";
  for (std::size_t index = 0; index < port.gids.size(); ++index) {
    if (has_packets(port.gids[index])) return text + "use GID index " + std::to_string(index);
  }
  return text + "give it an address";
}

const char* state_of(const PortInfo& port) noexcept { return port.is_up ? "ACTIVE" : "DOWN"; }

Json json_of(const PortInfo& port, const device::LinkConfig& link) {
  Json gids = Json::array();
  for (std::size_t index = 0; index < port.gids.size(); ++index) {
    gids.push_back({{"index", index},
                    {"address", text_of(port.gids[index].gid)},
                    {"packets", has_packets(port.gids[index])}});
  }
  return {{"name", port.name},
          {"interface", port.interface},
          {"state", state_of(port)},
          {"guid", guid_of(port)},
          {"mtu", wire::octets_of(port.active_mtu)},
          {"interface_mtu", port.interface_mtu},
          {"speed_mbps", port.speed_mbps},
          {"path", name_of(link.path)},
          {"path_cause", name_of(link.path_cause)},
          {"gids", std::move(gids)}};
}

void print_json(const std::vector<PortInfo>& ports, const device::LinkConfig& link) {
  Json devices = Json::array();
  for (const PortInfo& port : ports) devices.push_back(json_of(port, link));
  std::printf("%s", text_of(devices).c_str());
}

void print_text(const std::vector<PortInfo>& ports, bool in_colour) {
  const char* bold = in_colour ? "\033[1m" : "";
  const char* green = in_colour ? "\033[32m" : "";
  const char* red = in_colour ? "\033[31m" : "";
  const char* plain = in_colour ? "\033[0m" : "";
  for (const PortInfo& port : ports) {
    std::printf("%s%s%s  on %s  %s%s%s  MTU %u (interface %u)", bold, port.name.c_str(), plain,
                port.interface.c_str(), port.is_up ? green : red, state_of(port), plain,
                wire::octets_of(port.active_mtu), port.interface_mtu);
    if (port.speed_mbps != 0) std::printf("  %u Mb/s", port.speed_mbps);
    std::printf("  GUID %s\n", guid_of(port).c_str());
    for (std::size_t index = 0; index < port.gids.size(); ++index) {
      std::printf("  GID %zu  %s", index, text_of(port.gids[index].gid).c_str());
      if (!has_packets(port.gids[index])) {
        std::printf("  %s%s%s", red, advice_about(port).c_str(), plain);
      }
      std::printf("\n");
    }
  }
}

}  // namespace

int list_devices(const DevicesOptions& options) {
  std::string message;
  const auto config = device::read_config(message);
  if (!config) {
    std::fprintf(stderr, "verbatim devices: %s\n", message.c_str());
    return 1;
  }
  const auto link = device::read_link_config(message);
  if (!link) {
    std::fprintf(stderr, "verbatim devices: %s\n", message.c_str());
    return 1;
  }
  const auto ports = device::find_ports(*config);
  if (options.json) {
    print_json(ports, *link);
    return 0;
  }
  if (ports.empty()) {
    std::fprintf(stderr, "verbatim devices: no interface here is up and has an IP address\n");
    return 1;
  }
  print_text(ports, isatty(STDOUT_FILENO) != 0);
  const bool needs_fences = link->path != device::DataPathPolicy::kPackets &&
                            host::Membarrier::global() != Fencing::kExpedited;
  std::printf("Between processes of this host: %s%s\n", sentence_of(link->path, link->path_cause),
              needs_fences ? "; membarrier(2) is refused here, so each request costs a fence" : "");
  return 0;
}

}  // namespace verbatim::tools

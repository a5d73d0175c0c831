// SPDX-License-Identifier: Apache-2.0
// Interfaces as devices: addresses, MTU, offloads.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "base/pointer.h"
#include "device/interface_list.h"
#include "tools/doctor.h"

namespace verbatim::tools {
namespace {

using device::PortInfo;

/// Sends an ethtool request to the driver of an interface; `request` starts with the command.
bool ask_driver(const std::string& interface, void* request) {
  ifreq about{};
  if (interface.size() >= sizeof about.ifr_name) return false;
  std::memcpy(about.ifr_name, interface.data(), interface.size());
  about.ifr_data = static_cast<char*>(request);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool answered = ::ioctl(socket, SIOCETHTOOL, &about) == 0;
  ::close(socket);
  return answered;
}

template <typename Head>
std::vector<std::uint32_t> words_for(const Head& head, std::size_t octets_behind) {
  std::vector<std::uint32_t> words((sizeof head + octets_behind + 3) / 4);
  std::memcpy(words.data(), &head, sizeof head);
  return words;
}

/// Whether an offload is on, by the name that `ethtool -k` has for it; nothing when unknown.
std::optional<bool> offload_of(const std::string& interface, std::string_view name) {
  ethtool_sset_info sets{};
  sets.cmd = ETHTOOL_GSSET_INFO;
  sets.sset_mask = std::uint64_t{1} << ETH_SS_FEATURES;
  std::uint32_t count = 0;
  auto counts = words_for(sets, sizeof count);
  if (!ask_driver(interface, counts.data())) return std::nullopt;
  std::memcpy(&count, pointer_as<char>(counts.data()) + sizeof sets, sizeof count);
  if (count == 0 || count > 256) return std::nullopt;

  ethtool_gstrings names{};
  names.cmd = ETHTOOL_GSTRINGS;
  names.string_set = ETH_SS_FEATURES;
  names.len = count;
  auto strings = words_for(names, std::size_t{count} * ETH_GSTRING_LEN);
  if (!ask_driver(interface, strings.data())) return std::nullopt;

  const std::size_t blocks = (count + 31) / 32;
  std::vector<std::uint32_t> answer(
      (sizeof(ethtool_gfeatures) + blocks * sizeof(ethtool_get_features_block)) /
      sizeof(std::uint32_t));
  answer[0] = ETHTOOL_GFEATURES;
  answer[1] = static_cast<std::uint32_t>(blocks);
  if (!ask_driver(interface, answer.data())) return std::nullopt;

  for (std::uint32_t i = 0; i < count; ++i) {
    const auto* text =
        pointer_as<const char>(strings.data()) + sizeof names + std::size_t{i} * ETH_GSTRING_LEN;
    if (std::string_view(text, ::strnlen(text, ETH_GSTRING_LEN)) != name) continue;
    ethtool_get_features_block block{};
    std::memcpy(
        &block,
        pointer_as<const char>(answer.data()) + sizeof(ethtool_gfeatures) + (i / 32) * sizeof block,
        sizeof block);
    return (block.active >> (i % 32) & 1) != 0;
  }
  return std::nullopt;
}

/// Hardware, real or emulated, has a device in sysfs; veth, bridges and lo have none.
bool is_hardware(const std::string& interface) {
  std::error_code failed;
  return std::filesystem::exists("/sys/class/net/" + interface + "/device", failed);
}

void look_at_offloads(const PortInfo& port, Findings& findings) {
  const std::string subject = port.name + " offloads";
  const bool cuts_trains = offload_of(port.interface, "tx-udp-segmentation").value_or(false);
  if (!cuts_trains || !is_hardware(port.interface)) {
    return add_ok(findings, subject,
                  port.interface + " leaves IPv4 identifications as the kernel numbers them");
  }
  add_warning(findings, subject,
              port.interface +
                  " cuts trains of packets itself (tx-udp-segmentation) and may number their IPv4 "
                  "identifications in its own way; hardware adapters check the ICRC over them and "
                  "would drop such packets; peers that run Verbatim accept them",
              "towards hardware: ethtool -K " + port.interface +
                  " tx-udp-segmentation off, or VERBATIM_GSO=0; `verbatim doctor --peer HOST` "
                  "shows what arrives there");
}

void look_at_mtu(const PortInfo& port, Findings& findings) {
  constexpr std::uint32_t kUsual = 1024;
  const std::uint32_t fits = wire::octets_of(port.active_mtu);
  const std::string subject = port.name + " MTU";
  const std::string what = port.interface + " has " + std::to_string(port.interface_mtu) +
                           ", which fits RoCE MTU " + std::to_string(fits);
  if (fits >= kUsual) {
    return add_ok(findings, subject,
                  what + (fits < 4096 ? "; 4176 or more would fit 4096, for large transfers" : ""));
  }
  add_warning(findings, subject, what + "; programs that insist on 1024 lose all large packets",
              "as root: ip link set " + port.interface + " mtu 1500, on both hosts");
}

}  // namespace

void look_at_devices(const std::vector<PortInfo>& ports, Findings& findings) {
  if (ports.empty() && device::read_interfaces().empty()) {
    return add_problem(findings, "devices", device::kNoList,
                       "allow them in its filter of system calls (seccomp); with systemd, in "
                       "RestrictAddressFamilies=");
  }
  if (ports.empty()) {
    return add_problem(findings, "devices",
                       "no interface is up and has an IP address: programs find no device",
                       "give one an address and bring it up (ip addr add 192.0.2.1/24 dev eth0; ip "
                       "link set eth0 up), or use the loopback: VERBATIM_DEVICES=lo");
  }
  for (const PortInfo& port : ports) {
    std::string addresses;
    for (const auto& entry : port.gids) {
      addresses += (addresses.empty() ? "" : ", ") + text_of(entry.gid);
    }
    const std::string what = port.name + " is " + port.interface + " with " + addresses;
    if (!port.is_up) {
      add_warning(findings, port.name, what + "; but it is down, or has no carrier",
                  "bring it up (ip link set " + port.interface + " up), or look at the cable");
    } else if (port.interface == "lo") {
      add_warning(findings, port.name, what + ": other hosts cannot be reached through it",
                  "for other hosts, give another interface an address and bring it up");
    } else {
      add_ok(findings, port.name, what);
    }
    look_at_mtu(port, findings);
    look_at_offloads(port, findings);
  }
}

}  // namespace verbatim::tools

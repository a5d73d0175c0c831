// SPDX-License-Identifier: Apache-2.0
#include "tools/sysfs_tree.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "host/runtime_directory.h"

namespace verbatim::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of this user, which no other user can enter; nothing when there is none.
std::optional<fs::path> own_folder() {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const host::RuntimeDirectory* directory =
      socket >= 0 ? host::RuntimeDirectory::of(socket) : nullptr;
  if (socket >= 0) ::close(socket);
  const int held = directory != nullptr ? directory->hold() : -1;  // makes it
  if (held < 0) return std::nullopt;
  ::close(held);
  return directory->parent();
}

/// Replaces the file in one step, so that a program which reads it meanwhile sees the old contents.
void write(const fs::path& file, const std::string& line) {
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const fs::path fresh = file.string() + "." + std::to_string(::getpid());
  std::ofstream(fresh) << line << '\n';
  fs::rename(fresh, file, ignored);
}

std::string text_of(const wire::Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.octets.size(); i += 2) {
    char group[6];
    std::snprintf(group, sizeof group, "%02x%02x%c", static_cast<unsigned>(gid.octets[i]),
                  static_cast<unsigned>(gid.octets[i + 1]), i < 14 ? ':' : 0);
    text += group;
  }
  return text;
}

std::string text_of(const std::array<std::uint8_t, 8>& guid) {
  char text[20];
  std::snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x",
                static_cast<unsigned>(guid[0]), static_cast<unsigned>(guid[1]),
                static_cast<unsigned>(guid[2]), static_cast<unsigned>(guid[3]),
                static_cast<unsigned>(guid[4]), static_cast<unsigned>(guid[5]),
                static_cast<unsigned>(guid[6]), static_cast<unsigned>(guid[7]));
  return text;
}

std::string hexadecimal(unsigned value, int digits = 1) {
  char text[12];
  std::snprintf(text, sizeof text, "0x%0*x", digits, value);
  return text;
}

void write_interface_port(const fs::path& place, const device::PortInfo& port) {
  write(place / "state", port.is_up ? "4: ACTIVE" : "1: DOWN");
  write(place / "phys_state", port.is_up ? "5: LinkUp" : "3: Disabled");
  write(place / "link_layer", "Ethernet");
  write(place / "rate", device::link_rate_of(port.speed_mbps).text);
  write(place / "cap_mask", hexadecimal(device::kPortCapabilities, 8));
  // For fabrics with a subnet manager; Ethernet has none.
  write(place / "lid", "0x0");
  write(place / "lid_mask_count", "0");
  write(place / "sm_lid", "0x0");
  write(place / "sm_sl", "0");
}

/// "4: ACTIVE", as Linux numbers and names the states of ports (IBA Vol 1, 14.2.5.6).
template <std::size_t kCount>
std::string numbered(const std::array<const char*, kCount>& names, std::uint8_t number) {
  const char* name = number < kCount ? names[number] : "<unknown>";
  return std::to_string(number) + ": " + name;
}
constexpr std::array kStates{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
constexpr std::array kPhysicalStates{
    "<unknown>",         "Sleep",   "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
    "LinkErrorRecovery", "Phy Test"};

/// "100 Gb/sec (4X EDR)"
std::string rate_of(const device::PortInfo& port) {
  constexpr std::array kSpeeds{"SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"};
  constexpr std::array<unsigned, 5> kLanes{1, 4, 8, 12, 2};  // by the bit of the width
  const auto bit_of = [](unsigned value) {
    return static_cast<std::size_t>(std::countr_zero(value | 0x8000U));
  };
  const std::size_t speed = std::min(bit_of(port.fabric->speed), kSpeeds.size() - 1);
  const std::size_t width = std::min(bit_of(port.fabric->width), kLanes.size() - 1);
  std::string rate = std::to_string(port.speed_mbps / 1000);
  if (port.speed_mbps % 1000 != 0) rate += "." + std::to_string(port.speed_mbps % 1000 / 100);
  return rate + " Gb/sec (" + std::to_string(kLanes[width]) + "X " + kSpeeds[speed] + ")";
}

void write_fabric_port(const fs::path& place, const device::PortInfo& port) {
  const device::FabricPort& fabric = *port.fabric;
  write(place / "state", numbered(kStates, fabric.state));
  write(place / "phys_state", numbered(kPhysicalStates, fabric.physical_state));
  write(place / "link_layer", "InfiniBand");
  write(place / "rate", rate_of(port));
  write(place / "cap_mask", hexadecimal(fabric.capabilities, 8));
  write(place / "lid", hexadecimal(static_cast<unsigned>(fabric.lid)));
  write(place / "lid_mask_count", std::to_string(fabric.lmc));
  write(place / "sm_lid", hexadecimal(static_cast<unsigned>(fabric.sm_lid)));
  write(place / "sm_sl", std::to_string(static_cast<unsigned>(fabric.sm_level)));
}

void write_device(const fs::path& folder, const device::PortInfo& port) {
  std::error_code ignored;
  const fs::path device = folder / "device";
  fs::create_directories(port.fabric ? device : device / "net" / port.interface, ignored);
  write(folder / "node_type", "1: CA");
  write(folder / "node_guid", text_of(port.guid));
  write(folder / "sys_image_guid", text_of(port.guid));
  write(folder / "fw_ver", device::kFirmwareVersion);
  write(folder / "hw_rev", "0");
  write(folder / "hca_type", "Verbatim");
  write(folder / "node_desc", port.name + " on " + port.interface);
  write(folder / "device" / "numa_node", "-1");
  const fs::path place = folder / "ports" / "1";
  port.fabric ? write_fabric_port(place, port) : write_interface_port(place, port);
  const std::vector<wire::PKey> pkeys = port.pkeys();
  for (std::size_t i = 0; i < pkeys.size(); ++i) {
    write(place / "pkeys" / std::to_string(i), hexadecimal(static_cast<unsigned>(pkeys[i]), 4));
  }
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    write(place / "gids" / index, text_of(port.gids[i].gid));
    write(place / "gid_attrs" / "types" / index, port.fabric ? "IB/RoCE v1" : "RoCE v2");
    if (!port.fabric) write(place / "gid_attrs" / "ndevs" / index, port.interface);
  }
}

}  // namespace

std::optional<fs::path> write_sysfs_tree(const std::vector<device::PortInfo>& ports) {
  const auto own = own_folder();
  struct stat network {};
  if (!own || ::stat("/proc/self/ns/net", &network) != 0) return std::nullopt;
  // Another choice of devices (`verbatim run --devices`) in the same namespace has another folder.
  std::string name = "sysfs-" + std::to_string(network.st_ino);
  for (const device::PortInfo& port : ports) name += "-" + port.interface;
  return write_sysfs_tree_at(*own / name, ports);
}

std::optional<fs::path> write_sysfs_tree_at(const fs::path& root,
                                            const std::vector<device::PortInfo>& ports) {
  for (const device::PortInfo& port : ports) {
    write_device(root / "infiniband" / port.name, port);
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    // Programs only check that it can be opened for reading and writing.
    std::error_code is_there;
    fs::create_symlink("/dev/null", root / ("uverbs" + std::to_string(i)), is_there);
  }
  std::error_code failed;
  return fs::is_directory(root / "infiniband", failed) ? std::optional(root) : std::nullopt;
}

}  // namespace verbatim::tools

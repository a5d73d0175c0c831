// SPDX-License-Identifier: Apache-2.0
#include "tools/sysfs_tree.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

void write_device(const fs::path& folder, const device::PortInfo& port) {
  std::error_code ignored;
  fs::create_directories(folder / "device" / "net" / port.interface, ignored);
  write(folder / "node_type", "1: CA");
  write(folder / "node_guid", text_of(port.guid));
  write(folder / "sys_image_guid", text_of(port.guid));
  write(folder / "fw_ver", device::kFirmwareVersion);
  write(folder / "hw_rev", "0");
  write(folder / "hca_type", "Verbatim");
  write(folder / "node_desc", port.name + " on " + port.interface);
  write(folder / "device" / "numa_node", "-1");
  const fs::path place = folder / "ports" / "1";
  write(place / "state", port.is_up ? "4: ACTIVE" : "1: DOWN");
  write(place / "phys_state", port.is_up ? "5: LinkUp" : "3: Disabled");
  write(place / "link_layer", "Ethernet");
  write(place / "rate", device::link_rate_of(port.speed_mbps).text);
  char capabilities[12];
  std::snprintf(capabilities, sizeof capabilities, "0x%08x", device::kPortCapabilities);
  write(place / "cap_mask", capabilities);
  // For fabrics with a subnet manager; Ethernet has none.
  write(place / "lid", "0x0");
  write(place / "lid_mask_count", "0");
  write(place / "sm_lid", "0x0");
  write(place / "sm_sl", "0");
  write(place / "pkeys" / "0", "0xffff");
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    write(place / "gids" / index, text_of(port.gids[i].gid));
    write(place / "gid_attrs" / "types" / index, "RoCE v2");
    write(place / "gid_attrs" / "ndevs" / index, port.interface);
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
  const fs::path root = *own / name;
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

// SPDX-License-Identifier: Apache-2.0
#include "device/interface_list.h"

#include <ifaddrs.h>
#include <linux/close_range.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/own_threads.h"

namespace verbatim::device {

namespace {

constexpr std::uint32_t kUnfitFlags = IFA_F_TENTATIVE | IFA_F_DEPRECATED | IFA_F_DADFAILED;

using Addresses = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

/// Asks the kernel about interfaces. Unlike /sys, the answer is always about this namespace.
class Questions {
 public:
  Questions() noexcept : descriptor_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (descriptor_ < 0) descriptor_ = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  }
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;
  ~Questions() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  [[nodiscard]] bool can_ask() const noexcept { return descriptor_ >= 0; }
  /// 0 when there is no such interface any more.
  [[nodiscard]] std::uint32_t index(const std::string& name) const noexcept {
    ifreq request = request_about(name);
    if (::ioctl(descriptor_, SIOCGIFINDEX, &request) != 0) return 0;
    return static_cast<std::uint32_t>(request.ifr_ifindex);
  }
  [[nodiscard]] std::uint32_t mtu(const std::string& name, std::uint32_t otherwise) const noexcept {
    ifreq request = request_about(name);
    if (::ioctl(descriptor_, SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) return otherwise;
    return static_cast<std::uint32_t>(request.ifr_mtu);
  }
  [[nodiscard]] std::uint32_t speed_mbps(const std::string& name) const noexcept {
    ethtool_cmd answer{};
    answer.cmd = ETHTOOL_GSET;
    if (!ask_driver(name, &answer)) return 0;
    const std::uint32_t speed = ethtool_cmd_speed(&answer);
    return speed == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? 0 : speed;
  }
  [[nodiscard]] bool is_bridge(const std::string& name) const {
    ethtool_drvinfo answer{};
    answer.cmd = ETHTOOL_GDRVINFO;
    if (ask_driver(name, &answer)) return std::string_view(answer.driver) == "bridge";
    return ::access(("/sys/class/net/" + name + "/bridge").c_str(), F_OK) == 0;
  }

 private:
  [[nodiscard]] static ifreq request_about(const std::string& name) noexcept {
    ifreq request{};
    std::memcpy(request.ifr_name, name.data(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1));
    return request;
  }
  [[nodiscard]] bool ask_driver(const std::string& name, void* answer) const noexcept {
    ifreq request = request_about(name);
    request.ifr_data = static_cast<char*>(answer);
    return ::ioctl(descriptor_, SIOCETHTOOL, &request) == 0;
  }

  int descriptor_;
};

/// A second IPv4 address may carry a label such as "eth0:1"; the interface is what precedes it.
std::string interface_of(const ifaddrs& entry) {
  const std::string_view label = entry.ifa_name;
  return std::string(label.substr(0, label.find(':')));
}

Interface& entry_of(std::vector<Interface>& interfaces, const std::string& name) {
  for (Interface& interface : interfaces) {
    if (interface.name == name) return interface;
  }
  Interface& added = interfaces.emplace_back();
  added.name = name;
  return added;
}

void add_mac(Interface& interface, const ifaddrs& entry) noexcept {
  sockaddr_ll link{};
  std::memcpy(&link, entry.ifa_addr, sizeof link);
  std::array<std::uint8_t, 6> mac{};
  std::memcpy(mac.data(), link.sll_addr, mac.size());
  const bool is_zero = std::all_of(mac.begin(), mac.end(), [](auto octet) { return octet == 0; });
  if (link.sll_halen == mac.size() && !is_zero) interface.mac = mac;
}

void add_ipv4(Interface& interface, const ifaddrs& entry) {
  sockaddr_in address{};
  std::memcpy(&address, entry.ifa_addr, sizeof address);
  wire::Gid gid;
  gid.octets[10] = gid.octets[11] = 0xff;
  std::memcpy(gid.octets.data() + 12, &address.sin_addr, 4);
  interface.ipv4.push_back(gid);
}

void add_ipv6(Interface& interface, const ifaddrs& entry) {
  sockaddr_in6 address{};
  std::memcpy(&address, entry.ifa_addr, sizeof address);
  wire::Gid gid;
  std::memcpy(gid.octets.data(), &address.sin6_addr, gid.octets.size());
  const bool is_link_local = gid.octets[0] == 0xfe && (gid.octets[1] & 0xc0) == 0x80;
  (is_link_local ? interface.link_local : interface.ipv6).push_back(gid);
}

void add_entry(std::vector<Interface>& interfaces, const ifaddrs& entry) {
  Interface& interface = entry_of(interfaces, interface_of(entry));
  interface.is_up = (entry.ifa_flags & IFF_UP) != 0;
  interface.is_running = (entry.ifa_flags & IFF_RUNNING) != 0;
  interface.is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  if (entry.ifa_addr == nullptr) return;
  if (entry.ifa_addr->sa_family == AF_PACKET) add_mac(interface, entry);
  if (entry.ifa_addr->sa_family == AF_INET) add_ipv4(interface, entry);
  if (entry.ifa_addr->sa_family == AF_INET6) add_ipv6(interface, entry);
}

wire::Gid gid_of_hex(std::string_view text) noexcept {
  wire::Gid gid;
  for (std::size_t i = 0; i < gid.octets.size() && 2 * i + 2 <= text.size(); ++i) {
    (void)std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, gid.octets[i], 16);
  }
  return gid;
}

/// Calls `use` with every line of a file of /proc, which need not exist. False when there is no
/// descriptor to read it.
template <typename Use>
[[nodiscard]] bool for_each_line(const char* path, Use&& use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), &std::fclose);
  if (file == nullptr) return errno != EMFILE && errno != ENFILE;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), file.get()) != nullptr) {
    use(line.data());
  }
  return true;
}

/// Lines of /proc/net/if_inet6: address, index, prefix length, scope, flags, name; all in hex.
[[nodiscard]] bool remove_unfit_ipv6(std::vector<Interface>& interfaces) {
  return for_each_line("/proc/net/if_inet6", [&](const char* line) {
    std::array<char, 33> address{};
    unsigned index = 0;
    unsigned flags = 0;
    if (std::sscanf(line, "%32s %x %*x %*x %x", address.data(), &index, &flags) != 3) return;
    if ((flags & kUnfitFlags) == 0) return;
    for (Interface& interface : interfaces) {
      if (interface.index != index) continue;
      std::erase(interface.ipv6, gid_of_hex(address.data()));
      std::erase(interface.link_local, gid_of_hex(address.data()));
    }
  });
}

/// Lines of /proc/net/route: interface, destination, gateway, flags, use count, uses, metric, mask.
[[nodiscard]] bool mark_default_route(std::vector<Interface>& interfaces) {
  std::string best;
  unsigned best_metric = 0;
  const bool is_read = for_each_line("/proc/net/route", [&](const char* line) {
    std::array<char, 32> name{};
    unsigned destination = 0;
    unsigned metric = 0;
    unsigned mask = 0;
    const int fields = std::sscanf(line, "%31s %x %*x %*x %*d %*d %u %x", name.data(), &destination,
                                   &metric, &mask);
    if (fields != 4 || destination != 0 || mask != 0) return;
    if (!best.empty() && metric >= best_metric) return;
    best = name.data();
    best_metric = metric;
  });
  for (Interface& interface : interfaces) interface.has_default_route = interface.name == best;
  return is_read;
}

std::vector<Interface> read_here() {
  std::vector<Interface> interfaces;
  const Questions questions;
  ifaddrs* first = nullptr;
  if (!questions.can_ask() || ::getifaddrs(&first) != 0) return interfaces;
  const Addresses addresses(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    add_entry(interfaces, *entry);
  }
  for (Interface& interface : interfaces) {
    interface.index = questions.index(interface.name);
    interface.mtu = questions.mtu(interface.name, interface.mtu);
    interface.speed_mbps = questions.speed_mbps(interface.name);
    interface.is_bridge = questions.is_bridge(interface.name);
  }
  if (!remove_unfit_ipv6(interfaces) || !mark_default_route(interfaces)) return {};
  std::sort(interfaces.begin(), interfaces.end(),
            [](const Interface& a, const Interface& b) { return a.index < b.index; });
  return interfaces;
}

void* read_apart(void* interfaces) {
  const OwnThread mine;
  // Without the files of the program: a copy would keep open what the program closes meanwhile.
  // Before Linux 5.9 it is a copy. If the kernel refuses that too, the thread shares descriptors.
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_UNSHARE) != 0) (void)::unshare(CLONE_FILES);
  *static_cast<std::vector<Interface>*>(interfaces) = read_here();
  return nullptr;
}

}  // namespace

/// A program may close descriptors that are not its own while a thread of the library looks for
/// interfaces. The C library then ends the process, because its socket is closed. So those threads
/// start another one, which has a descriptor table of its own, and wait for it. Not with the thread
/// sanitizer, which takes equal numbers for one descriptor, and which reports the second thread as
/// a leak when the program ends meanwhile.
std::vector<Interface> read_interfaces() {
  if (VB_THREAD_SANITIZER || !OwnThread::is_mine()) return read_here();
  std::vector<Interface> interfaces;
  pthread_t reader{};
  OwnThread::announce();
  if (::pthread_create(&reader, nullptr, &read_apart, &interfaces) != 0) return read_here();
  (void)::pthread_join(reader, nullptr);
  return interfaces;
}

}  // namespace verbatim::device

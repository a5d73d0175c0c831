// SPDX-License-Identifier: Apache-2.0
#include "udp/udp_table.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "udp/socket_address.h"

namespace verbatim::link {

namespace {

constexpr std::array kTables = {"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"};

/// Calls `use` with every line of a file; false when it cannot be read.
template <typename Use>
bool for_each_line(const char* path, Use&& use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), &std::fclose);
  if (file == nullptr) return false;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), file.get()) != nullptr) {
    use(std::string_view(line.data()));
  }
  return true;
}

/// Takes the next word, which ends at a blank.
std::string_view next_word(std::string_view& line) noexcept {
  line.remove_prefix(std::min(line.find_first_not_of(" \t\n"), line.size()));
  const std::size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

template <typename Number>
bool read_number(std::string_view word, Number& number, int base) noexcept {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  return error == std::errc{} && end == word.data() + word.size() && !word.empty();
}

/// Words of 32 bits in hexadecimal, each as the host has it in a register: one, or four for IPv6.
bool read_address(std::string_view text, wire::Gid& gid) noexcept {
  gid = {};
  std::size_t at = 0;
  if (text.size() == 8) {
    gid.octets[10] = gid.octets[11] = 0xff;
    at = 12;
  } else if (text.size() != 32) {
    return false;
  }
  for (; !text.empty(); text.remove_prefix(8), at += 4) {
    std::uint32_t word = 0;
    if (!read_number(text.substr(0, 8), word, 16)) return false;
    std::memcpy(gid.octets.data() + at, &word, sizeof word);
  }
  return true;
}

/// The name of a user from /etc/passwd. getpwuid(3) is not used: it may load other libraries.
std::string user_name(uid_t uid) {
  std::string name;
  for_each_line("/etc/passwd", [&](std::string_view line) {
    const std::size_t end_of_name = line.find(':');
    const std::size_t end_of_password = line.find(':', end_of_name + 1);
    if (end_of_name == line.npos || end_of_password == line.npos || !name.empty()) return;
    const std::size_t end_of_uid = line.find(':', end_of_password + 1);
    if (end_of_uid == line.npos) return;
    uid_t found = 0;
    const auto text = line.substr(end_of_password + 1, end_of_uid - end_of_password - 1);
    if (read_number(text, found, 10) && found == uid) name = line.substr(0, end_of_name);
  });
  return name;
}

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

bool has_socket(const std::string& process, const std::string& socket) {
  const std::string path = "/proc/" + process + "/fd";
  const Folder folder(::opendir(path.c_str()), &::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    std::array<char, 64> target{};
    const ssize_t length =
        ::readlink((path + "/" + entry->d_name).c_str(), target.data(), target.size());
    if (length > 0 && socket == std::string_view(target.data(), static_cast<size_t>(length))) {
      return true;
    }
  }
  return false;
}

/// ", process 4711 (name)" for a process that has the socket open; empty when none can be seen.
std::string process_with(std::uint64_t inode) {
  const std::string socket = "socket:[" + std::to_string(inode) + "]";
  const Folder folder(::opendir("/proc"), &::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string process = entry->d_name;
    pid_t pid = 0;
    if (!read_number(std::string_view(process), pid, 10) || !has_socket(process, socket)) continue;
    std::string program;
    for_each_line(("/proc/" + process + "/comm").c_str(),
                  [&](std::string_view line) { program = line.substr(0, line.find('\n')); });
    return ", process " + process + (program.empty() ? "" : " (" + program + ")");
  }
  return {};
}

}  // namespace

bool UdpTableEntry::may_take_all_like(const wire::Gid& gid) const noexcept {
  wire::Gid every_ipv4;
  every_ipv4.octets[10] = every_ipv4.octets[11] = 0xff;
  return address == wire::Gid{} || (gid.is_ipv4_mapped() && address == every_ipv4);
}

/// Words: number, local address:port, remote address:port, state, queues, timer, retransmissions,
/// uid, timeout, inode, ...
std::optional<UdpTableEntry> parse_udp_table_line(std::string_view line) noexcept {
  UdpTableEntry entry;
  if (next_word(line).find(':') == std::string_view::npos) return std::nullopt;
  const std::string_view local = next_word(line);
  const std::size_t colon = local.find(':');
  if (colon == std::string_view::npos || !read_address(local.substr(0, colon), entry.address) ||
      !read_number(local.substr(colon + 1), entry.port, 16)) {
    return std::nullopt;
  }
  for (int skipped = 0; skipped < 5; ++skipped) (void)next_word(line);
  if (!read_number(next_word(line), entry.uid, 10)) return std::nullopt;
  (void)next_word(line);
  if (!read_number(next_word(line), entry.inode, 10)) return std::nullopt;
  return entry;
}

std::vector<UdpTableEntry> read_udp_table(std::uint16_t port) {
  std::vector<UdpTableEntry> entries;
  for (const char* table : kTables) {
    for_each_line(table, [&](std::string_view line) {
      const auto entry = parse_udp_table_line(line);
      if (entry && entry->port == port) entries.push_back(*entry);
    });
  }
  return entries;
}

std::optional<std::size_t> count_sockets(const LocalAddress& address, std::uint16_t port) {
  std::size_t count = 0;
  const char* table = kTables[address.gid.is_ipv4_mapped() ? 0 : 1];
  const bool is_readable = for_each_line(table, [&](std::string_view line) {
    const auto entry = parse_udp_table_line(line);
    if (entry && entry->port == port && entry->address == address.gid) ++count;
  });
  return is_readable ? std::optional(count) : std::nullopt;
}

bool counts_exactly(const LocalAddress& address) {
  if (!needs_scope(address.gid)) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  int links = 0;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET6) continue;
    SocketAddress found{};
    std::memcpy(&found.v6, entry->ifa_addr, sizeof found.v6);
    links += gid_of(found) == address.gid ? 1 : 0;
  }
  ::freeifaddrs(list);
  return links == 1;
}

std::optional<uid_t> user_of_port(const LocalAddress& address, std::uint16_t port) {
  const auto entries = read_udp_table(port);
  const auto found = std::ranges::find(entries, address.gid, &UdpTableEntry::address);
  return found != entries.end() ? std::optional(found->uid) : std::nullopt;
}

std::string name_port_holder(const LocalAddress& address, std::uint16_t port) {
  const auto entries = read_udp_table(port);
  auto found = std::ranges::find(entries, address.gid, &UdpTableEntry::address);
  if (found == entries.end()) {
    found = std::ranges::find_if(
        entries, [&](const UdpTableEntry& entry) { return entry.may_take_all_like(address.gid); });
  }
  if (found == entries.end()) return {};
  const std::string user = user_name(found->uid);
  const std::string uid = std::to_string(found->uid);
  return "user " + (user.empty() ? uid : user + " (uid " + uid + ")") + process_with(found->inode);
}

}  // namespace verbatim::link

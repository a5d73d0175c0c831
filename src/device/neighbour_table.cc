// SPDX-License-Identifier: Apache-2.0
#include "device/neighbour_table.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "host/netlink_dump.h"

namespace verbatim::device {
namespace {

constexpr std::size_t kIpv4At = 12;  // in an IPv4-mapped address

Neighbour meaning_of(std::uint16_t state) noexcept {
  if ((state & (NUD_INCOMPLETE)) != 0) return Neighbour::kSought;
  if ((state & NUD_FAILED) != 0) return Neighbour::kFailed;
  return state == NUD_NONE ? Neighbour::kUnknown : Neighbour::kKnown;
}

/// The destination that an entry of the table names; empty when it names none.
std::span<const std::byte> destination_of(std::span<const std::byte> attributes) noexcept {
  while (const auto attribute = host::take_attribute(attributes)) {
    if (attribute->type == NDA_DST) return attribute->value;
  }
  return {};
}

/// Looks for `wanted` in the entries of the table. An address that several interfaces have is as
/// known as where it is known best.
struct Search {
  std::span<const std::byte> wanted;
  Neighbour found = Neighbour::kUnknown;

  void look_at(std::span<const std::byte> entry) noexcept {
    ndmsg about;
    if (entry.size() < sizeof about) return;
    std::memcpy(&about, entry.data(), sizeof about);
    const auto destination = destination_of(entry.subspan(sizeof about));
    if (!std::ranges::equal(destination, wanted)) return;
    const Neighbour is = meaning_of(about.ndm_state);
    if (found == Neighbour::kUnknown || is == Neighbour::kKnown) found = is;
  }
};

}  // namespace

Neighbour look_up_neighbour(const wire::Gid& address) {
  const bool is_ipv4 = address.is_ipv4_mapped();
  Search search{.wanted = std::as_bytes(std::span(address.octets)).subspan(is_ipv4 ? kIpv4At : 0)};
  ndmsg question{};
  question.ndm_family = is_ipv4 ? AF_INET : AF_INET6;
  host::NetlinkDump dump = host::NetlinkDump::of(NETLINK_ROUTE);
  if (!dump.ask(RTM_GETNEIGH, std::as_bytes(std::span(&question, 1)))) return Neighbour::kUnknown;
  while (const auto entry = dump.next()) {
    if (entry->type == RTM_NEWNEIGH) search.look_at(entry->body);
  }
  return search.found;
}

}  // namespace verbatim::device

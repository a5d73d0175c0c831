// SPDX-License-Identifier: Apache-2.0
#include "device/neighbour_table.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

namespace verbatim::device {
namespace {

constexpr std::size_t kIpv4At = 12;  // in an IPv4-mapped address

/// One question to the kernel's routing, and the parts of its answer.
class Dump {
 public:
  Dump() noexcept : descriptor_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {}
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;
  ~Dump() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  [[nodiscard]] bool ask(std::uint8_t family) noexcept {
    struct {
      nlmsghdr header;
      ndmsg about;
    } question{};
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = RTM_GETNEIGH;
    question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.about.ndm_family = family;
    return descriptor_ >= 0 && ::send(descriptor_, &question, sizeof question, 0) ==
                                   static_cast<ssize_t>(sizeof question);
  }

  /// The next part; empty when the system says no more.
  [[nodiscard]] std::span<const std::byte> take() noexcept {
    ssize_t received = -1;
    do {
      received = ::recv(descriptor_, octets_.data(), octets_.size(), 0);
    } while (received < 0 && errno == EINTR);
    if (received <= 0) return {};
    return std::span(octets_).first(static_cast<std::size_t>(received));
  }

 private:
  int descriptor_;
  alignas(nlmsghdr) std::array<std::byte, 32768> octets_;
};

Neighbour meaning_of(std::uint16_t state) noexcept {
  if ((state & (NUD_INCOMPLETE)) != 0) return Neighbour::kSought;
  if ((state & NUD_FAILED) != 0) return Neighbour::kFailed;
  return state == NUD_NONE ? Neighbour::kUnknown : Neighbour::kKnown;
}

/// The destination that an entry of the table names; empty when it names none.
std::span<const std::byte> destination_of(std::span<const std::byte> attributes) noexcept {
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr head;
    std::memcpy(&head, attributes.data(), sizeof head);
    if (head.rta_len < sizeof head || head.rta_len > attributes.size()) return {};
    if (head.rta_type == NDA_DST) {
      return attributes.subspan(sizeof head, head.rta_len - sizeof head);
    }
    const std::size_t step = RTA_ALIGN(std::size_t{head.rta_len});
    if (step >= attributes.size()) return {};
    attributes = attributes.subspan(step);
  }
  return {};
}

/// Looks for `wanted` in one part of the answer. An address that several interfaces have is as
/// known as where it is known best.
struct Search {
  std::span<const std::byte> wanted;
  Neighbour found = Neighbour::kUnknown;
  bool is_over = false;

  void look_at(std::span<const std::byte> part) noexcept {
    while (part.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header;
      std::memcpy(&header, part.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > part.size()) return;
      is_over = is_over || header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
      if (header.nlmsg_type == RTM_NEWNEIGH) {
        look_at_entry(part.subspan(sizeof header, header.nlmsg_len - sizeof header));
      }
      const std::size_t step = NLMSG_ALIGN(std::size_t{header.nlmsg_len});
      if (step >= part.size()) return;
      part = part.subspan(step);
    }
  }
  void look_at_entry(std::span<const std::byte> entry) noexcept {
    ndmsg about;
    if (entry.size() < sizeof about) return;
    std::memcpy(&about, entry.data(), sizeof about);
    const auto destination = destination_of(entry.subspan(sizeof about));
    if (destination.size() != wanted.size() ||
        std::memcmp(destination.data(), wanted.data(), wanted.size()) != 0) {
      return;
    }
    const Neighbour is = meaning_of(about.ndm_state);
    if (found == Neighbour::kUnknown || is == Neighbour::kKnown) found = is;
  }
};

}  // namespace

Neighbour look_up_neighbour(const wire::Gid& address) {
  const bool is_ipv4 = address.is_ipv4_mapped();
  Search search{.wanted = std::as_bytes(std::span(address.octets)).subspan(is_ipv4 ? kIpv4At : 0)};
  Dump dump;
  if (!dump.ask(is_ipv4 ? AF_INET : AF_INET6)) return Neighbour::kUnknown;
  while (!search.is_over) {
    const auto part = dump.take();
    if (part.empty()) break;
    search.look_at(part);
  }
  return search.found;
}

}  // namespace verbatim::device

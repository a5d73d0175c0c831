// SPDX-License-Identifier: Apache-2.0
#include "udp/lent_socket.h"

#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <vector>

#include "udp/steering.h"

namespace verbatim::link {

namespace {

// The note is three constants that the filter loads and does not use: kMagic, the borrower, and a
// word with the use (from bit 16 on) and the slot.
constexpr std::uint32_t kMagic = 0x5642'4c31;  // "VBL1"
constexpr std::size_t kNoteLength = 3;
constexpr std::size_t kFilterLengthMax = 64;

sock_filter constant(std::uint32_t value) noexcept {
  return {.code = BPF_LD | BPF_IMM, .jt = 0, .jf = 0, .k = value};
}

std::vector<sock_filter> filter_of(const LentNote& note) {
  std::vector<sock_filter> filter = {
      constant(kMagic), constant(note.borrower),
      constant(static_cast<std::uint32_t>(note.use) << 16 | note.slot)};
  if (note.use == LentNote::Use::kSlot) {
    const auto rest = slot_filter(note.slot);
    filter.insert(filter.end(), rest.begin(), rest.end());
  } else {
    filter.push_back({.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0});
  }
  return filter;
}

}  // namespace

Expected<UdpSocket> open_lent(const LocalAddress& address, std::uint16_t port,
                              const LentNote& note) noexcept {
  auto filter = filter_of(note);
  return UdpSocket::open_locked(address, port, filter);
}

std::optional<LentNote> note_of(int socket) noexcept {
  int is_locked = 0;
  socklen_t octets = sizeof is_locked;
  if (::getsockopt(socket, SOL_SOCKET, SO_LOCK_FILTER, &is_locked, &octets) != 0 ||
      is_locked == 0) {
    return std::nullopt;
  }
  std::array<sock_filter, kFilterLengthMax> filter{};
  socklen_t length = filter.size();  // of this option: in instructions
  if (::getsockopt(socket, SOL_SOCKET, SO_GET_FILTER, filter.data(), &length) != 0 ||
      length <= kNoteLength || filter[0].k != kMagic) {
    return std::nullopt;
  }
  const LentNote note{.use = LentNote::Use{static_cast<std::uint8_t>(filter[2].k >> 16)},
                      .slot = filter[2].k & 0xffff,
                      .borrower = filter[1].k};
  // The whole filter must be the one that belongs to the note: another one may admit other packets.
  const auto expected = filter_of(note);
  if (expected.size() != length) return std::nullopt;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool is_same = filter[i].code == expected[i].code && filter[i].jt == expected[i].jt &&
                         filter[i].jf == expected[i].jf && filter[i].k == expected[i].k;
    if (!is_same) return std::nullopt;
  }
  return note;
}

void share_port_again(int socket) noexcept {
  const int on = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
}

std::optional<uid_t> lender_of(int socket) noexcept {
  struct stat status {};
  if (!note_of(socket) || ::fstat(socket, &status) != 0) return std::nullopt;
  return status.st_uid;
}

}  // namespace verbatim::link

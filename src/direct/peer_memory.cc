// SPDX-License-Identifier: Apache-2.0
#include "direct/peer_memory.h"

#include <array>

#include "direct/piece_cursor.h"

namespace verbatim::direct {

/// An owner that takes memory away waits for system calls that reach it. So a call is announced
/// before it is made: either the owner finds the announcement, or the requester finds here that the
/// memory was taken away.
template <typename Call>
Reached PeerMemory::by_call(Visit& visit, const Place& place, Call&& call) noexcept {
  visit.announce_call(place.grant.address, place.octets);
  const Permission permission{.entry = place.grant.entry,
                              .key = static_cast<std::uint32_t>(place.key),
                              .generation = place.grant.generation};
  const bool may_call = !visit.is_locked_out() && permission.lasts();
  const Reached reached = may_call ? call(permission) : Reached::kRevoked;
  visit.end_call();
  return reached;
}

Reached PeerMemory::store(Visit& visit, const Place& place,
                          std::span<const iovec> pieces) noexcept {
  const Reached reached = reach_.write(place.grant, pieces, place.octets);
  if (reached != Reached::kByCall) [[likely]]
    return reached;
  return in_parts(place, pieces, [&](const Place& part, auto of_part, bool is_end) {
    const Reached written = reach_.write(part.grant, of_part, part.octets);
    if (written != Reached::kByCall) return written;
    return by_call(visit, part, [&](const Permission& permission) {
      return reach_.write_by_call(part.grant.address, of_part, part.octets, is_end, permission);
    });
  });
}

Reached PeerMemory::load(Visit& visit, const Place& place, std::span<const iovec> pieces) noexcept {
  const Reached reached = reach_.read(place.grant, pieces, place.octets);
  if (reached != Reached::kByCall) [[likely]]
    return reached;
  return in_parts(place, pieces, [&](const Place& part, auto of_part, bool) {
    const Reached read = reach_.read(part.grant, of_part, part.octets);
    if (read != Reached::kByCall) return read;
    return by_call(visit, part, [&](const Permission& permission) {
      return reach_.read_by_call(part.grant.address, of_part, part.octets, permission);
    });
  });
}

/// The pages at the edges of a region may be private while those between are shared. So a range has
/// up to three parts, moved in this order: before the shared part, the shared part, behind it.
/// Mostly there is only one.
template <typename Move>
Reached PeerMemory::in_parts(const Place& place, std::span<const iovec> pieces,
                             Move&& move) noexcept {
  const memory::SharedPart shared = place.grant.shared;
  const std::array<std::uint64_t, 4> borders{0, shared.offset, shared.offset + shared.octets,
                                             place.octets};
  PieceCursor cursor(pieces);
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    const std::uint64_t octets = borders[i + 1] - borders[i];
    if (octets == 0) continue;
    const auto backing = i == 1 ? memory::Backing::kShared : memory::Backing::kPrivate;
    const Place part{
        .grant = place.grant.from(borders[i], backing), .key = place.key, .octets = octets};
    const bool is_end = borders[i + 1] == place.octets;
    if (const Reached reached = move(part, cursor.take(octets), is_end); reached != Reached::kYes) {
      return reached;
    }
  }
  return Reached::kYes;
}

}  // namespace verbatim::direct

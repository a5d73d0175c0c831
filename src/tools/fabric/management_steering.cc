// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/management_steering.h"

#include <algorithm>
#include <array>

#include "wire/headers/bth.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"
#include "wire/headers/packet.h"

namespace verbatim::tools {
namespace {

constexpr std::size_t kPacketMax = wire::Lrh::kSize + wire::Grh::kSize + wire::Bth::kSize +
                                   wire::Deth::kSize + wire::Mad::kSize + wire::kIcrcSize;

}  // namespace

wire::Addressee addressee_of_packet(std::span<const std::byte> packet) noexcept {
  std::array<std::byte, kPacketMax> copy;
  if (packet.size() > copy.size()) return wire::NoAgent{};
  std::ranges::copy(packet, copy.begin());
  auto rest = std::span<const std::byte>(copy).first(packet.size());
  const auto lrh = wire::LrhView::parse(rest);
  if (!lrh) return wire::NoAgent{};
  const bool is_global = lrh->next_header() == wire::LinkNextHeader::kGrh;
  const std::size_t headers = wire::Lrh::kSize + (is_global ? wire::Grh::kSize : 0);
  if (rest.size() < headers) return wire::NoAgent{};
  const auto parsed = wire::PacketView::parse(rest.subspan(headers));
  return parsed ? wire::addressee_of(parsed->payload()) : wire::NoAgent{};
}

void ServiceSeats::set(std::uint32_t service, std::uint32_t slot, bool listens) {
  const Seat seat{.service = service, .slot = slot};
  std::erase(seats_, seat);
  if (!listens || seats_.size() >= kSeatsMax) return;
  seats_.insert(std::ranges::upper_bound(seats_, service, {}, &Seat::service), seat);
}

void ServiceSeats::remove(std::uint32_t slot) {
  std::erase_if(seats_, [&](const Seat& seat) { return seat.slot == slot; });
}

std::uint32_t ServiceSeats::slot_of(std::uint32_t service, std::uint32_t otherwise) const noexcept {
  const auto found = std::ranges::lower_bound(seats_, service, {}, &Seat::service);
  return found != seats_.end() && found->service == service ? found->slot : otherwise;
}

}  // namespace verbatim::tools

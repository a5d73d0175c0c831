// SPDX-License-Identifier: Apache-2.0
// How a responder handles many packets of one message at once. Only Middle packets are handled so:
// they neither begin nor end a message. All others are handled one by one (rc_responder.cc).
#include <algorithm>
#include <cstring>

#include "transport/rc/rc_responder.h"
#include "transport/rules/request_rules.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

using wire::Bth;
using wire::Operation;
using wire::Psn;

namespace {

std::span<const std::byte, Bth::kSize> bth_of(const TrainArrival& train,
                                              std::size_t index) noexcept {
  return std::span<const std::byte, Bth::kSize>(train.octets.data() + index * train.packet_octets,
                                                Bth::kSize);
}

}  // namespace

std::size_t RcResponder::handle_train(const TrainArrival& train, wire::PKey pkey) noexcept {
  const Middles middles = find_middles(train, pkey);
  if (middles.count == 0) return 0;
  const std::size_t placed = place(train, middles);
  if (placed == 0) return 0;
  const auto octets = static_cast<std::uint32_t>(placed) * state_->path_mtu;
  if (state_->inbound == Inbound::kSend) landing_.skip(octets);
  state_->arrived += octets;
  const Psn first = state_->expected_psn;
  state_->expected_psn = first + static_cast<std::uint32_t>(placed);
  counters_.requests += placed;
  counters_.octets += octets;
  note_accepted();
  for (std::size_t index = placed; index-- > 0;) {
    const auto bth = wire::BthView::parse(bth_of(train, index));
    if (!bth || !bth->ack_request()) continue;
    owe(wire::Syndrome::ack(), first + static_cast<std::uint32_t>(index));  // covers all before it
    break;
  }
  return placed;
}

/// The number of Middle packets at the front of the train that continue the message, and their
/// place in memory. A packet that a check of handle_request() would refuse is not among them.
RcResponder::Middles RcResponder::find_middles(const TrainArrival& train,
                                               wire::PKey pkey) const noexcept {
  const std::uint32_t mtu = state_->path_mtu;
  if (state_->failed || state_->inbound == Inbound::kNone) return {};
  if (train.packet_octets != Bth::kSize + mtu + wire::kIcrcSize) return {};
  const bool is_send = state_->inbound == Inbound::kSend;
  if (!is_send && !check_allowed(*state_, RequestKind::kWrite).accepted()) return {};
  std::size_t count = train.octets.size() / train.packet_octets;
  const auto first = wire::BthView::parse(train.octets);
  if (!first || count == 0 || first->dest_qp() != state_->number) return {};
  const auto middle =
      wire::opcode_of(transport_, is_send ? Operation::kSendMiddle : Operation::kWriteMiddle);
  if (first->opcode() != middle || first->pad_count() != 0 ||
      !wire::pkeys_match(first->pkey(), pkey)) {
    return {};
  }
  for (std::size_t index = 0; index < count; ++index) {
    const auto octets = bth_of(train, index);
    const auto bth = wire::BthView::parse(octets);
    const bool is_alike = std::memcmp(octets.data(), train.octets.data(), Bth::kFrontSize) == 0;
    if (is_alike && bth && bth->psn() == state_->expected_psn + static_cast<std::uint32_t>(index)) {
      continue;
    }
    count = index;
    break;
  }
  const auto room = is_send ? landing_.receive_run() : landing_.write_run(count * mtu);
  count = std::min<std::size_t>(count, room.size() / mtu);
  return {.count = count, .to = room.data()};
}

/// Copies payloads up to the first packet with a wrong ICRC; returns how many.
std::size_t RcResponder::place(const TrainArrival& train, const Middles& middles) noexcept {
  const std::uint32_t mtu = state_->path_mtu;
  wire::IcrcRun icrc(*train.seed, train.packet_octets);
  std::uint64_t front;
  std::memcpy(&front, train.octets.data(), sizeof front);
  icrc.share(front);
  std::uint16_t identification = train.identification;
  for (std::size_t index = 0; index < middles.count; ++index) {
    const auto packet = train.octets.subspan(index * train.packet_octets, train.packet_octets);
    std::uint32_t back;
    std::memcpy(&back, packet.data() + Bth::kFrontSize, sizeof back);
    const std::uint32_t state = icrc.copy(back, identification++, middles.to + index * mtu,
                                          packet.subspan(Bth::kSize, mtu));
    if (!wire::is_icrc(packet.last<wire::kIcrcSize>(), state)) return index;
  }
  return middles.count;
}

}  // namespace verbatim::transport

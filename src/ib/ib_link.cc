// SPDX-License-Identifier: Apache-2.0
#include "ib/ib_link.h"

#include <chrono>
#include <cstring>
#include <optional>

#include "link/native_headers.h"

namespace verbatim::link {
namespace {

// How often a held link looks for free buffers while a thread polls: the time in which the fabric
// empties a few.
constexpr Duration kNextLook = std::chrono::microseconds(5);
// When it looks though no thread polls: less than the fabric takes to empty all.
constexpr Duration kPatience = std::chrono::microseconds(100);

/// Nothing when the octets are no packet with a BTH.
std::optional<Incoming> read_headers(std::span<const std::byte> packet) noexcept {
  const auto lrh = wire::LrhView::parse(packet);
  if (!lrh) return std::nullopt;
  Incoming incoming;
  incoming.local = {
      .source = lrh->source(), .destination = lrh->destination(), .level = lrh->level()};
  incoming.octets = packet.subspan(wire::Lrh::kSize);
  if (lrh->next_header() == wire::LinkNextHeader::kBth) return incoming;
  const auto grh = wire::GrhView::parse(incoming.octets);
  if (lrh->next_header() != wire::LinkNextHeader::kGrh || !grh) return std::nullopt;
  incoming.source = grh->source();
  incoming.destination = grh->destination();
  incoming.traffic_class = grh->traffic_class();
  incoming.flow_label = grh->flow_label();
  incoming.hop_limit = grh->hop_limit();
  incoming.octets = incoming.octets.subspan(wire::Grh::kSize);
  return incoming;
}

}  // namespace

void IbLink::open() noexcept {
  descriptor_ = {port_.descriptor()};
  outgoing_.use_trains(false);
  write_to(&outgoing_);
}

void IbLink::close() noexcept {
  write_to(nullptr);
  hold(false);
}

bool IbLink::send_packet(const Outgoing& to, std::span<const std::byte> transport) noexcept {
  const auto buffer = port_.next_buffer();
  if (!to.local.exists() || buffer.empty()) return false;
  const std::size_t headers = write_native_headers(to, transport.size(), buffer);
  if (headers + transport.size() > buffer.size()) return false;
  std::memcpy(buffer.data() + headers, transport.data(), transport.size());
  port_.post(headers + transport.size(), to.local.rate);
  return true;
}

void IbLink::send(Instant now, Burst& burst) noexcept {
  if (!is_open()) return;
  for (Burst::Train& train : burst.trains()) {
    for (std::size_t number = 0; number < train.packets; ++number) {
      const bool is_sent = send_packet(train.to, burst.packet(train, number));
      if (is_sent) train.sent_bits |= std::uint64_t{1} << number;
      ++(is_sent ? counters_.packets_sent : counters_.send_failures);
    }
  }
  if (!burst.is_empty()) port_.ring_fabric();
  look_for_room(now);
}

/// The owner commits at most a burst before it asks again whether the link is held.
void IbLink::look_for_room(Instant now) noexcept {
  hold(!port_.has_free_buffers(Burst::kTrains));
  looked_ = now;
}

Instant IbLink::next_due() const noexcept {
  return is_held() ? looked_ + kPatience : Instant::never();
}

std::span<const Incoming> IbLink::receive(Instant now, Look /*look*/) noexcept {
  if (!is_open()) return {};
  if (is_held() && now - looked_ >= kNextLook) look_for_room(now);
  port_.release();
  std::size_t count = 0;
  for (const auto packet : port_.receive()) {
    const auto incoming = read_headers(packet);
    if (!incoming) continue;
    incoming_[count++] = *incoming;
  }
  counters_.packets_received += count;
  return std::span(incoming_).first(count);
}

std::span<const int> IbLink::descriptors() const noexcept {
  if (!is_open()) return {};
  return descriptor_;
}

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
// How a MadPort sends what programs have posted, repeats it, and gives it up.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/byte_order.h"
#include "fabric/mads/mad_port.h"
#include "fabric/mads/mad_rules.h"

namespace verbatim::fabric {
namespace {

using Octets = std::array<std::byte, wire::Mad::kSize>;

/// The first datagram of a message, or the only one, filled up with zeroes.
[[nodiscard]] Octets first_octets(std::span<const std::byte> message) noexcept {
  Octets octets{};
  std::ranges::copy(message.first(std::min(message.size(), octets.size())), octets.begin());
  return octets;
}

/// A request gets the number of the agent into its transaction.
[[nodiscard]] SendKey key_of(const MadAgent& agent, const wire::MadView& mad,
                             wire::Lid destination) noexcept {
  const bool responds = is_response(mad);
  return {.agent = agent.number,
          .transaction = responds ? mad.transaction() : with_agent(mad.transaction(), agent.number),
          .mgmt_class = mad.mgmt_class(),
          .is_response = responds,
          .destination = responds ? destination : wire::Lid{}};
}

void set_transaction(std::span<std::byte> octets, wire::TransactionId transaction) noexcept {
  store_be_at<std::uint64_t>(octets.data() + 8, static_cast<std::uint64_t>(transaction));
}

}  // namespace

/// What a program wants to send, by the headers of its first datagram.
struct MadPort::Intent {
  SendKey key{};
  bool is_segment = false;  // of a message
  bool is_message = false;  // which this port divides into segments; else it is one datagram
  bool waits = false;       // for an answer
};

/// `mad` must begin with the header of a datagram.
MadPort::Intent MadPort::intent_of(const MadAgent& agent, const UserMad& mad) {
  const Octets octets = first_octets(mad.octets);
  const auto view = wire::MadView::parse(octets);
  const bool carries_rmpp = wire::has_rmpp(view->mgmt_class());
  Intent intent{.key = key_of(agent, *view, mad.address.lid)};
  intent.is_segment = carries_rmpp && wire::RmppView(*view).is_active();
  intent.is_message = intent.is_segment && agent.registration.rmpp == RmppMode::kPort;
  intent.waits = mad.timeout.count() != 0 && !intent.key.is_response;
  return intent;
}

Status MadPort::may_send(ClientId client, const UserMad& mad, std::size_t octets) const {
  const MadAgent* const agent = agents_.find(client, mad.agent);
  if (agent == nullptr) return Errc::kNoSuchObject;
  return judge_send(*agent, mad, octets);
}

/// The rules of Linux, and the limits of this port.
Status MadPort::judge_send(const MadAgent& agent, const UserMad& mad, std::size_t octets) const {
  const Registration& registration = agent.registration;
  if (octets < wire::Rmpp::kEnd || octets > kMessageOctetsMax) return Errc::kInvalidArgument;
  const bool is_general = registration.qpn == wire::QpNumber::kGsi;
  if (is_general && mad.pkey_index >= identity_.pkeys.size()) return Errc::kInvalidArgument;
  const Octets first = first_octets(mad.octets);
  const auto view = wire::MadView::parse(first);
  if (!view) return Errc::kInvalidArgument;
  if (registration.rmpp != RmppMode::kNone && !wire::has_rmpp(view->mgmt_class())) {
    return Errc::kInvalidArgument;
  }
  const Intent intent = intent_of(agent, mad);
  if (octets < wire::header_octets_of(view->mgmt_class())) return Errc::kInvalidArgument;
  if (!intent.is_message && octets > wire::Mad::kSize) return Errc::kInvalidArgument;
  const bool is_duplicate = sends_.contains(intent.key);
  if (is_duplicate && (intent.is_message || !intent.is_segment)) return Errc::kInvalidArgument;
  if (ready_.size() >= kWaitingPacketsMax) return Errc::kNoMemory;
  if (intent.is_message && !budget_.has(octets)) return Errc::kNoMemory;
  const bool is_kept = intent.is_message || (intent.waits && !is_duplicate);
  if (is_kept && sends_.size() >= kOutstandingMax) return Errc::kNoMemory;
  return Ok{};
}

Status MadPort::post_send(Instant, ClientId client, UserMad mad) {
  const MadAgent* const agent = agents_.find(client, mad.agent);
  if (agent == nullptr) return Errc::kNoSuchObject;
  if (auto allowed = judge_send(*agent, mad, mad.octets.size()); !allowed) return allowed;
  const Intent intent = intent_of(*agent, mad);
  if (!intent.key.is_response) set_transaction(mad.octets, intent.key.transaction);
  if (!intent.is_message) {
    mad.octets.resize(wire::Mad::kSize);
    if (!intent.waits || sends_.contains(intent.key)) {
      ready_.emplace_back(packet_to(*agent, mad));
      return Ok{};
    }
  }
  Send send{.mad = std::move(mad), .held = HeldOctets(budget_)};
  send.retries_left = send.mad.retries;
  if (intent.is_message) {
    if (!send.held.hold(send.mad.octets.size())) return Errc::kNoMemory;  // judged above
    send.segments.emplace(std::exchange(send.mad.octets, {}));
  }
  list(intent.key, sends_.add(intent.key, std::move(send)));
  return Ok{};
}

ManagementPacket MadPort::packet_to(const MadAgent& agent, const UserMad& mad) const {
  const bool is_subnet = agent.registration.qpn == wire::QpNumber::kSmi;
  const MadAddress& to = mad.address;
  const auto path_mask = static_cast<std::uint16_t>((1U << identity_.lmc) - 1);
  const auto path = static_cast<std::uint16_t>(to.path_bits & path_mask);
  ManagementPacket packet{.source = wire::Lid{static_cast<std::uint16_t>(
                              static_cast<std::uint16_t>(identity_.base_lid) | path)},
                          .destination = to.lid,
                          .level = to.level,
                          .source_qp = agent.registration.qpn,
                          .dest_qp = to.qpn};
  // A directed route to the permissive LID comes from the permissive LID (IBA Vol 1, 14.2.2.2).
  if (to.lid == wire::Lid::kPermissive) packet.source = wire::Lid::kPermissive;
  if (!is_subnet) {
    packet.qkey = to.qkey;
    packet.pkey =
        mad.pkey_index < identity_.pkeys.size() ? identity_.pkeys[mad.pkey_index] : wire::PKey{};
  }
  if (to.has_grh) {
    packet.global_route = GlobalRoute{
        .source = to.gid_index < identity_.gids.size() ? identity_.gids[to.gid_index] : wire::Gid{},
        .destination = to.gid,
        .flow_label = to.flow_label,
        .traffic_class = to.traffic_class,
        .hop_limit = to.hop_limit};
  }
  std::ranges::copy(std::span(mad.octets).first(std::min(mad.octets.size(), packet.mad.size())),
                    packet.mad.begin());
  return packet;
}

void MadPort::list(const SendKey& key, Send& send) {
  if (std::exchange(send.is_listed, true)) return;
  ready_.emplace_back(key);
}

std::optional<ManagementPacket> MadPort::transmit(Instant now, const SendKey& key) {
  Send* const send = sends_.find(key);
  if (send == nullptr) return std::nullopt;  // answered meanwhile, or its agent is gone
  send->is_listed = false;
  const MadAgent* const agent = agents_.find(key.agent);
  VB_ASSERT(agent != nullptr);  // its sends end with it
  if (send->segments && !send->segments->has_next()) return std::nullopt;
  ManagementPacket packet = packet_to(*agent, send->mad);
  if (send->segments) {
    send->segments->emit_next(packet.mad);
    if (send->segments->has_next()) list(key, *send);
  }
  sends_.set_deadline(key, now + patience_of(*send));
  return packet;
}

Duration MadPort::patience_of(const Send& send) noexcept {
  Duration patience = send.mad.timeout;
  if (send.segments && !send.segments->is_finished()) {
    patience = patience == Duration{} ? kAckTimeout : std::min(patience, kAckTimeout);
  }
  const bool is_last = send.retries_left == 0 || (send.segments && send.segments->is_finished());
  return is_last && patience > kEarlyFailure ? patience - kEarlyFailure : patience;
}

void MadPort::handle_silence(const SendKey& key) {
  Send& send = *sends_.find(key);
  const bool has_arrived = send.segments && send.segments->is_finished();
  if (send.retries_left == 0 || has_arrived) return fail(key);
  --send.retries_left;
  ++counters_.repeated;
  if (send.segments) send.segments->repeat();
  list(key, send);
}

void MadPort::fail(const SendKey& key) {
  Send& send = *sends_.find(key);
  const MadAgent* const agent = agents_.find(key.agent);
  VB_ASSERT(agent != nullptr);
  Delivery delivery{.client = agent->client, .mad = std::move(send.mad)};
  if (send.segments) {
    const auto message = send.segments->message();
    delivery.mad.octets.assign(message.begin(), message.begin() + UserMad::kUnansweredOctets);
  }
  delivery.mad.octets.resize(UserMad::kUnansweredOctets);
  delivery.mad.status = UserMad::kTimedOut;
  ++counters_.unanswered;
  deliveries_.push_back(std::move(delivery));
  sends_.erase(key);
}

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#include "connect/id.h"

#include <utility>

#include "base/mutex.h"
#include "base/prng.h"
#include "connect/device.h"
#include "connect/lock.h"
#include "connect/system.h"
#include "device/clock.h"

namespace verbatim::connect {
namespace {

/// The number of the first packet that a peer is to send.
wire::Psn random_psn() noexcept {
  static std::atomic<std::uint64_t> count{0};
  const auto at = static_cast<std::uint64_t>(device::now().since_start().count());
  return wire::Psn(static_cast<std::uint32_t>(Prng(at + (++count << 40)).next()));
}

}  // namespace

Id::Id(System& system, EventQueue& queue, wire::PortSpace space)
    : system_(system), space_(space), listening_(system, *this), queue_(&queue) {
  options_.is_datagram = space == wire::PortSpace::kUdp || space == wire::PortSpace::kIpoib;
  terms_.starting_psn = random_psn();
}

Id::Id(const Id& listener, const cm::AgentEvent& event, const Route& ends)
    : system_(listener.system_),
      space_(listener.space_),
      state_(IdState::kRequested),
      ends_(ends),
      communication_(event.id),
      listening_(listener.system_, *this),
      queue_(listener.queue_) {
  options_.is_datagram = listener.options_.is_datagram;
  options_.traffic_class = listener.options_.traffic_class;
  options_.ack_timeout = listener.options_.ack_timeout;
  terms_.starting_psn = random_psn();
  if (const auto* request = event.as<wire::CmReq>()) {
    // The peer's responder resources limit this end's initiator depth, and the other way round.
    terms_.responder_resources = request->initiator_depth;
    terms_.initiator_depth = request->responder_resources;
    terms_.remote_ece = request->ece;
    options_.traffic_class = request->primary.traffic_class;
  }
}

Id::~Id() { end(); }

void Id::end() {
  if (std::exchange(has_ended_, true)) return;
  system_.stop_seeking(*this);
  groups_.leave_all(pair_);
  leave_subnet_groups();
  leave_devices();
  drop_events();
  await_acknowledgements();
  listening_.give_port_back();
}

/// After this the id gets no more events.
void Id::leave_devices() {
  listening_.stop();
  Device* const device = ends_.device;
  if (device == nullptr) return;
  if (has_communication()) {
    (void)device->with_agent([&](cm::Agent& agent, Instant now) VB_REQUIRES(connections_mutex()) {
      device->remove_communication(communication_);
      return agent.destroy(now, std::exchange(communication_, wire::CommId{}));
    });
  }
  const LockGuard lock(connections_mutex());
  device->remove_user(*this);
  device->remove_questions(*this);
}

/// Drops the events that the program has not taken. The ids of requests among them end with them,
/// because only the event refers to them.
void Id::drop_events() {
  std::vector<std::unique_ptr<Event>> dropped;
  {
    const LockGuard lock(connections_mutex());
    dropped = queue_->extract(*this);
  }
}

void Id::await_acknowledgements() {
  const LockGuard lock(connections_mutex());
  connect::events_acknowledged().wait(connections_mutex(), [&]() VB_REQUIRES(connections_mutex()) {
    return events_acknowledged_ == events_given_;
  });
}

void Id::adopt(void* border, PairControl& pair) noexcept {
  border_ = border;
  pair_ = &pair;
}

Route Id::ends() const {
  const LockGuard lock(connections_mutex());
  return ends_;
}

Id::Terms Id::terms() const {
  Terms terms;
  Device* device = nullptr;
  {
    const LockGuard lock(connections_mutex());
    terms = terms_;
    device = ends_.device;
  }
  if (device != nullptr) terms.settings = settings_at(*device);
  return terms;
}

std::optional<cm::QpSettings> Id::settings_at(Device& device) const {
  Services& services = device.services();
  const ServicesGuard lock(services);
  if (!has_communication()) return std::nullopt;
  const auto settings = services.agent().qp_settings(communication_);
  if (!settings) return std::nullopt;
  return *settings;
}

void Id::attach_to(Device& device) {
  if (ends_.device != nullptr) ends_.device->remove_user(*this);
  device.add_user(*this, ends_.local);
  ends_.device = &device;
}

Outcome Id::make_ready(const PairControl::Depths& depths) {
  return pair_ == nullptr ? Outcome(Ok{}) : pair_->make_ready(depths);
}

Outcome Id::fail_pair() { return pair_ == nullptr ? Outcome(Ok{}) : pair_->enter_error(); }

Outcome Id::join(const IpEndpoint& group, void* context, wire::JoinState state) {
  if (ends_.device == nullptr || !options_.is_datagram) return Error::kInvalidArgument;
  if (ends_.device->is_native()) return join_in_subnet(group, context, state);
  if (group.ib) return Error::kAddressFamily;
  if (!group.address.is_multicast()) return Error::kInvalidArgument;
  if (!group.is_ipv4) return Error::kNotSupported;  // as Linux has it over RoCEv2
  groups_.join(group.address);
  auto event = std::make_unique<Event>(EventKind::kJoined, *this);
  event->group = group.address;
  event->context = context;
  const LockGuard lock(connections_mutex());
  push(std::move(event));
  return Ok{};
}

Outcome Id::leave(const IpEndpoint& group) {
  const bool is_native = ends_.device != nullptr && ends_.device->is_native();
  return is_native ? leave_in_subnet(group) : groups_.leave(group.address, pair_);
}

}  // namespace verbatim::connect

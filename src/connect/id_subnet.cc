// SPDX-License-Identifier: Apache-2.0
// What an id asks the administration of its subnet: the path to its peer, and to join groups.
#include <algorithm>
#include <optional>
#include <utility>

#include "connect/device.h"
#include "connect/id.h"
#include "connect/lock.h"
#include "wire/management/sa_message.h"

namespace verbatim::connect {
namespace {

/// What is asked for a path, as Linux asks it (cma_query_ib_route).
MadOctets query_of_path(const Route& ends, wire::ServiceId service, wire::PKey pkey,
                        std::uint8_t traffic_class) noexcept {
  using wire::PathRecord;
  PathRecord wanted{.service = service,
                    .destination_gid = ends.remote,
                    .source_gid = ends.local,
                    .is_reversible = true,
                    .path_count = 1,
                    .pkey = pkey};
  std::uint64_t mask = PathRecord::kService | PathRecord::kDestinationGid | PathRecord::kSourceGid |
                       PathRecord::kReversible | PathRecord::kPathCount | PathRecord::kPKey;
  if (ends.destination.is_ipv4) {
    wanted.qos_class = traffic_class;
    mask |= PathRecord::kQosClass;
  } else {
    wanted.traffic_class = traffic_class;
    mask |= PathRecord::kTrafficClass;
  }
  MadOctets octets;
  wire::SaMessage{.method = wire::MadMethod::kGet, .component_mask = mask}.emit(wanted, octets);
  return octets;
}

/// The status with which a port answers a request that no agent wants (IBA Vol 1, 13.4.7): the
/// subnet manager is gone, and its port is still there. That is no answer of the administration.
constexpr std::uint16_t kUnsupported = 0x000c;

/// The record of an answer, or the error of the event: that of Linux.
template <typename Record>
Expected<Record, Error> record_of(const SubnetAnswer& answer) noexcept {
  if (!answer.is_answered) return Error::kTimedOut;
  const auto mad = wire::MadView::parse(answer.octets);
  if (mad && mad->status() == kUnsupported) return Error::kTimedOut;
  if (!mad || mad->status() != 0) return Error::kInvalidArgument;
  const auto record = wire::record_in<Record>(*mad);
  if (!record) return Error::kInvalidArgument;
  return *record;
}

/// Why the administration cannot be asked, as an error of an event.
Error error_without_subnet(const Outcome& reached) noexcept {
  return reached.error() == Error::kNoMemory ? Error::kNoMemory : Error::kTimedOut;
}

}  // namespace

/// The partition of the id: of an address of the family AF_IB, else the default one. As the address
/// of an IPoIB interface, it has the bit of full members also where the port is a limited one.
wire::PKey Id::partition() const {
  if (ends_.source.ib) return ends_.source.ib->pkey;
  constexpr unsigned kFullMember = 0x8000;
  const auto key = static_cast<unsigned>(ends_.device->port().default_pkey());
  return wire::PKey{static_cast<std::uint16_t>(key | kFullMember)};
}

// ---- Paths ----

Outcome Id::ask_for_path(Duration patience) {
  Device& device = *ends_.device;
  const Outcome reached = device.services().reach_subnet();
  if (!reached) {
    const LockGuard lock(connections_mutex());
    tell_failure(EventKind::kRouteFailed, error_without_subnet(reached));
    return Ok{};
  }
  state_ = IdState::kResolvingRoute;
  const auto query = query_of_path(ends_, remote_service(), partition(), options_.traffic_class);
  const Outcome asked =
      device.ask_subnet({.id = this, .about = SubnetQuestion::About::kPath}, query, patience);
  if (!asked) state_ = IdState::kAddressResolved;
  return asked;
}

void Id::handle_path(const SubnetAnswer& answer) {
  const auto record = record_of<wire::PathRecord>(answer);
  const bool is_usable = record && record->destination != wire::Lid::kReserved;
  if (!is_usable) {
    state_ = IdState::kAddressResolved;
    return tell_failure(EventKind::kRouteFailed, record ? Error::kInvalidArgument : record.error());
  }
  ends_.path = *record;
  state_ = IdState::kRouteResolved;
  tell(EventKind::kRouteResolved);
}

Outcome Id::set_path(const wire::PathRecord& path) {
  const bool is_allowed = state_ == IdState::kAddressResolved && ends_.device->is_native() &&
                          path.destination != wire::Lid::kReserved;
  if (!is_allowed) return Error::kInvalidArgument;
  const LockGuard lock(connections_mutex());
  ends_.path = path;
  state_ = IdState::kRouteResolved;
  tell(EventKind::kRouteResolved);
  return Ok{};
}

void Id::handle(const SubnetQuestion& question, const SubnetAnswer& answer) {
  switch (question.about) {
    case SubnetQuestion::About::kPath:
      return handle_path(answer);
    case SubnetQuestion::About::kBroadcastGroup:
      return handle_broadcast_group(question.group, answer);
    case SubnetQuestion::About::kJoin:
      return handle_join(question.group, answer);
  }
}

// ---- Groups ----

Outcome Id::join_in_subnet(const IpEndpoint& group, void* context, wire::JoinState state) {
  const bool may_be_group = group.is_any() || group.address.is_multicast() || group.ib;
  if (!may_be_group) return Error::kInvalidArgument;
  Device& device = *ends_.device;
  if (const Outcome reached = device.services().reach_subnet(); !reached) return reached;
  SubnetGroup joins{.address = group.address, .context = context};
  joins.record = {.group = group_gid_of(group, space_, partition()),
                  .port_gid = device.own_gid(),
                  .qkey = kDatagramQKey,
                  .pkey = partition(),
                  .join_state = state};
  {
    const LockGuard lock(connections_mutex());
    joins.number = next_group_++;
    subnet_groups_.push_back(joins);
  }
  return device.ask_subnet(
      {.id = this, .about = SubnetQuestion::About::kBroadcastGroup, .group = joins.number},
      query_of_group(broadcast_gid_of(partition()), device.own_gid()), kSubnetPatience);
}

SubnetGroup* Id::find_group(std::uint32_t number) noexcept {
  const auto found = std::ranges::find(subnet_groups_, number, &SubnetGroup::number);
  return found != subnet_groups_.end() ? &*found : nullptr;
}

/// Without a broadcast group only ids of the IPoIB port space cannot join.
void Id::handle_broadcast_group(std::uint32_t number, const SubnetAnswer& answer) {
  SubnetGroup* const group = find_group(number);
  if (group == nullptr) return;  // the program has left it
  const auto broadcast = record_of<wire::MulticastRecord>(answer);
  const bool is_needed = space_ == wire::PortSpace::kIpoib;
  if (!broadcast && (is_needed || broadcast.error() == Error::kTimedOut)) {
    return fail_join(number, broadcast.error() == Error::kTimedOut ? Error::kTimedOut
                                                                   : Error::kAddressNotAvailable);
  }
  if (broadcast) take_parameters(*broadcast, space_, group->record);
  group->phase = SubnetGroup::Phase::kJoins;
  const Outcome asked = ends_.device->ask_subnet_amid(
      {.id = this, .about = SubnetQuestion::About::kJoin, .group = number}, join_of(*group, space_),
      kSubnetPatience);
  if (!asked) fail_join(number, asked.error());
}

void Id::handle_join(std::uint32_t number, const SubnetAnswer& answer) {
  SubnetGroup* const group = find_group(number);
  if (group == nullptr) return;
  const auto record = record_of<wire::MulticastRecord>(answer);
  if (!record) return fail_join(number, record.error());
  group->phase = SubnetGroup::Phase::kJoined;
  group->record = *record;
  auto event = std::make_unique<Event>(EventKind::kJoined, *this);
  event->group = record->group;
  event->record = *record;
  event->context = group->context;
  push(std::move(event));
}

void Id::fail_join(std::uint32_t number, Error error) {
  const SubnetGroup* const group = find_group(number);
  if (group == nullptr) return;
  auto event = std::make_unique<Event>(EventKind::kJoinFailed, *this);
  event->group = group->record.group;
  event->context = group->context;
  event->error = error;
  std::erase_if(subnet_groups_, [&](const SubnetGroup& each) { return each.number == number; });
  push(std::move(event));
}

void Id::lose_groups() {
  std::vector<std::uint32_t> lost;
  for (const SubnetGroup& group : subnet_groups_) {
    if (group.phase == SubnetGroup::Phase::kJoined) lost.push_back(group.number);
  }
  for (const std::uint32_t number : lost) fail_join(number, Error::kNetworkReset);
}

Outcome Id::leave_in_subnet(const IpEndpoint& group) {
  std::optional<SubnetGroup> left;
  {
    const LockGuard lock(connections_mutex());
    const auto found = std::ranges::find(subnet_groups_, group.address, &SubnetGroup::address);
    if (found == subnet_groups_.end()) return Error::kAddressNotAvailable;
    left = *found;
    subnet_groups_.erase(found);
  }
  (void)groups_.leave(left->record.group, pair_);  // not attached before the event was taken
  if (left->may_be_member()) ends_.device->tell_subnet(leave_of(*left), kSubnetPatience);
  return Ok{};
}

void Id::leave_subnet_groups() noexcept {
  std::vector<SubnetGroup> left;
  {
    const LockGuard lock(connections_mutex());
    left.swap(subnet_groups_);
  }
  for (const SubnetGroup& group : left) {
    if (group.may_be_member()) ends_.device->tell_subnet(leave_of(group), kSubnetPatience);
  }
}

}  // namespace verbatim::connect

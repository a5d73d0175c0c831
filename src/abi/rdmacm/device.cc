// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "abi/rdmacm/id.h"
#include "abi/rdmacm/neighbours.h"
#include "abi/rdmacm/wildcards.h"
#include "base/fork_mutex.h"
#include "base/process_wide.h"
#include "device/config.h"
#include "device/port_watch.h"
#include "device/process.h"
#include "wire/ip_cm_header.h"

namespace verbatim::abi {
namespace {

struct CmDevices {
  ForkMutex mutex;
  std::vector<CmDevice*> list;
  std::vector<CmDevice*> removed;    // ids may still stand on them
  std::vector<CmDevice*> inherited;  // a child's, of no use to it
  bool is_open = false;
};
CmDevices& opened() {
  return process_wide([] { return new CmDevices; });
}

/// A forked child has no device: those it inherited are its parent's.
void begin_anew() {
  CmDevices& devices = opened();
  devices.inherited.insert(devices.inherited.end(), devices.list.begin(), devices.list.end());
  devices.list.clear();
  devices.is_open = false;
  devices.mutex.unlock();
}

const device::TakesPartInForks kInForks({.rank = device::ForkRank::kConnectedDevices,
                                         .prepare = [] { opened().mutex.lock(); },
                                         .parent = [] { opened().mutex.unlock(); },
                                         .child = begin_anew,
                                         .forget = [] { device::renew(opened()); }});

/// At the end of the process, however much it left open: peers are told, as a kernel would tell
/// them.
void take_leave() {
  CmDevices& devices = opened();
  if (!device::lock_at_exit(devices.mutex)) return;
  const std::lock_guard lock(devices.mutex, std::adopt_lock);
  if (!device::lock_at_exit(events_mutex())) return;
  const std::lock_guard events(events_mutex(), std::adopt_lock);
  for (CmDevice* device : devices.list) {
    if (!device::lock_at_exit(device->adapter().mutex())) continue;
    const std::lock_guard held(device->adapter().mutex(), std::adopt_lock);
    device->take_leave();
  }
}

const device::TakesPartInExit kInExit(device::ExitRank::kConnections, take_leave);

CmDevice* open(ibv_device* device) {
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return nullptr;
  ibv_pd* domain = ibv_alloc_pd(context);
  if (domain != nullptr) return new CmDevice(context, domain);
  ibv_close_device(context);
  return nullptr;
}

/// The public part of a message's private data, from `skipped` on.
struct PrivateData {
  const void* data = nullptr;
  std::uint8_t octets = 0;
};
PrivateData keep_private_data(EventHandle& to, std::span<const std::byte> data,
                              std::size_t skipped = 0) noexcept {
  if (data.size() <= skipped) return {};
  data = data.subspan(skipped);
  std::ranges::copy(data, to.private_data.begin());
  return {.data = to.private_data.data(), .octets = static_cast<std::uint8_t>(data.size())};
}

void keep_private_data(EventHandle& to, const cm::Event& from) noexcept {
  const PrivateData kept = keep_private_data(to, from.private_data());
  to.event.param.conn.private_data = kept.data;
  to.event.param.conn.private_data_len = kept.octets;
}

/// What the peer offers to accept is what we may begin, and the other way round.
template <typename Message>
void keep_parameters(rdma_conn_param& to, const Message& message) noexcept {
  to.responder_resources = message.initiator_depth;
  to.initiator_depth = message.responder_resources;
  to.flow_control = message.end_to_end_flow_control ? 1 : 0;
  to.rnr_retry_count = message.rnr_retry_count;
  to.srq = message.uses_srq ? 1 : 0;
  to.qp_num = static_cast<std::uint32_t>(message.local_qpn);
}

EventHandle* event_of_reply(IdHandle& id, const cm::Event& from) {
  EventHandle* event = make_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE);
  keep_private_data(*event, from);
  if (const auto* reply = from.as<wire::CmRep>()) {
    keep_parameters(event->event.param.conn, *reply);
    id.remote_ece = reply->ece;
  }
  return event;
}

EventHandle* event_of_service_reply(IdHandle& id, const cm::Event& from) {
  const auto* reply = from.as<wire::CmSidrRep>();
  if (reply == nullptr) return make_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  const bool is_valid = reply->status == wire::SidrStatus::kValid;
  EventHandle* event =
      make_event(id, is_valid ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
                 static_cast<int>(reply->status));
  const PrivateData kept = keep_private_data(*event, from.private_data());
  rdma_ud_param& ud = event->event.param.ud;
  ud.private_data = kept.data;
  ud.private_data_len = kept.octets;
  ud.qp_num = static_cast<std::uint32_t>(reply->qpn);
  ud.qkey = static_cast<std::uint32_t>(reply->qkey);
  ud.ah_attr = address_vector(id, from.address);
  return event;
}

EventHandle* event_of(IdHandle& id, const cm::Event& from) {
  switch (from.kind) {
    case cm::EventKind::kReply:
      return event_of_reply(id, from);
    case cm::EventKind::kServiceReply:
      return event_of_service_reply(id, from);
    case cm::EventKind::kEstablished: {
      EventHandle* event = make_event(id, RDMA_CM_EVENT_ESTABLISHED);
      keep_private_data(*event, from);
      return event;
    }
    case cm::EventKind::kRejected: {
      EventHandle* event = make_event(id, RDMA_CM_EVENT_REJECTED, static_cast<int>(from.reason));
      keep_private_data(*event, from);
      return event;
    }
    case cm::EventKind::kDisconnected: {
      EventHandle* event =
          make_event(id, RDMA_CM_EVENT_DISCONNECTED, from.message ? 0 : -ETIMEDOUT);
      keep_private_data(*event, from);
      return event;
    }
    case cm::EventKind::kUnreachable:
    case cm::EventKind::kServiceUnreachable:
      return make_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    case cm::EventKind::kTimewaitExit:
      return make_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    case cm::EventKind::kDelayed:
    case cm::EventKind::kConnectRequest:
    case cm::EventKind::kServiceRequest:
      return nullptr;
  }
  return nullptr;
}

/// Whom a request names at both ends.
struct Ends {
  IpEndpoint here{};
  IpEndpoint there{};
};
Ends ends_of(const wire::IpCmHeader& header, wire::ServiceId service, std::uint32_t scope) {
  const bool is_ipv4 = header.ip_version == wire::IpCmHeader::IpVersion::k4;
  Ends ends;
  ends.here = {.address = header.destination,
               .port = static_cast<std::uint16_t>(static_cast<std::uint64_t>(service) & 0xffff),
               .is_ipv4 = is_ipv4};
  ends.there = {.address = header.source, .port = header.source_port, .is_ipv4 = is_ipv4};
  for (IpEndpoint* end : {&ends.here, &ends.there}) {
    if (!is_ipv4 && end->is_link_local()) end->scope = scope;
  }
  return ends;
}

}  // namespace

CmDevice::CmDevice(ibv_context* context, ibv_pd* domain) noexcept
    : verbs_(context), pd_(domain), adapter_(abi::handle_of(context).adapter) {
  const std::lock_guard lock(adapter_->mutex());
  gsi().set_reader(this);
}

std::optional<std::uint32_t> CmDevice::index_of(const wire::Gid& gid) const noexcept {
  if (gid == wire::Gid{}) return std::nullopt;  // an entry that has gone
  const auto gids = port().gids;
  for (std::size_t i = 0; i < gids.size(); ++i) {
    if (gids[i].gid == gid) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

std::optional<wire::Gid> CmDevice::loopback_gid(bool is_ipv4) const noexcept {
  // Link-local addresses come first in the table, and are the last choice.
  const auto gids = port().gids;
  const auto found = std::find_if(gids.rbegin(), gids.rend(), [&](const device::GidEntry& entry) {
    return entry.gid.is_ipv4_mapped() == is_ipv4;
  });
  if (found == gids.rend()) return std::nullopt;
  return found->gid;
}

void CmDevice::take_leave() noexcept {
  gsi().set_reader(nullptr);
  for (const auto& [communication, id] : communications) {
    (void)gsi().agent().destroy(device::now(), wire::CommId{communication});
  }
  communications.clear();
  gsi().send();
  await_farewells();
  gsi().leave();
}

/// What a kernel would do after the program has ended: a disconnect that got lost is said again.
/// Peers that are there answer within a round trip; nobody waits long for one that is not.
void CmDevice::await_farewells() noexcept {
  constexpr auto kPause = std::chrono::microseconds(100);
  constexpr int kPausesPerCopy = 100;
  constexpr int kCopies = 15;
  for (int copy = 0; copy < kCopies && gsi().agent().has_farewells(); ++copy) {
    for (int pause = 0; pause < kPausesPerCopy && gsi().agent().has_farewells(); ++pause) {
      std::this_thread::sleep_for(kPause);
      (void)adapter_->progress();
    }
    gsi().agent().repeat_farewells();
    gsi().send();
  }
}

void CmDevice::handle_news() noexcept {
  const std::lock_guard lock(events_mutex());
  poll();
}

/// In batches, so that the adapter's lock is not held while events are handled.
void CmDevice::poll() noexcept {
  for (;;) {
    std::vector<cm::Event> events;
    std::vector<device::PortChange> changes;
    {
      const std::lock_guard lock(adapter_->mutex());
      while (auto event = gsi().poll_event()) events.push_back(std::move(*event));
      while (auto change = gsi().poll_port_change()) changes.push_back(std::move(*change));
    }
    if (events.empty() && changes.empty()) return;
    for (const cm::Event& event : events) handle(event);
    for (const device::PortChange& change : changes) handle(change);
  }
}

void CmDevice::handle(const cm::Event& event) noexcept {
  if (event.kind == cm::EventKind::kConnectRequest ||
      event.kind == cm::EventKind::kServiceRequest) {
    return handle_request(event);
  }
  const auto found = communications.find(static_cast<std::uint32_t>(event.id));
  if (found == communications.end()) return;
  IdHandle& id = *found->second;
  if (EventHandle* made = event_of(id, event)) push(id, made);
}

/// As Linux tells it: a device that goes ends all that stands on it; an id whose address has gone,
/// or is behind other hardware, may have lost its peer.
void CmDevice::handle(const device::PortChange& change) noexcept {
  for (const auto& [id, address] : users) {
    const bool is_moved = change.has_new_mac || std::find(change.lost.begin(), change.lost.end(),
                                                          address) != change.lost.end();
    if (!change.is_gone && !is_moved) continue;
    push(*id, make_event(
                  *id, change.is_gone ? RDMA_CM_EVENT_DEVICE_REMOVAL : RDMA_CM_EVENT_ADDR_CHANGE));
  }
}

/// Makes a new id, which the event of the request gives to the program.
void CmDevice::handle_request(const cm::Event& event) noexcept {
  const auto found = listeners.find(static_cast<std::uint32_t>(event.listener));
  const auto header = wire::IpCmHeader::parse(event.private_data());
  if (found == listeners.end() || !header) {
    (void)on_agent([&](cm::Agent& agent, Instant now) {
      return agent.destroy(now, event.id);  // which refuses it
    });
    return;
  }
  IdHandle& listener = *found->second;
  auto* id = new IdHandle;
  id->id.context = listener.id.context;
  id->id.ps = listener.id.ps;
  id->id.qp_type = listener.id.qp_type;
  id->state = IdState::kRequested;
  id->traffic_class = listener.traffic_class;
  id->ack_timeout = listener.ack_timeout;
  id->communication = event.id;
  id->local_gid = event.address.local;
  id->remote_gid = event.address.remote;
  const Ends ends = ends_of(*header, event.service_id, port().interface_index);
  id->source = ends.here;
  id->destination = ends.there;
  LiveHandles::instance().add(id);
  attach_held(*id, *this);
  communications[static_cast<std::uint32_t>(event.id)] = id;

  EventHandle* made = make_event(*id, RDMA_CM_EVENT_CONNECT_REQUEST);
  made->event.listen_id = &listener.id;
  made->counted = &listener;
  const PrivateData kept = keep_private_data(*made, event.private_data(), wire::IpCmHeader::kSize);
  if (const auto* request = event.as<wire::CmReq>()) {
    rdma_conn_param& conn = made->event.param.conn;
    keep_parameters(conn, *request);
    conn.retry_count = request->retry_count;
    conn.private_data = kept.data;
    conn.private_data_len = kept.octets;
    id->responder_resources = conn.responder_resources;
    id->initiator_depth = conn.initiator_depth;
    id->remote_ece = request->ece;
    id->traffic_class = request->primary.traffic_class;
  } else {
    rdma_ud_param& ud = made->event.param.ud;
    ud.private_data = kept.data;
    ud.private_data_len = kept.octets;
    ud.ah_attr = address_vector(*id, event.address);
  }
  id->channel = listener.channel;
  id->id.channel = listener.channel->public_part();
  listener.channel->push(made);
}

namespace {

/// Those that are not open yet, with the lock held.
void open_new(CmDevices& devices) {
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** device = list; device != nullptr && *device != nullptr; ++device) {
    const auto interface = static_cast<std::uint32_t>(ibv_get_device_index(*device));
    const bool is_open = std::any_of(
        devices.list.begin(), devices.list.end(),
        [&](const CmDevice* known) { return known->port().interface_index == interface; });
    if (is_open) continue;
    if (CmDevice* usable = open(*device)) devices.list.push_back(usable);
  }
  if (list != nullptr) ibv_free_device_list(list);
  devices.is_open = !devices.list.empty();
}

}  // namespace

std::vector<CmDevice*> cm_devices() {
  CmDevices& devices = opened();
  const std::lock_guard lock(devices.mutex);
  if (devices.is_open) return devices.list;
  open_new(devices);
  device::PortWatch::of_process().set_observer(follow_addresses);
  return devices.list;
}

void refresh_cm_devices() {
  CmDevices& devices = opened();
  const std::lock_guard lock(devices.mutex);
  std::erase_if(devices.list, [&](CmDevice* device) {
    const bool is_removed = device->adapter().is_removed();
    if (is_removed) devices.removed.push_back(device);
    return is_removed;
  });
  // Where the configuration names what is not there, nobody has asked just now, and nobody is told.
  std::string unsaid;
  if (device::read_config(unsaid)) open_new(devices);
}

CmDevice* cm_device_with(const wire::Gid& address) {
  for (CmDevice* device : cm_devices()) {
    if (device->index_of(address)) return device;
  }
  return nullptr;
}

CmDevice* cm_device_of(const IpEndpoint& endpoint) {
  CmDevice* const device = cm_device_with(endpoint.address);
  if (device != nullptr || !endpoint.is_loopback()) return device;
  for (CmDevice* stand_in : cm_devices()) {
    if (stand_in->loopback_gid(endpoint.is_ipv4)) return stand_in;
  }
  return nullptr;
}

}  // namespace verbatim::abi

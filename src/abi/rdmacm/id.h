// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "abi/rdmacm/address.h"
#include "abi/rdmacm/channel.h"
#include "abi/rdmacm/device.h"
#include "abi/verbs/handles.h"
#include "cm/address.h"
#include "cm/requests.h"
#include "wire/cm_ids.h"
#include "wire/psn.h"
#include "wire/service_id.h"

namespace verbatim::abi {

/// How far an id has come.
enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kResolving,  // until the event, nothing else may be asked for
  kAddressResolved,
  kRouteResolved,
  kListening,
  kConnecting,  // asked, or answered, and not established
  kRequested,   // by a peer, which waits for the answer
  kConnected,
  kDisconnected,
};

/// A group that an id has joined.
struct Membership {
  IpEndpoint group{};
  wire::Gid mgid{};
  void* context = nullptr;
  bool is_attached = false;
};

/// The number of the first packet that a peer is to send.
[[nodiscard]] wire::Psn random_psn() noexcept;

/// What a pointer to an rdma_cm_id really points to.
struct IdHandle {
  rdma_cm_id id{};
  std::array<std::byte, kSpareOctets> spare{};

  std::atomic<IdState> state{IdState::kIdle};  // asked for by any thread, also while it is resolved
  CmChannel* channel = nullptr;                // events_mutex()
  std::unique_ptr<CmChannel> own_channel;      // of a synchronous id
  std::uint32_t events_given = 0;  // events_mutex(); to the program, that it must acknowledge
  std::uint32_t events_acknowledged = 0;  // events_mutex()

  CmDevice* device = nullptr;
  IpEndpoint source{};
  IpEndpoint destination{};
  wire::Gid local_gid{};   // what `source` is on the device
  wire::Gid remote_gid{};  // what `destination` is to the device
  ibv_sa_path_rec path{};

  /// Services held at addresses of devices, for a port that was asked for by number.
  struct Claim {
    CmDevice* device = nullptr;
    wire::Gid address{};
  };
  std::vector<Claim> claims;
  bool has_given_port = false;  // one of those that nobody asks for by number

  struct Listener {
    CmDevice* device = nullptr;
    wire::Gid address{};
    cm::ListenerId id{};
  };
  std::vector<Listener> listening;
  std::uint32_t backlog = 0;

  wire::CommId communication{};  // zero: none
  wire::Psn starting_psn = random_psn();
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  bool failed_to_connect = false;  // the program has been told; what follows from it is not news
  wire::Ece local_ece{};
  wire::Ece remote_ece{};
  ibv_ah_attr requester{};  // SIDR: where the request came from

  bool reuses_address = false;
  bool ipv6_only = false;
  std::uint8_t traffic_class = 0;
  std::optional<std::uint8_t> ack_timeout{};

  std::optional<ibv_qp_init_attr> endpoint_init{};  // rdma_create_ep: for rdma_get_request
  std::vector<std::unique_ptr<Membership>> memberships;
  rdma_addrinfo* resolved_info = nullptr;  // rdma_resolve_addrinfo

  [[nodiscard]] bool is_synchronous() const noexcept { return own_channel != nullptr; }
  [[nodiscard]] bool is_datagram() const noexcept { return id.qp_type == IBV_QPT_UD; }
  /// Bound to every address of every device: by the address of all, or by a loopback address that
  /// is none of theirs.
  [[nodiscard]] bool is_everywhere() const noexcept {
    return source.is_any() || (device == nullptr && source.is_loopback());
  }
  [[nodiscard]] wire::ServiceId service_at(std::uint16_t port) const noexcept {
    return wire::service_id_of(
        {.space = wire::PortSpace{static_cast<std::uint16_t>(id.ps)}, .port = port});
  }
};

[[nodiscard]] inline IdHandle& handle_of(rdma_cm_id* id) noexcept {
  return *reinterpret_cast<IdHandle*>(id);
}
[[nodiscard]] inline const IdHandle& handle_of(const rdma_cm_id* id) noexcept {
  return *reinterpret_cast<const IdHandle*>(id);
}

/// -1 with errno set.
inline int fail(int error) noexcept {
  errno = error;
  return -1;
}

/// Puts an event into the id's queue.
void notify(IdHandle& id, EventHandle* event);
/// The same with events_mutex() held.
void push(IdHandle& id, EventHandle* event);
/// An event of the given kind about an id, for notify().
[[nodiscard]] EventHandle* make_event(IdHandle& id, rdma_cm_event_type kind, int status = 0);

/// A synchronous id waits for the outcome of what it has just begun; others return at once.
[[nodiscard]] int complete(IdHandle& id);

/// How packets of the id's device get to the remote end of `way`.
[[nodiscard]] ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& way) noexcept;

/// Makes the id one of a device, and its addresses visible to the program.
void attach(IdHandle& id, CmDevice& device);
/// The same with events_mutex() held.
void attach_held(IdHandle& id, CmDevice& device);
/// Copies `source` and `destination` to where programs look.
void publish_addresses(IdHandle& id) noexcept;

/// Takes a port for the id: the one that `source` names, or one that is free.
[[nodiscard]] Status take_port(IdHandle& id);
void give_port_back(IdHandle& id) noexcept;

/// Brings the id's queue pair to a state, with what both ends have agreed. As ibv_modify_qp: 0 or
/// an errno value.
[[nodiscard]] int modify_to_init(IdHandle& id);
[[nodiscard]] int modify_to_rtr(IdHandle& id, std::optional<std::uint8_t> responder_resources);
[[nodiscard]] int modify_to_rts(IdHandle& id, std::optional<std::uint8_t> initiator_depth);
[[nodiscard]] int modify_to_error(IdHandle& id) noexcept;

/// How much an adapter can do at a time.
inline constexpr std::uint8_t kResourcesMax = 16;

/// What rdma_cm uses for every datagram queue pair.
inline constexpr std::uint32_t kUdpQKey = RDMA_UDP_QKEY;

}  // namespace verbatim::abi

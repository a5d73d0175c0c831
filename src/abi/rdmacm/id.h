// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <memory>
#include <optional>

#include "abi/border.h"
#include "abi/rdmacm/channel.h"
#include "abi/rdmacm/device.h"
#include "abi/rdmacm/failure.h"
#include "abi/verbs/handles.h"
#include "cm/address.h"
#include "connect/id.h"

namespace verbatim::abi {

struct IdHandle;

/// The queue pair of an rdma_cm_id.
class PairOfId final : public connect::PairControl {
 public:
  explicit PairOfId(IdHandle& owner) noexcept : owner_(owner) {}

  [[nodiscard]] bool has_pair() const noexcept override;
  [[nodiscard]] connect::Outcome make_ready(const Depths& depths) override;
  connect::Outcome enter_error() override;
  [[nodiscard]] connect::Outcome attach(const wire::Gid& group) override;
  void detach(const wire::Gid& group) noexcept override;
  void await_data(wire::CommId communication) noexcept override;

 private:
  IdHandle& owner_;
};

/// The object behind a pointer to an rdma_cm_id.
struct IdHandle {
  rdma_cm_id id{};
  std::array<std::byte, kSpareOctets> spare{};

  OwnedChannel own_channel;  // of a synchronous id
  PairOfId pair{*this};
  std::unique_ptr<connect::Id> object;
  ibv_sa_path_rec path{};
  std::optional<ibv_qp_init_attr> endpoint_init{};  // rdma_create_ep: for rdma_get_request
  rdma_addrinfo* resolved_info = nullptr;           // rdma_resolve_addrinfo

  [[nodiscard]] bool is_synchronous() const noexcept { return own_channel != nullptr; }
  [[nodiscard]] bool is_datagram() const noexcept { return object->options().is_datagram; }
};

[[nodiscard]] inline IdHandle& handle_of(rdma_cm_id* id) noexcept {
  return *reinterpret_cast<IdHandle*>(id);
}
[[nodiscard]] inline connect::Id& object_of(rdma_cm_id* id) noexcept {
  return *handle_of(id).object;
}
/// For an id that the program has.
[[nodiscard]] inline IdHandle& handle_of(const connect::Id& id) noexcept {
  return *static_cast<IdHandle*>(id.border());
}

/// For a synchronous id: waits for the event of the operation that was begun. Returns at once for
/// others.
[[nodiscard]] int complete(IdHandle& id);
/// The same, or the error if the operation could not be begun.
[[nodiscard]] int complete(IdHandle& id, const connect::Outcome& begun);

/// The address vector for packets from the id's device to the remote end of `path`.
[[nodiscard]] ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& path,
                                         const cm::Travel& travel);
/// The same with the settings of the id.
[[nodiscard]] ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& path);
/// That of packets to a multicast group.
[[nodiscard]] ibv_ah_attr address_vector(const IdHandle& id, const connect::Event& joined);

/// Copies the device and the addresses of the id to its public part.
void publish(IdHandle& id);
/// The same for the path between the two ends.
void publish_path(IdHandle& id);

/// Return 0 or an errno value, as ibv_modify_qp.
[[nodiscard]] int modify_to_init(IdHandle& id);
[[nodiscard]] int modify_to_rtr(IdHandle& id, std::optional<std::uint8_t> responder_resources);
[[nodiscard]] int modify_to_rts(IdHandle& id, std::optional<std::uint8_t> initiator_depth);
[[nodiscard]] int modify_to_error(IdHandle& id) noexcept;

}  // namespace verbatim::abi

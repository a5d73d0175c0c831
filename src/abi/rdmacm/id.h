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

/// The queue pair in an rdma_cm_id, as connections move it.
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

/// What a pointer to an rdma_cm_id really points to.
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
/// Of an id that the program has.
[[nodiscard]] inline IdHandle& handle_of(const connect::Id& id) noexcept {
  return *static_cast<IdHandle*>(id.border());
}

/// A synchronous id waits for the outcome of what it has just begun; others return at once.
[[nodiscard]] int complete(IdHandle& id);
/// The same, if it was begun at all.
[[nodiscard]] int complete(IdHandle& id, const connect::Outcome& begun);

/// How packets of the id's device get to the remote end of `way`.
[[nodiscard]] ibv_ah_attr address_vector(const IdHandle& id, const cm::Address& way);

/// Copies the device and the addresses of the id to where programs look.
void publish(IdHandle& id);

/// As ibv_modify_qp: 0 or an errno value.
[[nodiscard]] int modify_to_init(IdHandle& id);
[[nodiscard]] int modify_to_rtr(IdHandle& id, std::optional<std::uint8_t> responder_resources);
[[nodiscard]] int modify_to_rts(IdHandle& id, std::optional<std::uint8_t> initiator_depth);
[[nodiscard]] int modify_to_error(IdHandle& id) noexcept;

}  // namespace verbatim::abi

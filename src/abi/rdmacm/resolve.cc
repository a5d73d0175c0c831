// SPDX-License-Identifier: Apache-2.0
// rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3).
#include <algorithm>
#include <chrono>
#include <cstring>

#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "cm/timing.h"

namespace verbatim::abi {
namespace {

ibv_sa_path_rec path_of(const IdHandle& id) {
  const connect::Route ends = id.object->ends();
  ibv_sa_path_rec path{};
  std::memcpy(path.sgid.raw, ends.local.octets.data(), sizeof path.sgid.raw);
  std::memcpy(path.dgid.raw, ends.remote.octets.data(), sizeof path.dgid.raw);
  path.hop_limit = 64;
  path.traffic_class = id.object->options().traffic_class;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = 0xffff;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = 2;  // exactly
  path.mtu = static_cast<std::uint8_t>(ends.device->port().active_mtu);
  path.packet_life_time = static_cast<std::uint8_t>(cm::kPacketLifeTime);
  return path;
}

}  // namespace

namespace cm_functions {

int bind_addr(rdma_cm_id* id, sockaddr* address) {
  const auto source = connect::endpoint_of(address);
  if (!source) return fail(EAFNOSUPPORT);
  const connect::Outcome bound = object_of(id).bind(*source);
  if (bound) publish(handle_of(id));
  return as_minus_one(bound);
}

int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) {
  IdHandle& handle = handle_of(id);
  const auto named = connect::endpoint_of(destination);
  if (!named) return fail(EAFNOSUPPORT);
  const auto patience = std::chrono::milliseconds(std::max(timeout_ms, 0));
  const connect::Outcome begun =
      handle.object->resolve_address(connect::endpoint_of(source), *named, patience);
  if (handle.object->state() != connect::IdState::kIdle) publish(handle);  // it is at least bound
  return complete(handle, begun);
}

int resolve_route(rdma_cm_id* id, int) {
  IdHandle& handle = handle_of(id);
  const connect::Outcome resolved = handle.object->resolve_route();
  if (resolved) {
    handle.path = path_of(handle);
    id->route.path_rec = &handle.path;
    id->route.num_paths = 1;
  }
  return complete(handle, resolved);
}

}  // namespace cm_functions
}  // namespace verbatim::abi

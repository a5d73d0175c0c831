// SPDX-License-Identifier: Apache-2.0
// rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3).
#include <algorithm>
#include <chrono>

#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "connect/device.h"

namespace verbatim::abi {
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

/// On RoCE the path is there at once, else with the event.
int resolve_route(rdma_cm_id* id, int timeout_ms) {
  IdHandle& handle = handle_of(id);
  const connect::Outcome begun =
      handle.object->resolve_route(std::chrono::milliseconds(std::max(timeout_ms, 0)));
  const connect::Device* const device = handle.object->ends().device;
  if (begun && device != nullptr && !device->is_native()) publish_path(handle);
  return complete(handle, begun);
}

}  // namespace cm_functions
}  // namespace verbatim::abi

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "connect/ip_endpoint.h"
#include "wire/headers/ids.h"
#include "wire/headers/local_route.h"
#include "wire/management/path_record.h"

namespace verbatim::connect {

class Device;

/// The addresses of both ends of an id.
struct Route {
  Device* device = nullptr;
  IpEndpoint source{};
  IpEndpoint destination{};
  wire::Gid local{};   // the GID of `source` on the device
  wire::Gid remote{};  // the GID of `destination`
  // The path between the two in a subnet of InfiniBand, once it is known.
  std::optional<wire::PathRecord> path{};

  /// The way of packets to the remote end; none on RoCE, and before the path is known.
  [[nodiscard]] wire::LocalRoute local_route() const noexcept {
    if (!path) return {};
    return {.source = path->source, .destination = path->destination, .level = path->level};
  }
};

}  // namespace verbatim::connect

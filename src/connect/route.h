// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "connect/ip_endpoint.h"
#include "wire/headers/ids.h"

namespace verbatim::connect {

class Device;

/// The addresses of both ends of an id.
struct Route {
  Device* device = nullptr;
  IpEndpoint source{};
  IpEndpoint destination{};
  wire::Gid local{};   // the GID of `source` on the device
  wire::Gid remote{};  // the GID of `destination`
};

}  // namespace verbatim::connect

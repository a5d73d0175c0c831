// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "connect/ip_endpoint.h"
#include "wire/ids.h"

namespace verbatim::connect {

class Device;

/// Where an id sends from and to.
struct Route {
  Device* device = nullptr;
  IpEndpoint source{};
  IpEndpoint destination{};
  wire::Gid local{};   // what `source` is on the device
  wire::Gid remote{};  // what `destination` is to the device
};

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi/rdmacm/address.h"
#include "base/time.h"

namespace verbatim::abi {

class CmDevice;
struct IdHandle;

/// Where an id is going to send from and to.
struct Route {
  CmDevice* device = nullptr;
  IpEndpoint source{};
  IpEndpoint destination{};
  wire::Gid local{};
  wire::Gid remote{};
};

/// Gives the id its addresses and tells the program that they are resolved, or with an errno value
/// that they are not. Defined by whoever resolves addresses.
void finish_resolving(IdHandle& id, const Route& route, int error);

/// Has the system find the neighbour that `route` leads to, if it leads to one: hosts behind a
/// router are taken to be there. Calls finish_resolving() at once when nothing has to be asked,
/// else from a thread that is there while neighbours are sought; with ETIMEDOUT when none has
/// answered after `patience`.
void seek_neighbour(IdHandle& id, const Route& route, Duration patience);
/// The id goes: it is not finished any more.
void stop_seeking(IdHandle& id) noexcept;

}  // namespace verbatim::abi

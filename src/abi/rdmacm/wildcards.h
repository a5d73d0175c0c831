// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi/rdmacm/id.h"

/// Listeners at all addresses, also at those that come and go while they listen.
namespace verbatim::abi {

/// Listens at all addresses that the id is for, whatever devices they are on; from then on also at
/// those that come.
[[nodiscard]] Status listen_everywhere(IdHandle& id);
/// Listens at none any more, wildcard or not.
void stop_listening(IdHandle& id) noexcept;

/// Addresses or devices have come or gone.
void follow_addresses();

}  // namespace verbatim::abi

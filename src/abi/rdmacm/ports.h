// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "abi/rdmacm/id.h"

namespace verbatim::abi {

/// Where a request for the id's port may arrive: its address, or all of its family.
[[nodiscard]] std::vector<IdHandle::Claim> addresses_of(const IdHandle& id);

/// Holds the id's service at all of them against other ids and processes, unless it is held
/// already.
[[nodiscard]] Status claim_service(IdHandle& id);
/// Holds the id's service at one address; with the errors of Gsi::claim().
[[nodiscard]] Status claim_at(IdHandle& id, const IdHandle::Claim& at);
void release_claim(const IdHandle& id, const IdHandle::Claim& claim) noexcept;

}  // namespace verbatim::abi

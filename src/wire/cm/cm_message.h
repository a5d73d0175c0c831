// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <variant>

#include "base/expected.h"
#include "wire/cm/cm_alternate_path.h"
#include "wire/cm/cm_disconnect.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_mra.h"
#include "wire/cm/cm_rej.h"
#include "wire/cm/cm_rep.h"
#include "wire/cm/cm_req.h"
#include "wire/cm/cm_sidr.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Any message of the communication manager (IBA Vol 1, 12.6, 12.8 and 12.11).
using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                               CmSidrRep, CmLap, CmApr>;

/// kBadClass, kBadVersion, or kBadAttribute where method and attribute name no message. None of
/// these is answered.
[[nodiscard]] Expected<CmMessage, WireError> parse_cm_message(const MadView& mad) noexcept;

void emit(const CmMessage& message, std::span<std::byte, Mad::kSize> to) noexcept;

[[nodiscard]] CmAttribute attribute_of(const CmMessage& message) noexcept;
[[nodiscard]] TransactionId transaction_of(const CmMessage& message) noexcept;

}  // namespace verbatim::wire

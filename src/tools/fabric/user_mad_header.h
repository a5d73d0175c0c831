// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "fabric/mads/registration.h"
#include "fabric/mads/user_mad.h"
#include "host/fabric_message.h"

/// Between the messages of programs and the values of the fabric.
namespace verbatim::tools {

[[nodiscard]] fabric::UserMad mad_of(const host::UserMadHeader& header,
                                     std::vector<std::byte>&& message);
/// Without `octets`, which depends on how the message is sent.
[[nodiscard]] host::UserMadHeader header_of(const fabric::UserMad& mad);
/// What a program may ask for beside its class: UMAD_USER_RMPP of umad.h.
inline constexpr std::uint32_t kRegistrationFlags = 1;
/// kInvalidArgument: another flag, an RMPP of another version, or flags of an agent without a
/// class, as in Linux.
[[nodiscard]] Expected<fabric::Registration> registration_of(const host::FabricCall& call);

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "cm/communication.h"
#include "cm/requests.h"
#include "wire/cm/cm_message.h"
#include "wire/headers/guid.h"

/// Builds messages from the requests of a user, and the settings of queue pairs from messages.
/// Changes nothing but the communication that it is given.
namespace verbatim::cm {

/// Copies octets to the front of the room; the rest stays zero.
template <std::size_t kRoom>
void fill(std::array<std::byte, kRoom>& room, std::span<const std::byte> octets) noexcept {
  std::ranges::copy(octets.first(std::min(octets.size(), kRoom)), room.begin());
}

/// Whether every number fits into its field, and the private data into the message.
[[nodiscard]] bool is_valid(const ConnectRequest& request, wire::PathMtu path_mtu_max) noexcept;
[[nodiscard]] bool is_valid(const AcceptRequest& request) noexcept;

/// The communication's ID, transaction, and the request's values.
[[nodiscard]] wire::CmReq compose_req(const Communication& communication,
                                      const ConnectRequest& request, wire::Guid ca_guid) noexcept;
[[nodiscard]] wire::CmRep compose_rep(const Communication& communication,
                                      const AcceptRequest& request, wire::Guid ca_guid) noexcept;
[[nodiscard]] wire::CmRej compose_rej(const Communication& communication,
                                      wire::CmRej::Rejected rejected,
                                      const RejectRequest& request) noexcept;
/// A refusal because no answer came. Its CA GUID identifies the communication where no ID can.
[[nodiscard]] wire::CmRej compose_timeout(const Communication& communication,
                                          wire::Guid ca_guid) noexcept;
/// Tells the peer that this end's user needs more time to answer its message.
[[nodiscard]] wire::CmMra compose_mra(const Communication& communication,
                                      TimeCode service_timeout) noexcept;
[[nodiscard]] wire::CmSidrRep compose_sidr_rep(const Communication& communication,
                                               const ServiceAnswer& answer) noexcept;

/// The settings of the passive side's queue pair that follow from this request. accept() adds its
/// own starting PSN and resources.
[[nodiscard]] QpSettings settings_from(const wire::CmReq& req) noexcept;
/// Adds the settings of the active side that follow from the reply. The peer's initiator depth
/// becomes this end's responder resources, and the reverse.
void apply(const wire::CmRep& rep, QpSettings& settings) noexcept;

/// The refusal of a request that needs something which an adapter with this MTU does not have at
/// the local end of `from`; nothing if the request is acceptable.
[[nodiscard]] std::optional<wire::CmRej> objection_to(const wire::CmReq& req, const Address& from,
                                                      wire::PathMtu path_mtu_max) noexcept;
/// The refusal of a request that never became a communication.
[[nodiscard]] wire::CmRej refusal_of(const wire::CmReq& req, wire::RejectReason reason) noexcept;

}  // namespace verbatim::cm

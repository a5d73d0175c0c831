// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "cm/communication.h"
#include "cm/requests.h"
#include "wire/cm_message.h"
#include "wire/guid.h"

/// From what a user asks to the messages that say so, and from the messages to the settings of the
/// queue pairs. No state is changed but that of the communication which is given for it.
namespace verbatim::cm {

/// Ends short of the room: the rest stays zero.
template <std::size_t kRoom>
void fill(std::array<std::byte, kRoom>& room, std::span<const std::byte> octets) noexcept {
  std::ranges::copy(octets.first(std::min(octets.size(), kRoom)), room.begin());
}

/// Every number is one that its field has room for, and the private data fits.
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
/// A refusal for want of an answer; the CA GUID finds the communication where no ID can.
[[nodiscard]] wire::CmRej compose_timeout(const Communication& communication,
                                          wire::Guid ca_guid) noexcept;
/// The message that waits for our user needs more time.
[[nodiscard]] wire::CmMra compose_mra(const Communication& communication,
                                      TimeCode service_timeout) noexcept;
[[nodiscard]] wire::CmSidrRep compose_sidr_rep(const Communication& communication,
                                               const ServiceAnswer& answer) noexcept;

/// What the queue pair of the passive side is to be set to by this request, but for what accepting
/// it adds: own starting PSN and resources.
[[nodiscard]] QpSettings settings_from(const wire::CmReq& req) noexcept;
/// What the request leaves open on the active side and the reply decides. Resources go crosswise:
/// what the peer sends, we answer.
void apply(const wire::CmRep& rep, QpSettings& settings) noexcept;

/// A request that asks for what an adapter with this MTU does not have at `local`: the refusal.
/// Nothing if all is well.
[[nodiscard]] std::optional<wire::CmRej> objection_to(const wire::CmReq& req,
                                                      const wire::Gid& local,
                                                      wire::PathMtu path_mtu_max) noexcept;
/// The refusal of a request that never became a communication.
[[nodiscard]] wire::CmRej refusal_of(const wire::CmReq& req, wire::RejectReason reason) noexcept;

}  // namespace verbatim::cm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "cm/address.h"
#include "cm/requests.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_message.h"
#include "wire/cm/reject_reason.h"
#include "wire/cm/service_id.h"

namespace verbatim::cm {

/// The events that an Agent reports to its user. In brackets: what the user has to do, and the
/// event of rdma_cm.
enum class AgentEventKind : std::uint8_t {
  /// A CmReq arrived for a listener; `id` is new. [qp_settings, accept or reject; CONNECT_REQUEST]
  kConnectRequest,
  /// A CmRep arrived for a request of the user. [qp_settings, establish or reject;
  /// CONNECT_RESPONSE]
  kReply,
  /// The passive side only: a CmRtu, or data, arrived for an accepted request. [ESTABLISHED]
  kEstablished,
  /// A CmRej arrived, in any state; `reason` says why. [queue pair to error; REJECTED]
  kRejected,
  /// The peer does not answer the request or the reply; `message` is empty. [queue pair to error;
  /// UNREACHABLE]
  kUnreachable,
  /// The peer has disconnected, or has answered disconnect(), or does not answer it (then `message`
  /// is empty). Once per communication. [queue pair to error; DISCONNECTED]
  kDisconnected,
  /// Packets of the connection can no longer arrive. [TIMEWAIT_EXIT]
  kTimewaitExit,
  /// The peer needs more time to answer. [nothing]
  kDelayed,
  /// A CmSidrReq arrived for a listener; `id` is new. [answer_service; CONNECT_REQUEST]
  kServiceRequest,
  /// A CmSidrRep, which may be a refusal, arrived for resolve_service(). [ESTABLISHED or
  /// UNREACHABLE]
  kServiceReply,
  /// The peer does not answer resolve_service(). [UNREACHABLE]
  kServiceUnreachable,
};

[[nodiscard]] const char* name_of(AgentEventKind kind) noexcept;

/// One event, with the message that caused it.
struct AgentEvent {
  AgentEventKind kind{};
  wire::CommId id{};  // of the communication; of requests: a new one, which the user must destroy()
  ListenerId listener{};  // requests only
  Address address{};      // of the two ends of the message
  wire::ServiceId service_id{};
  wire::RejectReason reason{};  // kRejected only
  std::optional<wire::CmMessage> message{};

  /// The message, if it is a `Message`: event.as<wire::CmReq>()->responder_resources.
  template <typename Message>
  [[nodiscard]] const Message* as() const noexcept {
    return message ? std::get_if<Message>(&*message) : nullptr;
  }
  /// The whole private data field of the message. The wire format does not contain its length, so
  /// zeroes follow the peer's data. In requests of rdma_cm it begins with a wire::IpCmHeader.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept {
    if (!message) return {};
    return std::visit(
        [](const auto& which) { return std::span<const std::byte>(which.private_data); }, *message);
  }
};

}  // namespace verbatim::cm

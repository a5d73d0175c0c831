// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "cm/address.h"
#include "cm/requests.h"
#include "wire/cm_ids.h"
#include "wire/cm_message.h"
#include "wire/reject_reason.h"
#include "wire/service_id.h"

namespace verbatim::cm {

/// What an Agent tells its user. In brackets: what the user has to do, and the event of rdma_cm.
enum class EventKind : std::uint8_t {
  /// A CmReq for a listener; `id` is new. [qp_settings, accept or reject; CONNECT_REQUEST]
  kConnectRequest,
  /// A CmRep for our request. [qp_settings, establish or reject; CONNECT_RESPONSE]
  kReply,
  /// The passive side only: a CmRtu, or data, came for what we accepted. [ESTABLISHED]
  kEstablished,
  /// A CmRej in any state; `reason` says why. [queue pair to error; REJECTED]
  kRejected,
  /// Nobody answers our request or our reply; the message is empty. [queue pair to error;
  /// UNREACHABLE]
  kUnreachable,
  /// The peer asked for it, or answers our disconnect(), or does not answer it: then the message is
  /// empty. Once per communication. [queue pair to error; DISCONNECTED]
  kDisconnected,
  /// Packets of the connection can no longer be on the way. [TIMEWAIT_EXIT]
  kTimewaitExit,
  /// The peer needs more time to answer. [nothing]
  kDelayed,
  /// A CmSidrReq for a listener; `id` is new. [answer_service; CONNECT_REQUEST]
  kServiceRequest,
  /// A CmSidrRep, which may say no, for our resolve_service(). [ESTABLISHED or UNREACHABLE]
  kServiceReply,
  /// Nobody answers it. [UNREACHABLE]
  kServiceUnreachable,
};

[[nodiscard]] const char* name_of(EventKind kind) noexcept;

/// One event, with all of the message that caused it.
struct Event {
  EventKind kind{};
  wire::CommId id{};      // whose; of requests: a new one, which the user must destroy()
  ListenerId listener{};  // requests only
  Address address{};      // where the message came from
  wire::ServiceId service_id{};
  wire::RejectReason reason{};  // kRejected only
  std::optional<wire::CmMessage> message{};

  /// The message, if it is a `Message`: event.as<wire::CmReq>()->responder_resources.
  template <typename Message>
  [[nodiscard]] const Message* as() const noexcept {
    return message ? std::get_if<Message>(&*message) : nullptr;
  }
  /// All of the room that the message has for it, zeroes behind what the peer gave: its length is
  /// not on the wire. Of requests it begins with what rdma_cm puts there (wire::IpCmHeader).
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept {
    if (!message) return {};
    return std::visit(
        [](const auto& which) { return std::span<const std::byte>(which.private_data); }, *message);
  }
};

}  // namespace verbatim::cm

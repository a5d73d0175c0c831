// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "cm/address.h"
#include "cm/qp_settings.h"
#include "cm/requests.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/service_id.h"
#include "wire/headers/guid.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"

namespace verbatim::cm {

/// The state of a communication (IBA Vol 1, 12.9.5 and 12.9.6). A request for more time is not a
/// state of its own: Communication::delay_taken.
enum class State : std::uint8_t {
  kIdle,         // over; the user has not destroyed it
  kReqSent,      // active: waits for the peer's answer
  kReqReceived,  // passive: waits for the user's answer
  kRepSent,      // passive: waits for the peer's answer
  kRepReceived,  // active: waits for the user's answer
  kEstablished,
  kDreqSent,
  kTimewait,      // packets may still arrive; repeats the answer to a disconnect request
  kRefused,       // never established; repeats the refusal
  kSidrSent,      // waits for the peer's answer
  kSidrReceived,  // waits for the user's answer
  kSidrAnswered,  // repeats the answer
};

/// One communication as this end knows it. Data only; the rules are in Agent.
struct Communication {
  wire::CommId id{};
  State state = State::kIdle;
  bool is_active = false;    // this end has sent the request
  bool is_owned = true;      // the user has not destroyed it, and gets its events
  bool is_waiting = false;   // a request that counts for its listener's backlog
  bool end_is_told = false;  // the user got the event of its end; the disconnection is not finished
  bool delay_taken = false;  // the peer asked for more time since the message was last sent
  bool is_questioned = false;  // established: the peer was asked whether it still knows it
  bool has_alternate = false;  // the request offered a second path
  ListenerId listener{};       // of requests
  wire::ServiceId service_id{};
  Address address{};                        // of this end and of the peer
  wire::TransactionId transaction{};        // of the request
  std::optional<wire::CommId> remote_id{};  // of the peer; nothing before it has answered
  wire::Guid remote_guid{};                 // of the peer's adapter; set with remote_id
  wire::QpNumber local_qpn{};
  QpSettings settings{};

  /// The last message: repeated when no answer comes, or when the peer repeats its own.
  std::array<std::byte, wire::Mad::kSize> message{};
  bool has_message = false;
  std::uint8_t copies_left = 0;         // how often it may still be repeated when no answer comes
  std::uint8_t retries_max = 0;         // of every message of this communication
  Duration patience{0};                 // between two copies of this end's messages
  Duration peer_patience{0};            // between two copies of the peer's messages
  Instant deadline = Instant::never();  // of the next copy, or of the removal

  Communication* next_by_id = nullptr;  // used by the PeerIndexes
  Communication* next_by_qp = nullptr;

  /// Whether the peer's queue pair is in this connection, or was shortly before.
  [[nodiscard]] bool holds_remote_qp() const noexcept {
    switch (state) {
      case State::kReqReceived:
      case State::kRepSent:
      case State::kRepReceived:
      case State::kEstablished:
      case State::kDreqSent:
      case State::kTimewait:
        return true;
      case State::kIdle:
      case State::kReqSent:
      case State::kRefused:
      case State::kSidrSent:
      case State::kSidrReceived:
      case State::kSidrAnswered:
        return false;
    }
    return false;
  }
};

}  // namespace verbatim::cm

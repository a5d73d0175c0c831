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
#include "wire/cm_ids.h"
#include "wire/guid.h"
#include "wire/ids.h"
#include "wire/mad.h"
#include "wire/service_id.h"

namespace verbatim::cm {

/// Where a communication stands (IBA Vol 1, 12.9.5 and 12.9.6). Whether more time was asked for is
/// not a state of its own: Communication::delay_taken.
enum class State : std::uint8_t {
  kIdle,         // over; the user has not destroyed it
  kReqSent,      // active: waits for the peer's answer
  kReqReceived,  // passive: waits for the user's
  kRepSent,      // passive: waits for the peer's
  kRepReceived,  // active: waits for the user's
  kEstablished,
  kDreqSent,
  kTimewait,      // packets may still be on the way; repeats the farewell
  kRefused,       // never came about; repeats the refusal
  kSidrSent,      // waits for the peer's answer
  kSidrReceived,  // waits for the user's
  kSidrAnswered,  // repeats the answer
};

/// One communication as this end knows it. Data only: an Agent has the rules.
struct Communication {
  wire::CommId id{};
  State state = State::kIdle;
  bool is_active = false;      // we asked
  bool is_owned = true;        // the user has not destroyed it, and hears of it
  bool is_waiting = false;     // a request that counts for its listener's backlog
  bool end_is_told = false;    // the user knows that it is over; only the farewell is left
  bool delay_taken = false;    // the peer asked for more time since the message was last sent
  bool is_questioned = false;  // established: the peer is asked whether it still knows it
  bool has_alternate = false;  // the request offered a second path
  ListenerId listener{};       // of requests
  wire::ServiceId service_id{};
  Address address{};                        // where messages come from and go to
  wire::TransactionId transaction{};        // the request's
  std::optional<wire::CommId> remote_id{};  // of the peer; nothing before it has answered
  wire::Guid remote_guid{};                 // of the peer's adapter; set with remote_id
  wire::QpNumber local_qpn{};
  QpSettings settings{};

  /// What was sent last and is repeated, for want of an answer or because a duplicate asks for it.
  std::array<std::byte, wire::Mad::kSize> message{};
  bool has_message = false;
  std::uint8_t copies_left = 0;         // how often it may still be repeated for want of an answer
  std::uint8_t retries_max = 0;         // of every message of this communication
  Duration patience{0};                 // between copies of ours
  Duration peer_patience{0};            // between copies of the peer's
  Instant deadline = Instant::never();  // of the next copy, or the end of a rest

  Communication* next_by_id = nullptr;  // the PeerIndexes' own
  Communication* next_by_qp = nullptr;

  /// The peer's queue pair is in a connection here, or was a moment ago.
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

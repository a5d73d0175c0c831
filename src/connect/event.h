// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cm/event.h"
#include "connect/error.h"
#include "wire/headers/ids.h"
#include "wire/management/multicast_record.h"

namespace verbatim::connect {

class Id;

/// The kinds of events of an id. In brackets: the members of Event that are set.
enum class EventKind : std::uint8_t {
  kAddressResolved,
  kAddressFailed,  // [error]
  kRouteResolved,
  kRouteFailed,    // [error]
  kRequest,        // a peer asks a listener to connect; `id` is new [cause, made]
  kReply,          // the peer has accepted and waits for establish() [cause]
  kEstablished,    // [cause]
  kConnectFailed,  // the peer has accepted, and the queue pair could not be made ready [error]
  kUnreachable,    // [error, or number: a SidrStatus]
  kRejected,       // [number: a RejectReason; cause]
  kDisconnected,   // [cause; error where the peer did not answer]
  kTimewaitExit,
  kDeviceRemoved,   // the device of the id was removed
  kAddressChanged,  // the address of the id was removed, or has a new MAC address
  kJoined,          // [group, context, record]
  kJoinFailed,      // [group, context, error]
  kOfBorder,        // posted by the border: Id::post() [of_border]
};

/// One event, from its cause until the program has acknowledged it.
struct Event {
  Event() noexcept;
  Event(EventKind kind, Id& id) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  EventKind kind{};
  Id* id = nullptr;
  Id* counted = nullptr;         // the id that counts the event and whose end() waits for the
                                 // acknowledgement: the listener of a request, else `id`
  std::optional<Error> error{};  // nothing: no failure of this end
  std::uint16_t number = 0;      // status or reason that the peer sent
  std::optional<cm::AgentEvent> cause{};  // the event of the agent, with the message of the peer
  std::unique_ptr<Id> made;               // of a request: `id`, until the border takes it
  wire::Gid group{};                      // its GID
  std::optional<wire::MulticastRecord> record{};  // of it, in a subnet of InfiniBand
  void* context = nullptr;
  struct OfBorder {
    int kind = 0;
    int status = 0;
    std::uint64_t argument = 0;
  };
  OfBorder of_border{};
};

}  // namespace verbatim::connect

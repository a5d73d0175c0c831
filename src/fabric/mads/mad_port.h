// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/expected.h"
#include "base/octet_budget.h"
#include "base/time.h"
#include "fabric/mads/agent_table.h"
#include "fabric/mads/mad_keys.h"
#include "fabric/mads/mad_verdict.h"
#include "fabric/mads/registration.h"
#include "fabric/mads/rmpp_receiver.h"
#include "fabric/mads/rmpp_sender.h"
#include "fabric/mads/timed_table.h"
#include "fabric/mads/user_mad.h"
#include "fabric/management_packet.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/management/rmpp.h"

namespace verbatim::fabric {

/// What a MadPort needs to know of its port to address and to judge datagrams.
struct PortIdentity {
  wire::Lid base_lid{};
  std::uint8_t lmc = 0;  // the last bits of a LID that are path bits
  std::vector<wire::PKey> pkeys{wire::PKey::kDefault};
  std::vector<wire::Gid> gids{};
};

/// What an operating system does with the management datagrams of one port between its programs and
/// the fabric: agents with exclusive classes and methods, transactions with timeouts and retries
/// (IBA Vol 1, 13.4.6.3 and 13.4.6.4), messages of several segments (RMPP, 13.6). It behaves as
/// Linux does behind its umad devices.
///
/// It performs no I/O, reads no clock and starts no thread. Its owner
///   1. passes the calls of programs and, by handle_*, packets and the time, which never goes back;
///   2. then drains poll_transmit() and poll_delivery() until they are empty;
///   3. then calls handle_timeout() no later than next_timeout(). Spurious calls are harmless.
/// Thread: one at a time.
///
/// The upper half of the transaction number of a request is overwritten with the number of the
/// agent, which no other agent of this port has had recently; the answer goes to the agent that its
/// transaction names. The program gets answers, and requests without an answer, with the number
/// that was on the wire; it compares the lower half.
class MadPort {
 public:
  static constexpr std::uint32_t kAgentsMax = AgentTable::kAgentsMax;  // of one client
  static constexpr std::size_t kOutstandingMax = 65'536;     // unanswered requests of all clients
  static constexpr std::size_t kWaitingPacketsMax = 65'536;  // that poll_transmit() has not taken
  static constexpr std::size_t kWaitingDeliveriesMax = 65'536;
  // Messages that arrive or have arrived; the one that waits longest makes room for another.
  static constexpr std::size_t kReceptionsMax = 16'384;
  static constexpr std::size_t kMessageOctetsMax = std::size_t{128} << 20;
  static constexpr std::size_t kHeldOctetsMax = std::size_t{256} << 20;  // of messages under way

  static constexpr std::size_t kTimeoutsAtOnce = 64;

  /// A program waits for an answer exactly as long as it allows for it, so the news that there is
  /// none must be there a moment earlier.
  static constexpr Duration kEarlyFailure = std::chrono::milliseconds(1);
  static constexpr Duration kAckTimeout = std::chrono::milliseconds(250);  // until segments repeat
  static constexpr Duration kReceptionTimeout = std::chrono::seconds(40);  // without a new segment
  static constexpr Duration kReceptionRest = std::chrono::seconds(10);  // answers late repetitions

  MadPort() noexcept : MadPort(nullptr) {}
  /// `shared`: what the messages of several ports hold together; null: this port is alone.
  explicit MadPort(OctetBudget* shared) noexcept : budget_(kHeldOctetsMax, shared) {}
  MadPort(const MadPort&) = delete;
  MadPort& operator=(const MadPort&) = delete;

  /// To be called before the first packet and whenever LID, P_Keys or GIDs of the port change.
  void set_identity(PortIdentity identity) { identity_ = std::move(identity); }
  [[nodiscard]] const PortIdentity& identity() const noexcept { return identity_; }

  /// kInvalidArgument: a class, version or RMPP that does not fit, or a vendor class without its
  /// OUI. kAddressInUse: another agent of the port has one of the methods. kNoMemory: the client
  /// has kAgentsMax agents.
  Expected<AgentId> register_agent(ClientId client, const Registration& registration);
  /// Its outstanding requests end without an answer. kNoSuchObject: the client has no such agent.
  Status unregister_agent(ClientId client, AgentId agent);
  /// Unregisters all its agents. What poll_delivery() has for it is still delivered.
  void close_client(ClientId client);

  /// kNoSuchObject: no such agent. kInvalidArgument: too short, too long, of another class than
  /// the agent's RMPP allows, or a request with this transaction is outstanding. kNoMemory: a limit
  /// is reached.
  Status post_send(Instant now, ClientId client, UserMad mad);
  /// Whether post_send() would take it now. `mad` needs only its first datagram; the whole has
  /// `octets`.
  [[nodiscard]] Status may_send(ClientId client, const UserMad& mad, std::size_t octets) const;

  /// A datagram that arrived for queue pair 0 or 1. kUnclaimed: no agent wants it, and a Get or Set
  /// is to be answered with status 0x000c by the caller.
  MadVerdict handle_packet(Instant now, const ManagementPacket& packet);
  /// Handles at most kTimeoutsAtOnce of what is due; next_timeout() is not later than `now` then.
  void handle_timeout(Instant now);

  [[nodiscard]] std::optional<ManagementPacket> poll_transmit(Instant now);
  [[nodiscard]] std::optional<Delivery> poll_delivery();
  [[nodiscard]] std::optional<Instant> next_timeout() const noexcept;

  [[nodiscard]] const MadCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] std::size_t outstanding_count() const noexcept { return sends_.size(); }
  [[nodiscard]] std::size_t reception_count() const noexcept { return receptions_.size(); }
  /// Of messages in segments that are sent or arrive.
  [[nodiscard]] std::size_t held_octets() const noexcept { return budget_.held(); }
  /// Whether some agent gets requests of the class.
  [[nodiscard]] bool is_claimed(wire::MgmtClass mgmt_class) const {
    return agents_.is_claimed(mgmt_class);
  }

 private:
  /// A request that waits for its answer, or a message that is sent in segments.
  struct Send {
    UserMad mad{};  // of a message only the header; the rest is in `segments`
    std::uint32_t retries_left = 0;
    bool is_listed = false;  // in ready_
    std::optional<RmppSender> segments{};
    HeldOctets held{};  // by `segments`
  };
  struct Reception {
    RmppReceiver receiver;
    HeldOctets held;  // by `receiver`
  };
  using Ready = std::variant<SendKey, ManagementPacket>;  // the key may be gone by now

  // mad_port_send.cc
  struct Intent;
  [[nodiscard]] static Intent intent_of(const MadAgent& agent, const UserMad& mad);
  [[nodiscard]] Status judge_send(const MadAgent& agent, const UserMad& mad,
                                  std::size_t octets) const;
  [[nodiscard]] ManagementPacket packet_to(const MadAgent& agent, const UserMad& mad) const;
  void list(const SendKey& key, Send& send);
  [[nodiscard]] std::optional<ManagementPacket> transmit(Instant now, const SendKey& key);
  [[nodiscard]] static Duration patience_of(const Send& send) noexcept;
  void handle_silence(const SendKey& key);
  void fail(const SendKey& key);

  // mad_port_receive.cc
  struct Arrival;
  [[nodiscard]] MadVerdict judge(Instant now, const ManagementPacket& packet);
  [[nodiscard]] MadVerdict handle_alone(const Arrival& arrival, bool is_segment);
  [[nodiscard]] MadVerdict deliver(const Arrival& arrival, std::vector<std::byte> octets);

  // mad_port_rmpp.cc
  [[nodiscard]] MadVerdict handle_rmpp(Instant now, const Arrival& arrival);
  [[nodiscard]] MadVerdict handle_data(Instant now, const Arrival& arrival);
  [[nodiscard]] MadVerdict complete(Instant now, const Arrival& arrival, Reception& reception);
  [[nodiscard]] MadVerdict handle_ack(Instant now, const Arrival& arrival);
  [[nodiscard]] MadVerdict handle_end(const Arrival& arrival);
  [[nodiscard]] MadVerdict refuse(const Arrival& arrival, wire::RmppStatus status);
  void extend(Instant now, const SendKey& request);
  void abandon_send(const SendKey& key);
  void answer(const Arrival& arrival, const wire::Rmpp& rmpp);

  PortIdentity identity_{};
  AgentTable agents_{};
  OctetBudget budget_;  // of the messages in sends_ and receptions_, which it outlives
  TimedTable<SendKey, Send> sends_{};
  TimedTable<ReceptionKey, Reception> receptions_{};  // those that arrive or have arrived
  std::deque<Ready> ready_{};
  std::deque<Delivery> deliveries_{};
  MadCounters counters_{};
};

}  // namespace verbatim::fabric

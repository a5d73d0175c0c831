// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/prng.h"
#include "base/time.h"
#include "cm/address.h"
#include "cm/communication.h"
#include "cm/communication_table.h"
#include "cm/event.h"
#include "cm/listener_table.h"
#include "cm/qp_settings.h"
#include "cm/requests.h"
#include "cm/verdict.h"
#include "wire/cm/cm_ids.h"
#include "wire/headers/guid.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"

namespace verbatim::cm {

/// A management datagram to be sent from queue pair 1 to the peer's.
struct Datagram {
  Address address{};
  std::array<std::byte, wire::Mad::kSize> octets{};
};

/// All communications of one process on one adapter (IBA Vol 1, chapter 12): makes and ends
/// connections, resolves services, repeats messages that are not answered, answers messages that
/// are repeated.
///
/// It performs no I/O, reads no clock, starts no thread, and knows queue pairs only by number. Its
/// owner
///   1. passes the user's commands and, by handle_*, datagrams and the time, which never goes back;
///   2. then drains poll_transmit() and poll_event() until they are empty;
///   3. then sleeps no longer than next_timeout(). Spurious calls are harmless.
/// Thread: one at a time; the owner has the lock.
///
/// A communication has an ID from connect(), resolve_service(), or the event of a request, until
/// destroy(), which may be called at any time. After destroy() no event follows, but the agent
/// still completes the disconnection with the peer. Commands return kNoSuchObject for an ID that
/// was never assigned or is destroyed, and kInvalidArgument for a request that the state of the
/// communication or its own contents do not allow.
///
///     active                                 passive
///     connect()            -- REQ ->         kConnectRequest, queue pair to RTS, accept()
///     kReply, pair to RTS  <- REP --
///     establish()          -- RTU ->         kEstablished (or first data: handle_first_data())
///     disconnect()         -- DREQ ->        kDisconnected
///     kDisconnected        <- DREP --
///     kTimewaitExit                          kTimewaitExit
///
/// Limits: Config::communications_max of them, including destroyed ones that are not finished; the
/// backlog of a listener; kWaitingDatagramsMax. A request beyond the backlog or the table is
/// dropped and not refused, as in Linux: the peer repeats it, and there may be room then.
class Agent {
 public:
  struct Config {
    std::uint8_t slot = 0;   // the first octet of every assigned ID, by which datagrams are steered
    wire::Guid ca_guid{};    // the adapter's; several Agents of one adapter have the same
    std::uint64_t seed = 0;  // of IDs and transactions: must differ between processes in a slot
    wire::PathMtu path_mtu_max = wire::PathMtu::k4096;  // requests for more are refused
    std::uint32_t communications_max = 4096;            // at most kCommunicationsMax
    std::uint32_t listeners_max = 1024;
  };
  static constexpr std::uint32_t kCommunicationsMax = 1U << 14;
  static constexpr std::uint32_t kWaitingDatagramsMax = 4096;

  /// The longest time to wait for an answer, and to keep an ended communication, whatever the peer
  /// says.
  static constexpr Duration kPatienceMax = duration_of(TimeCode{26});  // 4.6 minutes
  static constexpr Duration kRestMax = duration_of(TimeCode{24});      // 69 seconds
  static constexpr Duration kPatienceMin = std::chrono::milliseconds(1);

  explicit Agent(const Config& config);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// kAddressInUse: another listener has some of these service IDs and this address. If two
  /// listeners match a request, the one for its address has priority over the one for any address.
  Expected<ListenerId> listen(const ListenRequest& request);
  /// Refuses the requests that the user has not taken. The user keeps those that it has taken.
  Status unlisten(Instant now, ListenerId listener);
  /// Whether a request for this service that arrives at `local` would find a listener.
  [[nodiscard]] bool listens_for(wire::ServiceId service_id, const wire::Gid& local) const noexcept;

  Expected<wire::CommId> connect(Instant now, const ConnectRequest& request);
  /// The user has seen the event of this request: it no longer counts for the backlog. Every other
  /// command on the ID does this too.
  Status take(wire::CommId id);
  /// The queue pair must be in RTS before.
  Status accept(Instant now, wire::CommId id, const AcceptRequest& request);
  Status reject(Instant now, wire::CommId id, const RejectRequest& request);
  /// Tells the peer at once that the answer to its request or reply needs more time (MRA).
  /// Otherwise the peer is told when it repeats its message.
  Status delay_answer(Instant now, wire::CommId id, TimeCode service_timeout);
  /// After kReply, with the queue pair in RTS.
  Status establish(Instant now, wire::CommId id, std::span<const std::byte> private_data = {});
  /// To be called when data has arrived over an accepted connection: the CmRtu is late or lost. No
  /// effect in any other state.
  Status handle_first_data(Instant now, wire::CommId id);
  /// The process of the peer has ended: it will send no disconnect request. The effect is that of
  /// one, where there is a connection.
  Status handle_peer_end(Instant now, wire::CommId id);
  /// Ends an established connection. If the peer has ended it already, this is no error.
  Status disconnect(Instant now, wire::CommId id, std::span<const std::byte> private_data = {});

  Expected<wire::CommId> resolve_service(Instant now, const ServiceRequest& request);
  Status answer_service(Instant now, wire::CommId id, const ServiceAnswer& answer);

  /// Whether a connection is established between these two addresses, in either direction, that was
  /// made with this port of any port space. Then a process has listened at that port, and may do so
  /// again.
  [[nodiscard]] bool has_connection(wire::ServiceId service_id, const Address& between) const;
  /// Whether the peer has not acknowledged some disconnect request (DREQ) yet.
  [[nodiscard]] bool has_open_disconnects() const noexcept;
  /// Repeats all such disconnect requests, for an owner that ends before their timeouts.
  void repeat_disconnects();

  /// Releases the ID: refuses a request, disconnects an established connection, removes anything
  /// else.
  Status destroy(Instant now, wire::CommId id);

  /// The settings for the queue pair, from kConnectRequest or kReply on. Before accept() the
  /// resources are those that the peer offers and wants, afterwards those that were accepted.
  [[nodiscard]] Expected<QpSettings> qp_settings(wire::CommId id) const;
  /// The user's communications that have settings for which `matches(const QpSettings&)` holds.
  template <typename Predicate>
  [[nodiscard]] std::vector<wire::CommId> find_all(Predicate&& matches) const {
    std::vector<wire::CommId> found;
    table_.for_each([&](const Communication& communication) {
      const bool has_settings = communication.is_owned && communication.holds_remote_qp();
      if (has_settings && matches(communication.settings)) found.push_back(communication.id);
    });
    return found;
  }

  /// `from`: local is the address that the datagram was sent to, remote the one it came from.
  Verdict handle_mad(Instant now, const Address& from, std::span<const std::byte> octets);
  void handle_timeout(Instant now);

  [[nodiscard]] std::optional<Datagram> poll_transmit();
  [[nodiscard]] std::optional<AgentEvent> poll_event();
  [[nodiscard]] bool has_events() const noexcept { return !events_.empty(); }
  /// May be too early, never too late.
  [[nodiscard]] std::optional<Instant> next_timeout() const noexcept;

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  /// Communications in the table, including destroyed ones that are not finished.
  [[nodiscard]] std::size_t communication_count() const noexcept { return table_.size(); }

 private:
  struct MessageHandler;

  // agent.cc: used by the parts below.
  [[nodiscard]] Communication* owned(wire::CommId id) noexcept;
  [[nodiscard]] Communication* add_communication();
  [[nodiscard]] wire::TransactionId next_transaction() noexcept;
  void tell(Communication& communication, AgentEventKind kind,
            const std::optional<wire::CmMessage>& message = std::nullopt);
  void send(const Address& address, const wire::CmMessage& message);
  void send_octets(const Address& address, const std::array<std::byte, wire::Mad::kSize>& octets);
  void keep(Communication& communication, const wire::CmMessage& message) noexcept;
  void repeat(const Communication& communication);
  void send_and_await(Instant now, Communication& communication, const wire::CmMessage& message);
  void set_deadline(Communication& communication, Instant deadline) noexcept;
  void leave_backlog(Communication& communication) noexcept;

  // agent_endings.cc
  void refuse(Instant now, Communication& communication, const wire::CmRej& rej);
  void rest(Instant now, Communication& communication, State state);
  void start_disconnect(Instant now, Communication& communication,
                        std::span<const std::byte> private_data = {});
  void abandon_reply(Instant now, Communication& communication, const wire::CmRej& rej);
  void enter_timewait(Instant now, Communication& communication);
  void finish(Communication& communication);
  void handle_deadline(Instant now, Communication& communication);
  void question(Instant now, Communication& communication);
  void send_question(const Communication& communication);
  void handle_answer(Communication& communication) noexcept;
  void give_up(Instant now, Communication& communication);

  // agent_messages.cc
  [[nodiscard]] Verdict judge(Instant now, const Address& from, std::span<const std::byte> octets);

  Config config_;
  Prng prng_;
  std::uint64_t last_transaction_;
  CommunicationTable table_;
  ListenerTable listeners_;
  std::deque<Datagram> outbox_;          // at most kWaitingDatagramsMax
  std::deque<AgentEvent> events_;        // of communications that the user owns
  Instant earliest_ = Instant::never();  // not later than any deadline in the table
  Counters counters_{};
};

}  // namespace verbatim::cm

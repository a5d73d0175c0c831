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
#include "wire/cm_ids.h"
#include "wire/guid.h"
#include "wire/ids.h"
#include "wire/mad.h"

namespace verbatim::cm {

/// A management datagram to be sent from queue pair 1 to the peer's.
struct Datagram {
  Address address{};
  std::array<std::byte, wire::Mad::kSize> octets{};
};

/// All communications that one process has on one adapter (IBA Vol 1, chapter 12): makes and ends
/// connections, resolves services, repeats what is not answered, answers what is repeated.
///
/// It performs no I/O, reads no clock, starts no thread, knows no queue pair but by number. Its
/// owner
///   1. gives it the user's commands and, by handle_*, datagrams and the time, which never goes
///   back;
///   2. then drains poll_transmit() and poll_event() until they are empty;
///   3. then sleeps no longer than next_timeout(). Spurious calls are harmless.
/// Thread: one at a time; the owner has the lock.
///
/// A communication has an ID from connect(), resolve_service(), or the event of a request, until
/// destroy(), which may be called at any time and ends it properly: no event follows, while the
/// farewell to the peer may still take its time inside. Commands refuse with kNoSuchObject an ID
/// that was never given or is destroyed, and with kInvalidArgument what the state of the
/// communication or the contents of the request do not allow.
///
///     active                                 passive
///     connect()            -- REQ ->         kConnectRequest, queue pair to RTS, accept()
///     kReply, pair to RTS  <- REP --
///     establish()          -- RTU ->         kEstablished (or first data: handle_first_data())
///     disconnect()         -- DREQ ->        kDisconnected
///     kDisconnected        <- DREP --
///     kTimewaitExit                          kTimewaitExit
///
/// Limits: Config::communications_max of them, destroyed ones that rest included; a listener's
/// backlog; kWaitingDatagramsMax. A request beyond a backlog or the table is dropped and not
/// refused, as Linux does it: the peer repeats it, and there may be room by then.
class Agent {
 public:
  struct Config {
    std::uint8_t slot = 0;   // the first octet of every ID we give, by which datagrams are steered
    wire::Guid ca_guid{};    // the adapter's; several Agents of one adapter have the same
    std::uint64_t seed = 0;  // of IDs and transactions: must differ between lives of a slot
    wire::PathMtu path_mtu_max = wire::PathMtu::k4096;  // requests for more are refused
    std::uint32_t communications_max = 4096;            // at most kCommunicationsMax
    std::uint32_t listeners_max = 1024;
  };
  static constexpr std::uint32_t kCommunicationsMax = 1U << 14;
  static constexpr std::uint32_t kWaitingDatagramsMax = 4096;

  /// The longest that we wait for an answer, and rest after a farewell, whatever the peer says.
  static constexpr Duration kPatienceMax = duration_of(TimeCode{26});  // 4.6 minutes
  static constexpr Duration kRestMax = duration_of(TimeCode{24});      // 69 seconds
  static constexpr Duration kPatienceMin = std::chrono::milliseconds(1);

  explicit Agent(const Config& config);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// kAddressInUse: a listener for some of these service IDs and for this address is there. Of two
  /// that match a request, the one for its address goes before the one for any.
  Expected<ListenerId> listen(const ListenRequest& request);
  /// Refuses the requests that nobody has taken; those that were taken stay the user's.
  Status unlisten(Instant now, ListenerId listener);
  /// Whether a request for this service that arrives at `local` would find a listener.
  [[nodiscard]] bool listens_for(wire::ServiceId service_id, const wire::Gid& local) const noexcept;

  Expected<wire::CommId> connect(Instant now, const ConnectRequest& request);
  /// The user has seen the event of this request: it no longer counts for the backlog. Commands on
  /// the ID imply it.
  Status take(wire::CommId id);
  /// The queue pair must be able to receive and send (RTS) before.
  Status accept(Instant now, wire::CommId id, const AcceptRequest& request);
  Status reject(Instant now, wire::CommId id, const RejectRequest& request);
  /// Tells the peer at once that the answer to its request or reply needs more time (MRA). Without
  /// it the peer is told when it asks again.
  Status delay_answer(Instant now, wire::CommId id, TimeCode service_timeout);
  /// After kReply, with the queue pair able to send (RTS).
  Status establish(Instant now, wire::CommId id, std::span<const std::byte> private_data = {});
  /// Data has come over what we accepted, so the CmRtu is on its way or lost. Harmless in any
  /// other state.
  Status handle_first_data(Instant now, wire::CommId id);
  /// Ends a connection that stands. One that the peer has ended already stays ended: no error.
  Status disconnect(Instant now, wire::CommId id, std::span<const std::byte> private_data = {});

  Expected<wire::CommId> resolve_service(Instant now, const ServiceRequest& request);
  Status answer_service(Instant now, wire::CommId id, const ServiceAnswer& answer);

  /// Whether a connection stands between these two addresses, whichever end is ours, that was made
  /// with this port of any port space: then somebody listened there, and may listen again.
  [[nodiscard]] bool has_connection(wire::ServiceId service_id, const Address& between) const;
  /// Whether some disconnect of ours was not acknowledged yet.
  [[nodiscard]] bool has_farewells() const noexcept;
  /// Sends all of those once more; for an owner that will not be there when it is time.
  void repeat_farewells();

  /// Gives the ID back: refuses a request, disconnects what stands, forgets the rest.
  Status destroy(Instant now, wire::CommId id);

  /// What the queue pair is to be set to: from kConnectRequest or kReply on. Before accept() the
  /// resources are what the peer offers and wants, afterwards what was accepted.
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
  [[nodiscard]] std::optional<Event> poll_event();
  [[nodiscard]] bool has_events() const noexcept { return !events_.empty(); }
  /// May be early, never late.
  [[nodiscard]] std::optional<Instant> next_timeout() const noexcept;

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  /// Communications in the table, those that rest after destroy() included.
  [[nodiscard]] std::size_t communication_count() const noexcept { return table_.size(); }

 private:
  struct MessageHandler;

  // agent.cc: what the parts below share.
  [[nodiscard]] Communication* owned(wire::CommId id) noexcept;
  [[nodiscard]] Communication* add_communication();
  [[nodiscard]] wire::TransactionId next_transaction() noexcept;
  void tell(Communication& communication, EventKind kind,
            const std::optional<wire::CmMessage>& message = std::nullopt);
  void send(const Address& address, const wire::CmMessage& message);
  void send_octets(const Address& address, const std::array<std::byte, wire::Mad::kSize>& octets);
  void keep(Communication& communication, const wire::CmMessage& message) noexcept;
  void repeat(const Communication& communication);
  void send_and_await(Instant now, Communication& communication, const wire::CmMessage& message);
  void set_deadline(Communication& communication, Instant deadline) noexcept;
  void settle(Communication& communication) noexcept;

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
  std::deque<Event> events_;             // of communications that the user owns
  Instant earliest_ = Instant::never();  // no deadline in the table is before
  Counters counters_{};
};

}  // namespace verbatim::cm

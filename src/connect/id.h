// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "cm/event.h"
#include "cm/qp_settings.h"
#include "cm/requests.h"
#include "connect/error.h"
#include "connect/event.h"
#include "connect/event_queue.h"
#include "connect/ip_endpoint.h"
#include "connect/listening.h"
#include "connect/lock.h"
#include "connect/memberships.h"
#include "connect/pair_control.h"
#include "connect/route.h"
#include "connect/subnet_client.h"
#include "connect/subnet_group.h"
#include "wire/cm/cm_ids.h"
#include "wire/headers/psn.h"

namespace verbatim::connect {

class Device;
class System;
struct SubnetQuestion;

/// The state of an id.
enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kResolving,  // until the event; other commands are refused
  kAddressResolved,
  kResolvingRoute,  // likewise
  kRouteResolved,
  kListening,
  kConnecting,  // request or reply sent, not established yet
  kRequested,   // the id of a request, which is not answered yet
  kConnected,
  kDisconnected,
};

/// The most READs and atomics of a queue pair at a time.
inline constexpr std::uint8_t kResourcesMax = 16;
/// The Q_Key of every datagram queue pair of rdma_cm.
inline constexpr wire::QKey kDatagramQKey{0x0123'4567};

/// How long the subnet has to answer, where the program does not say.
inline constexpr Duration kSubnetPatience = std::chrono::seconds(2);

/// One end of a communication: the id of rdma_cm. It binds, resolves, listens, connects, accepts,
/// disconnects and joins groups, and puts its events into an EventQueue. It controls its queue pair
/// through PairControl.
///
/// A command that the state of the id does not allow is refused with kInvalidArgument. Commands are
/// called by one thread at a time, without any lock.
///
/// It can end in every state: by end(), or by its destructor if the program never got the id.
class Id {
 public:
  struct Options {
    bool is_datagram = false;
    std::uint8_t traffic_class = 0;
    bool reuses_address = false;
    bool ipv6_only = false;
    std::optional<std::uint8_t> ack_timeout{};
    wire::Ece local_ece{};
  };
  /// The parameters of a request or a reply. Responder resources and initiator depth are at most
  /// kResourcesMax, the retry counts at most 7.
  struct Parameters {
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry_count = 0;
    bool flow_control = false;
    bool uses_srq = false;
    wire::QpNumber qpn{};                       // zero: none
    std::span<const std::byte> private_data{};  // borrowed for the call
  };
  /// What both ends have agreed on so far.
  struct Terms {
    wire::Psn starting_psn{};  // of the first packet that the peer sends
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    wire::Ece remote_ece{};
    std::optional<cm::QpSettings> settings{};  // nothing before there is a reply or a request
  };

  Id(System& system, EventQueue& queue, wire::PortSpace space);
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id();

  /// Sets the handle in the border, and the queue pair. Both outlive the id.
  void adopt(void* border, PairControl& pair) noexcept;
  [[nodiscard]] void* border() const noexcept { return border_; }
  [[nodiscard]] Options& options() noexcept { return options_; }
  [[nodiscard]] IdState state() const noexcept { return state_; }
  /// The current addresses of both ends. The device is null if there is none yet.
  [[nodiscard]] Route ends() const;
  [[nodiscard]] Terms terms() const;

  /// kAddressNotAvailable: not an address of this host. kNoDevice: not one of a device.
  [[nodiscard]] Outcome bind(const IpEndpoint& source);
  [[nodiscard]] Outcome resolve_address(const std::optional<IpEndpoint>& source,
                                        const IpEndpoint& destination, Duration patience);
  /// In a subnet of InfiniBand the subnet administration is asked for the path. Waits for the
  /// fabric a limited time.
  [[nodiscard]] Outcome resolve_route(Duration patience = kSubnetPatience);
  /// The same with a path that the program knows. Refused on RoCE.
  [[nodiscard]] Outcome set_path(const wire::PathRecord& path);
  /// A backlog that is not positive is the largest one.
  [[nodiscard]] Outcome listen(int backlog);
  [[nodiscard]] Outcome connect(const Parameters& parameters);
  [[nodiscard]] Outcome accept(const Parameters& parameters);
  [[nodiscard]] Outcome reject(wire::RejectReason reason, std::span<const std::byte> private_data);
  /// For programs that change the state of their queue pair themselves.
  [[nodiscard]] Outcome establish();
  [[nodiscard]] Outcome disconnect();
  /// The program has received data from the peer.
  [[nodiscard]] Outcome note_first_data();
  /// `state` matters in a subnet of InfiniBand only.
  [[nodiscard]] Outcome join(const IpEndpoint& group, void* context,
                             wire::JoinState state = wire::JoinState::kFullMember);
  [[nodiscard]] Outcome leave(const IpEndpoint& group);

  /// Refuses or disconnects the peer, removes the events of the id from the queue, and waits until
  /// the program has acknowledged the events that it has taken. Until end() returns, other threads
  /// may read the id because of such an event.
  void end();

  /// Puts an event of the border into the queue.
  void post(const Event::OfBorder& event);
  /// Moves the id and its events to this queue. Returns when the program has acknowledged the
  /// events that it has taken from the other queue.
  void move_to(EventQueue& queue);

  /// Takes the next event and counts it as given; null when there is none. For a request it calls
  /// `adopter(Event&)`, which takes `made` and adopts it. It does so with connections_mutex() held,
  /// so that no thread takes another event of the id before the border has a handle of the id.
  template <typename Adopter>
  [[nodiscard]] static std::unique_ptr<Event> take_event(EventQueue& queue, Adopter&& adopter) {
    const LockGuard lock(connections_mutex());
    auto event = queue.pop();
    if (event == nullptr) return nullptr;
    ++event->counted->events_given_;
    if (event->kind == EventKind::kRequest) adopter(*event);
    return event;
  }
  /// Performs the actions that precede the delivery of an event to the program. False when the
  /// event is not to be delivered; the caller then acknowledges it.
  [[nodiscard]] static bool prepare(Event& event);
  static void acknowledge(const Event& event) noexcept;

  // Called by this layer, with connections_mutex() held.
  void tell(EventKind kind) VB_REQUIRES(connections_mutex());
  void handle(const cm::AgentEvent& event) VB_REQUIRES(connections_mutex());
  /// A request for this listener has arrived. False: its private data make no sense.
  [[nodiscard]] bool handle_request(Device& device, const cm::AgentEvent& event)
      VB_REQUIRES(connections_mutex());
  void handle(const SubnetQuestion& question, const SubnetAnswer& answer)
      VB_REQUIRES(connections_mutex());
  /// The subnet has a new manager that does not know the groups of the id.
  void lose_groups() VB_REQUIRES(connections_mutex());

  /// Finishes resolve_address(): with the addresses of `route`, or with an error. Of the locks of
  /// this layer the caller may hold only that of the search.
  void finish_resolving(const Route& route, Outcome outcome);

 private:
  /// The id of a request, between these ends.
  Id(const Id& listener, const cm::AgentEvent& event, const Route& ends);

  [[nodiscard]] static std::unique_ptr<Event> event_of(Id& id, const cm::AgentEvent& from);
  void push(std::unique_ptr<Event> event) VB_REQUIRES(connections_mutex());
  void tell_failure(EventKind kind, Error error) VB_REQUIRES(connections_mutex());
  [[nodiscard]] std::optional<cm::QpSettings> settings_at(Device& device) const;
  void attach_to(Device& device) VB_REQUIRES(connections_mutex());
  void remember(wire::CommId communication) VB_REQUIRES(connections_mutex());
  [[nodiscard]] bool names_own_queue_pair(wire::QpNumber qpn) const;
  [[nodiscard]] bool has_communication() const noexcept { return communication_ != wire::CommId{}; }
  [[nodiscard]] bool has_pair() const noexcept { return pair_ != nullptr && pair_->has_pair(); }
  [[nodiscard]] Outcome make_ready(const PairControl::Depths& depths);
  Outcome fail_pair();
  [[nodiscard]] wire::ServiceId remote_service() const noexcept;
  [[nodiscard]] wire::PKey partition() const;
  [[nodiscard]] bool is_of_other_node(const IpEndpoint& at);
  [[nodiscard]] Outcome ask_for_path(Duration patience);
  void handle_path(const SubnetAnswer& answer) VB_REQUIRES(connections_mutex());
  void handle_broadcast_group(std::uint32_t number, const SubnetAnswer& answer)
      VB_REQUIRES(connections_mutex());
  void handle_join(std::uint32_t number, const SubnetAnswer& answer)
      VB_REQUIRES(connections_mutex());
  void fail_join(std::uint32_t number, Error error) VB_REQUIRES(connections_mutex());
  [[nodiscard]] SubnetGroup* find_group(std::uint32_t number) noexcept
      VB_REQUIRES(connections_mutex());
  [[nodiscard]] Outcome join_in_subnet(const IpEndpoint& group, void* context,
                                       wire::JoinState state);
  [[nodiscard]] Outcome leave_in_subnet(const IpEndpoint& group);
  void leave_subnet_groups() noexcept;
  [[nodiscard]] Outcome ask_for_connection(const Parameters& parameters);
  [[nodiscard]] Outcome ask_for_service(const Parameters& parameters);
  [[nodiscard]] Outcome answer_service(const cm::ServiceAnswer& answer);
  [[nodiscard]] Outcome accept_datagrams(const Parameters& parameters);
  void prepare_reply(Event& event);
  void prepare_join(Event& event);
  void leave_devices();
  void drop_events();
  void change_queue(EventQueue& queue) VB_REQUIRES(connections_mutex());
  void await_acknowledgements();

  System& system_;
  wire::PortSpace space_;
  void* border_ = nullptr;
  PairControl* pair_ = nullptr;  // null: a request that the program has not taken yet
  Options options_{};
  std::atomic<IdState> state_{
      IdState::kIdle};  // read by any thread, also while the address is resolved
  // Changed with connections_mutex() held. The thread whose turn it is to call commands reads them
  // without the lock, any other thread with it.
  Route ends_{};
  Terms terms_{};                 // without the settings
  wire::CommId communication_{};  // zero: none
  bool has_ended_ = false;
  bool failed_to_connect_ = false;  // later events of the failure are not delivered
  Listening listening_;
  Memberships groups_;
  std::vector<SubnetGroup> subnet_groups_ VB_GUARDED_BY(connections_mutex());
  std::uint32_t next_group_ VB_GUARDED_BY(connections_mutex()) = 1;

  EventQueue* queue_ VB_GUARDED_BY(connections_mutex());
  // Given to the program, which must acknowledge them.
  std::uint32_t events_given_ VB_GUARDED_BY(connections_mutex()) = 0;
  std::uint32_t events_acknowledged_ VB_GUARDED_BY(connections_mutex()) = 0;
};

}  // namespace verbatim::connect

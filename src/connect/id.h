// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

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
#include "wire/cm_ids.h"
#include "wire/ip_cm_header.h"
#include "wire/psn.h"

namespace verbatim::connect {

class Device;
class System;

/// How far an id has come.
enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kResolving,  // until the event, nothing else may be asked for
  kAddressResolved,
  kRouteResolved,
  kListening,
  kConnecting,  // asked, or answered, and not established
  kRequested,   // by a peer, which waits for the answer
  kConnected,
  kDisconnected,
};

/// How much an adapter can do at a time.
inline constexpr std::uint8_t kResourcesMax = 16;
/// The Q_Key of every datagram queue pair of rdma_cm.
inline constexpr wire::QKey kDatagramQKey{0x0123'4567};

/// One end of a communication, from its address to its end: the id of rdma_cm. It binds, resolves,
/// listens, connects, accepts, disconnects and joins groups, and puts what happens to it into an
/// EventQueue. It knows no queue pair but through PairControl.
///
/// Commands refuse with kInvalidArgument what its state does not allow. They are called by one
/// thread at a time, without any lock.
///
/// It ends with end(), at any time, or with its destructor where the program was never given it.
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
  /// What both ends say to each other when they connect; responder resources and initiator depth
  /// are at most kResourcesMax, the retry counts at most 7.
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
  /// What the peer and this end have said so far.
  struct Terms {
    wire::Psn starting_psn{};  // of the first packet that the peer sends
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    wire::Ece remote_ece{};
  };

  Id(System& system, EventQueue& queue, wire::PortSpace space);
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id();

  /// What the border knows it by, and the queue pair that the border gives it. Both outlive the id.
  void adopt(void* border, PairControl& pair) noexcept;
  [[nodiscard]] void* border() const noexcept { return border_; }
  [[nodiscard]] Options& options() noexcept { return options_; }
  [[nodiscard]] IdState state() const noexcept { return state_; }
  /// Its ends as they are now; the device is null while there is none.
  [[nodiscard]] Route ends() const;
  [[nodiscard]] Terms terms() const;
  /// What both ends have agreed; nothing before there is a reply or a request.
  [[nodiscard]] std::optional<cm::QpSettings> settings() const;

  /// kAddressNotAvailable: not an address of this host. kNoDevice: not one of a device.
  [[nodiscard]] Outcome bind(const IpEndpoint& source);
  [[nodiscard]] Outcome resolve_address(const std::optional<IpEndpoint>& source,
                                        const IpEndpoint& destination, Duration patience);
  [[nodiscard]] Outcome resolve_route();
  /// A backlog that is not positive is the largest one.
  [[nodiscard]] Outcome listen(int backlog);
  [[nodiscard]] Outcome connect(const Parameters& parameters);
  [[nodiscard]] Outcome accept(const Parameters& parameters);
  [[nodiscard]] Outcome reject(wire::RejectReason reason, std::span<const std::byte> private_data);
  /// For programs that move their queue pair themselves.
  [[nodiscard]] Outcome establish();
  [[nodiscard]] Outcome disconnect();
  /// The program has got data from the peer.
  [[nodiscard]] Outcome note_first_data();
  [[nodiscard]] Outcome join(const IpEndpoint& group, void* context);
  [[nodiscard]] Outcome leave(const IpEndpoint& group);

  /// A peer is refused or told, its events are taken out of the queue, and then it waits until the
  /// program has acknowledged those that it has got. Until it returns, other threads may still read
  /// the id because of such an event.
  void end();

  /// Puts an event of the border's own into the queue.
  void post(const Event::OfBorder& event);
  /// Its events go to this queue from now on, those that wait included. Returns when the program
  /// has acknowledged those that it got from the other one.
  void move_to(EventQueue& queue);

  /// The next event, counted as given; null when there is none. Of a request `adopter(Event&)`
  /// takes `made` and adopts it, with connections_mutex() held, so that no thread sees another
  /// event of the id before the border knows it.
  template <typename Adopter>
  [[nodiscard]] static std::unique_ptr<Event> take_event(EventQueue& queue, Adopter&& adopter) {
    const std::lock_guard lock(connections_mutex());
    auto event = queue.pop();
    if (event == nullptr) return nullptr;
    ++event->counted->events_given_;
    if (event->kind == EventKind::kRequest) adopter(*event);
    return event;
  }
  /// Does what an event asks for before the program sees it. False when the program is not to see
  /// it, and then it is to be acknowledged.
  [[nodiscard]] static bool prepare(Event& event);
  static void acknowledge(const Event& event) noexcept;

  // For the layer, with connections_mutex() held.
  void tell(EventKind kind);
  void handle(const cm::Event& event);
  /// A peer asks this listener.
  void handle_request(Device& device, const cm::Event& event, const wire::IpCmHeader& header);

  /// The end of resolve_address(): the ends are those of `route`, or nothing was found. Without any
  /// lock of this layer but that of the search.
  void finish_resolving(const Route& route, Outcome outcome);

 private:
  /// Of a request.
  Id(const Id& listener, Device& device, const cm::Event& event, const wire::IpCmHeader& header);

  [[nodiscard]] static std::unique_ptr<Event> event_of(Id& id, const cm::Event& from);
  void push(std::unique_ptr<Event> event);
  void tell_failure(EventKind kind, Error error);
  void attach_to(Device& device);
  void remember(wire::CommId communication);
  [[nodiscard]] bool names_own_queue_pair(wire::QpNumber qpn) const;
  [[nodiscard]] bool has_communication() const noexcept { return communication_ != wire::CommId{}; }
  [[nodiscard]] bool has_pair() const noexcept { return pair_ != nullptr && pair_->has_pair(); }
  [[nodiscard]] Outcome make_ready(const PairControl::Depths& depths);
  Outcome fail_pair();
  [[nodiscard]] wire::ServiceId remote_service() const noexcept;
  [[nodiscard]] Outcome ask_for_connection(const Parameters& parameters);
  [[nodiscard]] Outcome ask_for_service(const Parameters& parameters);
  [[nodiscard]] Outcome answer_service(const cm::ServiceAnswer& answer);
  [[nodiscard]] Outcome accept_datagrams(const Parameters& parameters);
  void prepare_reply(Event& event);
  void prepare_join(Event& event);
  void leave_devices();
  void drop_events();
  void change_queue(EventQueue& queue);
  void await_acknowledgements();

  System& system_;
  const wire::PortSpace space_;
  void* border_ = nullptr;
  PairControl* pair_ = nullptr;  // null: a request that the border has not taken yet
  Options options_{};
  std::atomic<IdState> state_{
      IdState::kIdle};            // asked for by any thread, also while it is resolved
  Route ends_{};                  // connections_mutex()
  Terms terms_{};                 // connections_mutex()
  wire::CommId communication_{};  // zero: none
  bool has_ended_ = false;
  bool failed_to_connect_ = false;  // the program was told; what follows from it is not news
  Listening listening_;
  Memberships groups_;

  // connections_mutex()
  EventQueue* queue_;
  std::uint32_t events_given_ = 0;  // to the program, that it must acknowledge
  std::uint32_t events_acknowledged_ = 0;
};

}  // namespace verbatim::connect

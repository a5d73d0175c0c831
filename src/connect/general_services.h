// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/adapter_role.h"
#include "base/assert.h"
#include "base/expected.h"
#include "base/time.h"
#include "cm/agent.h"
#include "connect/service_claims.h"
#include "connect/subnet_client.h"
#include "device/adapter.h"
#include "device/management_port.h"
#include "host/own_descriptor.h"
#include "host/peer_watch.h"
#include "wire/cm/addressee.h"
#include "wire/cm/service_id.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"
#include "wire/headers/psn.h"

namespace verbatim::connect {

class Device;

/// Queue pair 1 of an adapter, the general services interface: the communication management of this
/// process, one of several behind the same addresses.
///
/// A datagram that reaches the wrong process is forwarded: an answer to the slot that the
/// communication ID contains, a request to the process that holds the service. Between processes of
/// one address datagrams are sent that way from the start, so they pass through no third process.
///
/// A request for a service that no process holds is not refused at once: programs tell a peer to
/// connect and call listen a moment later.
///
/// Every process that opens an adapter has one, also if the program uses no connections: it
/// forwards the datagrams of the other processes.
///
/// With the adapter's lock held, except where ManagementPort says otherwise.
class GeneralServices final : public device::ManagementPort {
 public:
  /// For device::open_adapter().
  [[nodiscard]] static std::unique_ptr<ManagementPort> make(const Parts& parts);
  /// The one of an adapter. The adapter must have been opened with make().
  [[nodiscard]] static GeneralServices& of(device::Adapter& adapter) noexcept {
    VB_ASSERT(adapter.management().maker() == &GeneralServices::make);
    return static_cast<GeneralServices&>(adapter.management());
  }
  explicit GeneralServices(const Parts& parts);

  // ---- For connections ----

  /// After a command: send(), and then the caller polls the events.
  [[nodiscard]] cm::Agent& agent() noexcept VB_REQUIRES(adapter_role) { return *agent_; }
  /// Sends the messages of the agent and sets the timer.
  void send() noexcept VB_REQUIRES(adapter_role);
  /// Device::handle_news() is called when there are events. The reader outlives the engine's
  /// thread. Without a reader changes of the port are not kept.
  void set_reader(Device* reader) noexcept VB_REQUIRES(adapter_role) { reader_ = reader; }
  /// What has happened to the adapter's port, oldest first.
  [[nodiscard]] std::optional<device::PortChange> poll_port_change() noexcept
      VB_REQUIRES(adapter_role);

  /// See ServiceClaims.
  [[nodiscard]] Status claim(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) {
    return claims_.claim(address, service, epoll_.number());
  }
  void release(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) {
    claims_.release(address, service);
  }
  void attract(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) {
    claims_.attract(address, service);
  }

  // ---- In a subnet of InfiniBand ----

  /// Connects this process with the administration of its subnet, unless it is. Without any lock;
  /// waits for the fabric.
  [[nodiscard]] Status reach_subnet();
  /// Likewise, after reach_subnet(). kNoSuchObject: no node has the address.
  [[nodiscard]] Expected<wire::Gid> find_node(std::uint32_t address);
  [[nodiscard]] Expected<SubnetToken> ask_subnet(
      std::span<const std::byte, wire::Mad::kSize> octets, Duration patience)
      VB_REQUIRES(adapter_role);
  [[nodiscard]] std::optional<SubnetAnswer> poll_subnet_answer() noexcept
      VB_REQUIRES(adapter_role) {
    return subnet_.poll_answer();
  }

  // ---- For the adapter ----

  [[nodiscard]] Status open() noexcept override;
  void leave() noexcept VB_REQUIRES(adapter_role) override;
  void abandon_in_child() noexcept VB_REQUIRES(adapter_role) override;
  void handle(const Arrival& arrival) noexcept VB_REQUIRES(adapter_role) override;
  void handle_first_data(wire::CommId communication) noexcept VB_REQUIRES(adapter_role) override;
  void handle_address(const wire::Gid& address) noexcept VB_REQUIRES(adapter_role) override {
    claims_.steer(address);
  }
  void handle_port_change(const device::PortChange& change) noexcept
      VB_REQUIRES(adapter_role) override;
  [[nodiscard]] int descriptor() const noexcept override { return epoll_.number(); }
  void take_forwarded() noexcept VB_REQUIRES(adapter_role) override;
  void run_timer(Instant at) noexcept VB_REQUIRES(adapter_role) override;
  [[nodiscard]] Instant next_deadline() const noexcept VB_REQUIRES(adapter_role) override;
  void deliver_news() noexcept override;

 private:
  /// Sends, and tells the engine if there are events.
  void serve() noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] link::SharedPort::SlotUser user_of_slot(std::uint32_t slot,
                                                        const wire::Gid& address) const noexcept;
  [[nodiscard]] bool has_news() const noexcept VB_REQUIRES(adapter_role);
  void note_deaths() noexcept VB_REQUIRES(adapter_role);
  void look_at_deaths(Instant at) noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] std::vector<wire::CommId> communications_with(std::uint32_t slot) const
      VB_REQUIRES(adapter_role);
  void take_subnet_answers() noexcept VB_REQUIRES(adapter_role);
  void handle_departure(const host::FabricDeparture& departure) noexcept VB_REQUIRES(adapter_role);
  void transmit(const cm::Datagram& datagram) noexcept VB_REQUIRES(adapter_role);
  /// Whether the datagram is for an address of this host.
  [[nodiscard]] bool is_here(const cm::Address& to) const noexcept VB_REQUIRES(adapter_role);
  /// The address that a packet has been sent to. A native packet may have none in it.
  [[nodiscard]] wire::Gid local_of(const link::Incoming& incoming) const noexcept
      VB_REQUIRES(adapter_role);
  [[nodiscard]] cm::Address address_of(const link::Incoming& incoming) const noexcept
      VB_REQUIRES(adapter_role);
  [[nodiscard]] wire::PacketHeaders next_headers() noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] bool is_datagram_for_gsi(const wire::PacketView& packet) const noexcept
      VB_REQUIRES(adapter_role);
  [[nodiscard]] bool hand_over(const cm::Datagram& datagram,
                               const link::Incoming& as_received) noexcept
      VB_REQUIRES(adapter_role);
  /// The process that a datagram is for.
  enum class Recipient : std::uint8_t { kThisProcess, kAnother, kNone };
  [[nodiscard]] Recipient recipient_of_forwarded(const Arrival& arrival) const noexcept
      VB_REQUIRES(adapter_role);
  [[nodiscard]] Recipient forward_elsewhere(const Arrival& arrival) noexcept
      VB_REQUIRES(adapter_role);
  /// Whether a message that names no process may be forwarded to all processes.
  [[nodiscard]] bool may_tell_all(Instant at) noexcept VB_REQUIRES(adapter_role);
  /// Gives the datagram to the agent.
  void take(const Arrival& arrival) noexcept VB_REQUIRES(adapter_role);

  /// A request for which there may be a listener soon.
  struct EarlyRequest {
    std::vector<std::byte> message;  // as it would be forwarded
    Instant look_again{};
    Duration wait{};
  };
  [[nodiscard]] bool keep_early(const Arrival& arrival) noexcept VB_REQUIRES(adapter_role);
  /// The longest wait for a listener.
  [[nodiscard]] Duration patience_with(const Arrival& arrival) const noexcept
      VB_REQUIRES(adapter_role);
  void look_at_early(Instant at) noexcept VB_REQUIRES(adapter_role);

  Parts parts_;
  std::unique_ptr<cm::Agent> agent_ VB_GUARDED_BY(adapter_role);
  Device* reader_ VB_GUARDED_BY(adapter_role) = nullptr;
  std::deque<device::PortChange> port_changes_
      VB_GUARDED_BY(adapter_role);  // that the reader has not taken yet
  ServiceClaims claims_ VB_GUARDED_BY(adapter_role);
  SubnetClient subnet_ VB_GUARDED_BY(adapter_role);  // opened at the first use
  std::vector<EarlyRequest> early_ VB_GUARDED_BY(adapter_role);
  /// A process that is ending: the kernel closes its sockets one by one.
  struct Death {
    std::uint32_t slot = 0;
    std::vector<wire::CommId> communications;  // with it, when its end was noticed
    Instant look_again{};
    Duration wait{};
  };
  std::vector<Death> deaths_ VB_GUARDED_BY(adapter_role);
  host::PeerWatch watch_;
  Instant tells_since_
      VB_GUARDED_BY(adapter_role){};  // when the present period of messages to all processes began
  int tells_ VB_GUARDED_BY(adapter_role) = 0;
  host::OwnDescriptor epoll_;  // over the sockets of all claims, and the watch
  wire::Psn next_psn_ VB_GUARDED_BY(adapter_role){};
  std::vector<std::byte> message_
      VB_GUARDED_BY(adapter_role);  // a forwarded request, or one to forward
};

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "cm/addressee.h"
#include "cm/agent.h"
#include "device/adapter_types.h"
#include "device/port_info.h"
#include "device/slot_of.h"
#include "host/peer_watch.h"
#include "host/port_blocks.h"
#include "host/request_box.h"
#include "host/service_directory.h"
#include "host/service_name.h"
#include "host/slot.h"
#include "link/link.h"
#include "udp/shared_port.h"
#include "udp/udp_link.h"
#include "wire/cm/service_id.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"
#include "wire/headers/psn.h"

namespace verbatim::device {

class Engine;

/// The ports of this process that nobody asked for by number.
[[nodiscard]] host::PortBlocks& given_ports();

/// What reads the events of a Gsi. It is told that there are some; it then takes them with
/// Gsi::poll_event() and Gsi::poll_port_change() until there are no more.
class CmReader {
 public:
  /// Called by the engine's thread, with no lock held.
  virtual void handle_news() noexcept = 0;

 protected:
  ~CmReader() = default;
};

/// Queue pair 1 of an adapter, the general services interface (IBA Vol 1, 13.5.1): communication
/// management of this process, one of several behind the same addresses.
///
/// A datagram that reaches the wrong process is forwarded: an answer to the slot that the
/// communication ID carries, a request to the process that holds the service. Between processes of
/// one address datagrams go that way from the start, so that nobody else has a hand in it.
///
/// A request for a service that nobody has is not refused at once: programs tell a peer to connect
/// and listen a moment later.
///
/// All of it with the adapter's lock held.
class Gsi {
 public:
  /// All of them outlive this.
  struct Parts {
    const PortInfo& port;
    const host::Slot& slot;
    link::SharedPort& shared_port;
    link::UdpLink& udp;
    link::Link* const& link;  // the present one
    AdapterDispatch& dispatch;
    Engine& engine;
  };
  explicit Gsi(const Parts& parts);
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;
  ~Gsi();

  [[nodiscard]] Status open() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return agent_ != nullptr; }
  /// A forked child has no part in its parent's communications.
  void abandon_in_child() noexcept;

  /// After a command: send(), and then the caller polls the events.
  [[nodiscard]] cm::Agent& agent() noexcept { return *agent_; }
  /// The reader outlives the engine's thread. Without a reader port changes are not kept.
  void set_reader(CmReader* reader) noexcept { reader_ = reader; }
  [[nodiscard]] CmReader* reader() const noexcept { return reader_; }

  [[nodiscard]] std::optional<cm::Event> poll_event() noexcept { return agent_->poll_event(); }
  /// What has happened to the adapter's port, oldest first.
  [[nodiscard]] std::optional<PortChange> poll_port_change() noexcept;

  /// Holds a service at one of the adapter's addresses against the other processes of the host, of
  /// all users. kAddressInUse when one of them, or this process, has it.
  [[nodiscard]] Status claim(const wire::Gid& address, wire::ServiceId service) noexcept;
  void release(const wire::Gid& address, wire::ServiceId service) noexcept;
  /// Requests for a service that this process holds are to come here, whoever else shares the
  /// address; until it is released.
  void attract(const wire::Gid& address, wire::ServiceId service) noexcept;

  /// The peer of what was accepted has sent a packet, so it is ready (IBA Vol 1, 12.9.7.2).
  void handle_first_data(wire::CommId communication) noexcept;

  /// The adapter has got an address.
  void open_at(const wire::Gid& address) noexcept { steer(address); }
  void handle_port_change(const PortChange& change) noexcept;

  /// The process leaves: nothing is to come here any more.
  void leave() noexcept;

  /// What has arrived for queue pair 1.
  struct Arrival {
    const link::Incoming& incoming;
    const wire::PacketView& packet;
    const wire::IcrcSeed& seed;
    bool was_forwarded = false;
  };
  void handle(const Arrival& arrival) noexcept;

  /// Readable when requests were forwarded to us; then: take_forwarded().
  [[nodiscard]] int descriptor() const noexcept { return epoll_.number(); }
  void take_forwarded() noexcept;

  /// Sends what the agent has to send and sets the timer.
  void send() noexcept;
  /// The same, and the reader is told where there are events.
  void serve() noexcept;
  /// What is due by now.
  void run_timer(Instant at) noexcept;
  [[nodiscard]] Instant next_deadline() const noexcept;

 private:
  struct Claim {
    host::Service service{};
    host::ServiceName name;
    host::ServiceName advertisement{};  // where it is attracted
    host::RequestBox box{};             // where users can be told apart
  };
  void steer(const wire::Gid& address) noexcept;
  [[nodiscard]] link::SharedPort::Whose whose_slot(std::uint32_t slot,
                                                   const wire::Gid& address) const noexcept;
  [[nodiscard]] std::optional<host::ServiceDirectory> read_directory(
      const std::array<std::uint8_t, 16>& address) const;
  [[nodiscard]] bool has_news() const noexcept;
  void note_deaths() noexcept;
  void look_at_deaths(Instant at) noexcept;
  [[nodiscard]] std::vector<wire::CommId> communications_with(std::uint32_t slot) const;
  void transmit(const cm::Datagram& datagram) noexcept;
  [[nodiscard]] bool hand_over(const cm::Datagram& datagram,
                               const link::Incoming& as_received) noexcept;
  /// Where a datagram belongs.
  enum class Whose : std::uint8_t { kOurs, kOthers, kNobodys };
  [[nodiscard]] Whose whose_forwarded(const Arrival& arrival) const noexcept;
  [[nodiscard]] Whose forward_elsewhere(const Arrival& arrival) noexcept;
  /// Whether a message that names no process may go to all of them.
  [[nodiscard]] bool may_tell_all(Instant at) noexcept;
  /// The agent hears of it.
  void take(const Arrival& arrival) noexcept;

  /// A request for which there may be a listener soon.
  struct Early {
    std::vector<std::byte> message;  // as it would be forwarded
    Instant look_again{};
    Duration wait{};
  };
  [[nodiscard]] bool keep_early(const Arrival& arrival) noexcept;
  /// The longest wait for a listener.
  [[nodiscard]] Duration patience_with(const Arrival& arrival) const noexcept;
  void look_at_early(Instant at) noexcept;

  Parts parts_;
  std::unique_ptr<cm::Agent> agent_;
  CmReader* reader_ = nullptr;
  std::deque<PortChange> port_changes_;  // that the reader has not taken yet
  std::vector<Claim> claims_;
  std::vector<Early> early_;
  /// A process that is going: the kernel closes its sockets one by one.
  struct Death {
    std::uint32_t slot = 0;
    std::vector<wire::CommId> communications;  // that we had with it when it was missed
    Instant look_again{};
    Duration wait{};
  };
  std::vector<Death> deaths_;
  host::PeerWatch watch_;
  bool has_left_ = false;
  Instant tells_since_{};  // messages to all processes: this period's
  int tells_ = 0;
  host::OwnDescriptor epoll_;  // over the sockets of all claims
  wire::Psn next_psn_{};
  std::vector<std::byte> message_;  // a forwarded request, or one to forward
};

}  // namespace verbatim::device

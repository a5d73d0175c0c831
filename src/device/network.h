// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/expected.h"
#include "base/mutex.h"
#include "base/time.h"
#include "device/config.h"
#include "device/port_info.h"
#include "host/queue_lock.h"
#include "host/slot.h"
#include "link/link.h"
#include "transport/arrival.h"
#include "transport/path.h"
#include "udp/backpressure.h"
#include "udp/shared_port.h"
#include "udp/steering.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// What a packet to `gid` or `lid` needs.
struct Destination {
  bool is_global = true;  // with a global route header; always so on RoCE
  std::uint32_t gid_index = 0;
  wire::Gid gid{};
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint16_t entropy = 0;  // spreads flows over source ports
  // In a fabric.
  wire::Lid lid{};
  wire::ServiceLevel level{};
  std::uint8_t path_bits = 0;
  std::uint8_t rate = 0;  // as verbs count rates; 0: that of the link
};

/// How the adapter of a port is connected with other adapters: by UDP sockets of this host
/// (UdpNetwork), or through the port of a fabric (FabricNetwork). It gives the process its slot,
/// and the adapter its link.
///
/// With the adapter's lock held, unless a function says otherwise.
class Network {
 public:
  /// That of a port; never null.
  [[nodiscard]] static std::unique_ptr<Network> make(const PortInfo& port);

  Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  virtual ~Network() = default;

  // ---- Opening and closing, without the adapter's lock ----

  /// Takes a slot and opens the link. On failure `message` says why and what to do about it.
  [[nodiscard]] virtual Expected<host::Slot> open(const PortInfo& port, const LinkConfig& config,
                                                  std::string& message) = 0;
  /// Called when the link is closed, and before the slot is given up.
  virtual void leave() noexcept = 0;
  /// Held while the process forks.
  [[nodiscard]] virtual Mutex& fork_mutex() noexcept = 0;
  /// In a forked child, after Link::close().
  virtual void abandon_in_child() noexcept = 0;

  /// The same in a child whose thread may be in the middle of a call of this object: takes no lock
  /// and frees nothing.
  virtual void forget_in_child() noexcept {}

  // ---- Packets ----

  [[nodiscard]] virtual link::Link& link() noexcept = 0;
  /// The size of the buffer where packets wait for this process.
  [[nodiscard]] virtual std::size_t receive_buffer_octets() const noexcept = 0;
  /// kInvalidArgument when no packet of this port can reach the destination.
  [[nodiscard]] virtual Expected<transport::Path> path_to(const PortInfo& port,
                                                          const Destination& to) const noexcept = 0;
  /// Whether packets can leave from this address.
  [[nodiscard]] virtual bool has_address(const wire::Gid& address) const noexcept = 0;

  /// From now on the link also receives packets to a multicast group. kNoDevice when it cannot.
  [[nodiscard]] virtual Status join(const PortInfo& port, const wire::Gid& group) noexcept = 0;
  virtual void leave(const PortInfo& port, const wire::Gid& group) noexcept = 0;

  /// How much may be sent by services that report no losses: see Backpressure.
  [[nodiscard]] virtual std::size_t room_at(const link::Backpressure::Receiver& receiver,
                                            Instant at) = 0;

  /// A queue pair has dropped a packet because of one of its keys. An InfiniBand port counts that.
  virtual void report(transport::KeyViolation /*violation*/,
                      const transport::Arrival& /*arrival*/) noexcept {}

  // ---- Other processes behind the same address ----

  /// The user that has the address and lends it to this user (docs/decisions/0025); nothing where
  /// this user has it.
  [[nodiscard]] virtual std::optional<uid_t> lender_at(const wire::Gid& local) const noexcept = 0;
  /// Which user the queue pairs of a slot at an address belong to.
  [[nodiscard]] virtual link::SharedPort::SlotUser user_of(const PortInfo& port,
                                                           const wire::Gid& address,
                                                           std::uint32_t slot) noexcept = 0;
  /// Steers connection requests that arrive at `local` (steering_program()).
  virtual void steer(const wire::Gid& local, std::span<const link::ServiceRoute> routes,
                     std::uint32_t fallback) noexcept = 0;
  /// The UDP source port of packets with this entropy from `source`; 0 if there is none.
  [[nodiscard]] virtual std::uint16_t source_port(const wire::Gid& source,
                                                  std::uint16_t entropy) const noexcept = 0;

  // ---- Changes of the port, without the adapter's lock, by one thread at a time ----

  /// The port has got an address. Waits for other processes. An address that cannot be used, as
  /// when another user has the port there, is refused.
  [[nodiscard]] virtual Status add_address(host::AdapterLock& lock, const PortInfo& port,
                                           std::uint32_t slot, const wire::Gid& address) = 0;

  // ---- Changes of the port that the network itself reports, with the adapter's lock ----

  /// Becomes readable when take_notice() is to be called, and may stay so for ever when the network
  /// has ended; -1 when the network reports no changes. It stays the same while the network is
  /// open.
  [[nodiscard]] virtual int notices() const noexcept { return -1; }
  /// The port as it is now, if it has changed; without FabricPort: the network is gone for good.
  [[nodiscard]] virtual std::optional<PortInfo> take_notice(const PortInfo& /*port*/) noexcept {
    return std::nullopt;
  }
};

}  // namespace verbatim::device

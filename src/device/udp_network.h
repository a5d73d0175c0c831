// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/network.h"
#include "udp/udp_link.h"

namespace verbatim::device {

/// RoCEv2 over UDP sockets, at the addresses of a network interface.
class UdpNetwork final : public Network {
 public:
  UdpNetwork() : room_(shared_port_) {}

  [[nodiscard]] Expected<host::Slot> open(const PortInfo& port, const LinkConfig& config,
                                          std::string& message) override;
  void leave() noexcept override { shared_port_.leave(); }
  [[nodiscard]] Mutex& fork_mutex() noexcept override { return shared_port_.mutex(); }
  void abandon_in_child() noexcept override { shared_port_.abandon_in_child(); }

  [[nodiscard]] link::Link& link() noexcept override { return link_; }
  [[nodiscard]] std::size_t receive_buffer_octets() const noexcept override {
    return link_.receive_buffer_octets();
  }
  [[nodiscard]] Expected<transport::Path> path_to(const PortInfo& port,
                                                  const Destination& to) const noexcept override;
  [[nodiscard]] bool has_address(const wire::Gid& address) const noexcept override {
    return link_.source_port(address, 0) != 0;
  }
  [[nodiscard]] Status join(const PortInfo& port, const wire::Gid& group) noexcept override {
    return link_.join({.gid = group, .scope = port.interface_index});
  }
  void leave(const PortInfo& port, const wire::Gid& group) noexcept override {
    (void)link_.leave({.gid = group, .scope = port.interface_index});  // it had joined
  }
  [[nodiscard]] std::size_t room_at(const link::Backpressure::Receiver& receiver,
                                    Instant at) override {
    return room_.room_at(receiver, at);
  }

  [[nodiscard]] std::optional<uid_t> lender_at(const wire::Gid& local) const noexcept override {
    return link_.lender_at(local);
  }
  [[nodiscard]] link::SharedPort::SlotUser user_of(const PortInfo& port, const wire::Gid& address,
                                                   std::uint32_t slot) noexcept override {
    return shared_port_.user_of({.gid = address, .scope = port.interface_index}, slot);
  }
  void steer(const wire::Gid& local, std::span<const link::ServiceRoute> routes,
             std::uint32_t fallback) noexcept override {
    link_.steer(local, routes, fallback);
  }
  [[nodiscard]] std::uint16_t source_port(const wire::Gid& source,
                                          std::uint16_t entropy) const noexcept override {
    return link_.source_port(source, entropy);
  }
  [[nodiscard]] Status add_address(host::AdapterLock& lock, const PortInfo& port,
                                   std::uint32_t slot, const wire::Gid& address) override;

 private:
  link::SharedPort shared_port_;
  link::UdpLink link_;  // addresses and sockets
  link::Backpressure room_;
};

}  // namespace verbatim::device

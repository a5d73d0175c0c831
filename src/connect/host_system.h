// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "connect/system.h"

namespace verbatim::connect {

/// This host. A thread resolves neighbours; it runs only while ids wait for neighbours. All signals
/// are blocked in it, because signals are for threads of the program.
class HostSystem final : public System {
 public:
  [[nodiscard]] static HostSystem& of_process();

  [[nodiscard]] std::vector<Device*> devices() override;
  [[nodiscard]] Expected<IpEndpoint, Error> route_source(const IpEndpoint& destination,
                                                         const IpEndpoint& source) override;
  [[nodiscard]] bool is_local(const IpEndpoint& endpoint) override;
  [[nodiscard]] Expected<std::uint16_t, Error> take_port(wire::PortSpace space) override;
  void give_port_back(wire::PortSpace space, std::uint16_t port) noexcept override;
  void seek_neighbour(Id& id, const Route& route, Duration patience) override;
  void stop_seeking(Id& id) noexcept override;
};

}  // namespace verbatim::connect

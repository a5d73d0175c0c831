// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "device/adapter.h"
#include "device/management_port.h"
#include "device/test_interface.h"

/// Adapters without connections. Nothing but tests includes this.
namespace verbatim::device::test {

/// A management port that does nothing but what a test says.
class FakeManagement final : public ManagementPort {
 public:
  /// Adapter takes it as a Maker.
  [[nodiscard]] static std::unique_ptr<ManagementPort> make(const Parts& parts) {
    return std::make_unique<FakeManagement>(parts);
  }
  [[nodiscard]] static FakeManagement& of(Adapter& adapter) {
    return static_cast<FakeManagement&>(adapter.management());
  }
  explicit FakeManagement(const Parts& parts) : ManagementPort(&make), parts_(parts) {}
  ~FakeManagement() override { on_end(parts_); }

  /// The parts of the adapter, as a management port gets them.
  [[nodiscard]] const Parts& parts() const noexcept { return parts_; }

  std::function<void(const Arrival&)> on_arrival = [](const Arrival&) {};
  std::function<void(const Parts&)> on_end = [](const Parts&) {};

  [[nodiscard]] Status open() noexcept override { return Ok{}; }
  void leave() noexcept override {}
  void abandon_in_child() noexcept override {}
  void handle(const Arrival& arrival) noexcept override { on_arrival(arrival); }
  void handle_first_data(wire::CommId) noexcept override {}
  void handle_address(const wire::Gid&) noexcept override {}
  void handle_port_change(const PortChange&) noexcept override {}
  [[nodiscard]] int descriptor() const noexcept override { return -1; }
  void take_forwarded() noexcept override {}
  void run_timer(Instant) noexcept override {}
  [[nodiscard]] Instant next_deadline() const noexcept override { return Instant::never(); }
  void deliver_news() noexcept override {}

 private:
  Parts parts_;
};

inline const wire::Gid kLoopbackAddress = ipv4(127, 0, 0, 1);

/// The loopback interface as a port, with kLoopbackAddress alone.
inline PortInfo loopback_port() {
  PortInfo port;
  port.name = "vb0";
  port.interface = "lo";
  port.interface_index = 1;  // the first interface of every namespace
  port.gids = {{.gid = kLoopbackAddress, .interface_index = 1}};
  return port;
}

}  // namespace verbatim::device::test

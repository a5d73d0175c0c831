// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "abi/rdmacm/address.h"
#include "abi/rdmacm/channel.h"
#include "abi/verbs/handles.h"
#include "device/clock.h"
#include "device/gsi.h"

namespace verbatim::abi {

struct IdHandle;

/// A device as rdma_cm uses it: opened once, with a domain for programs that bring none. It polls
/// what happens to communications and makes events of it.
///
/// `communications`, `listeners` and `users` belong to events_mutex().
class CmDevice final : public device::CmReader {
 public:
  CmDevice(ibv_context* context, ibv_pd* domain) noexcept;

  [[nodiscard]] ibv_context* verbs() const noexcept { return verbs_; }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_; }
  [[nodiscard]] device::PortInfo port() const { return adapter_->port(); }
  [[nodiscard]] device::Adapter& adapter() const noexcept { return *adapter_; }
  [[nodiscard]] device::Gsi& gsi() const noexcept { return adapter_->gsi(); }

  [[nodiscard]] std::optional<std::uint32_t> index_of(const wire::Gid& gid) const noexcept;
  /// The address that stands for the loopback address of a family.
  [[nodiscard]] std::optional<wire::Gid> loopback_gid(bool is_ipv4) const noexcept;

  /// Runs a command on the agent, lets it act, and takes the events that follow from it. The
  /// command has events_mutex() and the adapter's lock.
  template <typename Command>
  auto with_agent(Command&& command) {
    const std::lock_guard lock(events_mutex());
    auto result = on_agent(command);
    poll();
    return result;
  }

  void handle_news() noexcept override;
  /// Ends all communications, with events_mutex() and the adapter's lock held.
  void take_leave() noexcept;

  std::unordered_map<std::uint32_t, IdHandle*> communications;  // by communication ID
  std::unordered_map<std::uint32_t, IdHandle*> listeners;       // by listener
  std::unordered_map<IdHandle*, wire::Gid> users;               // and their addresses

 private:
  template <typename Command>
  auto on_agent(Command&& command) {
    const std::lock_guard lock(adapter_->mutex());
    auto result = command(gsi().agent(), device::now());
    gsi().send();
    return result;
  }
  // With events_mutex() held.
  void poll() noexcept;
  void handle(const cm::Event& event) noexcept;
  void handle(const device::PortChange& change) noexcept;
  void handle_request(const cm::Event& event) noexcept;
  void await_farewells() noexcept;

  ibv_context* verbs_;
  ibv_pd* pd_;
  std::shared_ptr<device::Adapter> adapter_;
};

/// The devices of this process, opened at first use; they stay open as long as their interfaces
/// stay. Empty when there are none.
[[nodiscard]] std::vector<CmDevice*> cm_devices();
/// Opens those that have come, and leaves out those that have gone.
void refresh_cm_devices();
/// The device that has this address; null when none does.
[[nodiscard]] CmDevice* cm_device_with(const wire::Gid& address);
/// The device that has this address, or that stands in for the loopback address; null when none
/// does.
[[nodiscard]] CmDevice* cm_device_of(const IpEndpoint& endpoint);

}  // namespace verbatim::abi

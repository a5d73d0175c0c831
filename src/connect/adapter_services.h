// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "connect/general_services.h"
#include "connect/services.h"
#include "device/adapter.h"

namespace verbatim::connect {

/// The services of an adapter of this process, with the adapter's lock.
class AdapterServices final : public Services {
 public:
  explicit AdapterServices(std::shared_ptr<device::Adapter> adapter) noexcept;

  [[nodiscard]] device::PortInfo port() const override { return adapter_->port(); }
  [[nodiscard]] bool is_removed() const noexcept override { return adapter_->is_removed(); }
  [[nodiscard]] Instant now() const noexcept override;
  void set_reader(Device* reader) noexcept override;

  void lock() noexcept VB_ACQUIRE(adapter_role) VB_UNCHECKED_LOCKING override {
    adapter_->mutex().lock();
  }
  [[nodiscard]] bool try_lock() noexcept
      VB_TRY_ACQUIRE(true, adapter_role) VB_UNCHECKED_LOCKING override {
    return adapter_->mutex().try_lock();
  }
  void unlock() noexcept VB_RELEASE(adapter_role) VB_UNCHECKED_LOCKING override {
    adapter_->mutex().unlock();
  }

  [[nodiscard]] cm::Agent& agent() noexcept VB_REQUIRES(adapter_role) override {
    return general_.agent();
  }
  void send() noexcept VB_REQUIRES(adapter_role) override { general_.send(); }
  [[nodiscard]] std::optional<device::PortChange> poll_port_change() noexcept
      VB_REQUIRES(adapter_role) override {
    return general_.poll_port_change();
  }
  [[nodiscard]] Status claim(const wire::Gid& address, wire::ServiceId service)
      VB_REQUIRES(adapter_role) override {
    return general_.claim(address, service);
  }
  void release(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) override {
    general_.release(address, service);
  }
  void attract(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) override {
    general_.attract(address, service);
  }
  [[nodiscard]] bool has_queue_pair(wire::QpNumber number) const noexcept
      VB_REQUIRES(adapter_role) override {
    return adapter_->queue_pairs().find(number) != nullptr;
  }
  [[nodiscard]] Expected<wire::Gid, Error> find_node(std::uint32_t address) override;
  [[nodiscard]] Outcome reach_subnet() override { return general_.reach_subnet(); }
  [[nodiscard]] Expected<SubnetToken> ask_subnet(
      std::span<const std::byte, wire::Mad::kSize> octets, Duration patience)
      VB_REQUIRES(adapter_role) override {
    return general_.ask_subnet(octets, patience);
  }
  [[nodiscard]] std::optional<SubnetAnswer> poll_subnet_answer() noexcept
      VB_REQUIRES(adapter_role) override {
    return general_.poll_subnet_answer();
  }
  void progress() noexcept VB_REQUIRES(adapter_role) override { (void)adapter_->work().run(now()); }
  void leave() noexcept VB_REQUIRES(adapter_role) override { general_.leave(); }

 private:
  std::shared_ptr<device::Adapter> adapter_;
  GeneralServices& general_;  // of the adapter
};

}  // namespace verbatim::connect

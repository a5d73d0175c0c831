// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "device/network.h"
#include "host/fabric_data_port.h"
#include "ib/ib_link.h"

namespace verbatim::device {

/// The port of a node of a fabric. The processes of a node are a host: they have a directory of
/// their own for slots and peers.
class FabricNetwork final : public Network {
 public:
  FabricNetwork() : link_(data_) {}

  [[nodiscard]] Expected<host::Slot> open(const PortInfo& port, const LinkConfig& config,
                                          std::string& message) override;
  void leave() noexcept override { data_.close(); }
  [[nodiscard]] Mutex& fork_mutex() noexcept override { return fork_mutex_; }
  void abandon_in_child() noexcept override { data_.abandon_in_child(); }
  void forget_in_child() noexcept override { data_.abandon_in_child(); }

  [[nodiscard]] link::Link& link() noexcept override { return link_; }
  [[nodiscard]] std::size_t receive_buffer_octets() const noexcept override {
    return host::FabricDataArea::kRingOctets;
  }
  [[nodiscard]] Expected<transport::Path> path_to(const PortInfo& port,
                                                  const Destination& to) const noexcept override;
  [[nodiscard]] bool has_address(const wire::Gid& address) const noexcept override;
  /// The fabric brings every packet of a group that reaches the port; the adapter chooses.
  [[nodiscard]] Status join(const PortInfo&, const wire::Gid&) noexcept override { return Ok{}; }
  void leave(const PortInfo&, const wire::Gid&) noexcept override {}
  /// The link is held where a receiver is slow.
  [[nodiscard]] std::size_t room_at(const link::Backpressure::Receiver&, Instant) override {
    return link::Backpressure::kUnlimited;
  }

  void report(transport::KeyViolation violation,
              const transport::Arrival& arrival) noexcept override;

  [[nodiscard]] std::optional<uid_t> lender_at(const wire::Gid&) const noexcept override {
    return std::nullopt;
  }
  [[nodiscard]] link::SharedPort::SlotUser user_of(const PortInfo&, const wire::Gid&,
                                                   std::uint32_t) noexcept override {
    return link::SharedPort::SlotUser::kThisUser;
  }
  /// Tells the fabric which services are those of this process, where that has changed.
  void steer(const wire::Gid& local, std::span<const link::ServiceRoute> routes,
             std::uint32_t fallback) noexcept override;
  [[nodiscard]] std::uint16_t source_port(const wire::Gid&, std::uint16_t) const noexcept override {
    return 0;
  }

  [[nodiscard]] Status add_address(host::AdapterLock&, const PortInfo&, std::uint32_t,
                                   const wire::Gid&) override {
    return Ok{};  // the fabric has given it
  }
  [[nodiscard]] int notices() const noexcept override { return data_.connection(); }
  [[nodiscard]] std::optional<PortInfo> take_notice(const PortInfo& port) noexcept override;

 private:
  void remember(const PortInfo& port);

  host::FabricDataPort data_;
  link::IbLink link_;
  std::vector<wire::Gid> gids_;          // of the port
  std::uint32_t slot_ = 0;               // of this process
  std::vector<std::uint32_t> services_;  // that the fabric knows as those of this process
  Mutex fork_mutex_;                     // forks need no lock of this object
};

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/clock.h"
#include "device/port_info.h"
#include "udp/shared_port.h"
#include "udp/udp_link.h"
#include "wire/headers/ids.h"

namespace verbatim::tools {

/// Identifies a probe: the check that it belongs to, and its number in it.
struct ProbeName {
  std::uint64_t nonce = 0;
  std::uint32_t sequence = 0;
  friend auto operator<=>(const ProbeName&, const ProbeName&) = default;
};

/// A probe that arrived, with everything that can be seen of it.
struct SeenProbe {
  ProbeName name{};
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;
  std::size_t octets = 0;                    // BTH to ICRC
  bool icrc_holds = false;                   // with the addresses and ports as they arrived
  std::uint16_t covered_identification = 0;  // the identification that the ICRC was computed with
};

/// Sends and receives probes: UD SENDs to a number that no queue pair has, on port 4791 in the same
/// way as programs, also while programs run.
class ProbeLink {
 public:
  /// On failure `message` says why.
  [[nodiscard]] Status open(const std::vector<device::PortInfo>& ports, std::string& message);
  /// The queue pair number to which others send probes.
  [[nodiscard]] wire::QpNumber number() const noexcept { return number_; }
  /// The device that has the address; null when none has.
  [[nodiscard]] const device::PortInfo* device_of(const wire::Gid& address) const noexcept;

  struct Order {
    ProbeName name{};
    wire::Gid from{};
    wire::Gid to{};
    wire::QpNumber dest_qp{};
    std::size_t payload_octets = 64;
  };
  void put(const Order& order);
  void flush() noexcept { link_.flush(device::now()); }
  [[nodiscard]] std::uint16_t source_port(const wire::Gid& from) const noexcept {
    return link_.source_port(from, 0);
  }

  /// The probes that have arrived; waits at most so long for the first one.
  [[nodiscard]] std::vector<SeenProbe> take(int patience_ms);
  [[nodiscard]] std::span<const int> descriptors() const noexcept { return link_.descriptors(); }

 private:
  std::vector<device::PortInfo> ports_;
  link::SharedPort shared_;
  std::optional<host::Slot> slot_;
  link::UdpLink link_;
  wire::QpNumber number_{};
};

/// Reads the IPv4 identifications of probes as they arrive on the wire. Needs CAP_NET_RAW; without
/// it there are none.
class IdentificationWatch {
 public:
  IdentificationWatch() noexcept;
  IdentificationWatch(const IdentificationWatch&) = delete;
  IdentificationWatch& operator=(const IdentificationWatch&) = delete;
  ~IdentificationWatch();

  [[nodiscard]] bool sees() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Adds those that have arrived since the last call.
  void take(std::map<ProbeName, std::uint16_t>& identifications);

 private:
  int descriptor_ = -1;
};

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "device/interface_list.h"
#include "link/fault_rules.h"
#include "udp/udp_link.h"

namespace verbatim::device {

/// The settings of the environment. Every variable starts with VERBATIM_. A variable with an
/// invalid value is refused by name, and then there is no device.
struct Config {
  struct Wanted {
    std::string interface;  // as `ip link` names it
    std::string name;       // of the device; empty: the next of vb0, vb1, ...
  };
  std::vector<Wanted> devices;  // VERBATIM_DEVICES=eth0,lo=vb9; empty: all that are fit
};

/// The data path between processes of one user on one host.
enum class DataPathPolicy : std::uint8_t {
  kAutomatic,  // directly, where both ends allow it
  kDirect,     // direct, or the connection fails
  kPackets,
};

/// The cause of a data path policy.
enum class DataPathCause : std::uint8_t {
  kNothing,   // it is the default
  kVariable,  // VERBATIM_PATH
  kFaults,    // VERBATIM_FAULTS, which concern packets
  kCapture,   // VERBATIM_CAPTURE, likewise
};

/// The settings of the environment for the link of a device.
struct LinkConfig {
  link::UdpLink::Trains trains = link::UdpLink::Trains::kYes;  // VERBATIM_GSO=0: no
  DataPathPolicy path = DataPathPolicy::kAutomatic;            // VERBATIM_PATH
  DataPathCause path_cause = DataPathCause::kNothing;
  bool has_peer_calls = true;  // VERBATIM_CMA=0: no memory is lent or borrowed
  bool gives_way = true;       // VERBATIM_YIELD=0: threads that poll keep their processors
  bool lends_sockets = true;   // VERBATIM_LEND=0: not to other users (docs/decisions/0025)
  link::FaultRules faults{};   // VERBATIM_FAULTS; without rules: none
  std::string capture;         // VERBATIM_CAPTURE, a file's name; empty: none
};

/// Reads the value of VERBATIM_DEVICES: a comma list of interface or interface=name. An interface
/// is one of `known` that is fit to be a device; no interface and no name may appear twice.
[[nodiscard]] Expected<Config> parse_devices(std::string_view value,
                                             const std::vector<Interface>& known,
                                             std::string& message);

/// Reads the environment. On failure `message` says which variable is wrong, why, and which values
/// it takes.
[[nodiscard]] Expected<Config> read_config(std::string& message);
[[nodiscard]] Expected<LinkConfig> read_link_config(std::string& message);

}  // namespace verbatim::device

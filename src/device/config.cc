// SPDX-License-Identifier: Apache-2.0
#include "device/config.h"

#include <algorithm>

#include "base/environment.h"
#include "device/port_info.h"

namespace verbatim::device {

namespace {

constexpr const char* kVariable = "VERBATIM_DEVICES";
constexpr std::size_t kDeviceNameMax = 63;  // struct ibv_device has room for 64, with the zero

/// Writes what is wrong with the variable and which values it takes.
Errc refuse(std::string& message, const std::string& why) {
  message = std::string(kVariable) + ": " + why +
            "; it takes a comma list of interface or interface=name, as in eth0,lo=vb9";
  return Errc::kInvalidArgument;
}

bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// A device name becomes the name of a folder and a word in many tools' output.
bool is_device_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > kDeviceNameMax || !is_letter_or_digit(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.';
  });
}

std::string environment(const char* variable) {
  const char* value = environment_variable(variable);
  return value != nullptr ? value : "";
}

std::string names_of_fit(const std::vector<Interface>& known) {
  std::string names;
  for (const Interface& interface : known) {
    if (!has_usable_address(interface)) continue;
    names += (names.empty() ? "" : ", ") + interface.name;
  }
  return names.empty() ? "none" : names;
}

/// Why `wanted` cannot follow the devices `before`; empty if it can.
std::string objection(const Config::Wanted& wanted, const std::vector<Config::Wanted>& before,
                      const std::vector<Interface>& known) {
  const auto found = std::find_if(known.begin(), known.end(), [&](const Interface& interface) {
    return interface.name == wanted.interface;
  });
  if (found == known.end()) {
    return "there is no interface '" + wanted.interface + "' (usable: " + names_of_fit(known) + ")";
  }
  if (!has_usable_address(*found)) {
    return "interface '" + wanted.interface +
           "' has no IP address (usable: " + names_of_fit(known) + ")";
  }
  for (const Config::Wanted& other : before) {
    if (other.interface == wanted.interface) {
      return "interface '" + wanted.interface + "' is named twice";
    }
    if (!wanted.name.empty() && other.name == wanted.name) {
      return "the name '" + wanted.name + "' is given twice";
    }
  }
  return {};
}

}  // namespace

Expected<Config> parse_devices(std::string_view value, const std::vector<Interface>& known,
                               std::string& message) {
  Config config;
  if (value.empty()) return config;
  if (known.empty()) {
    message = kNoList;
    return Errc::kInvalidArgument;
  }
  while (true) {
    const std::string_view item = value.substr(0, value.find(','));
    const std::size_t equals = item.find('=');
    Config::Wanted wanted{.interface = std::string(item.substr(0, equals)), .name = {}};
    if (wanted.interface.empty()) {
      return refuse(message, "an interface is missing in '" + std::string(item) + "'");
    }
    if (equals != std::string_view::npos) {
      wanted.name = std::string(item.substr(equals + 1));
      if (!is_device_name(wanted.name)) {
        return refuse(message, "'" + wanted.name + "' is no device name (letters, digits, '_', " +
                                   "'-', '.', at most " + std::to_string(kDeviceNameMax) +
                                   ", a letter or digit first)");
      }
    }
    const std::string why = objection(wanted, config.devices, known);
    if (!why.empty()) return refuse(message, why);
    config.devices.push_back(std::move(wanted));
    if (item.size() == value.size()) return config;
    value.remove_prefix(item.size() + 1);
  }
}

Expected<Config> read_config(std::string& message) {
  const std::string devices = environment(kVariable);
  if (devices.empty()) return Config{};
  return parse_devices(devices, read_interfaces(), message);
}

Expected<LinkConfig> read_link_config(std::string& message) {
  LinkConfig config;
  const std::string gso = environment("VERBATIM_GSO");
  if (!gso.empty() && gso != "0" && gso != "1") {
    message = "VERBATIM_GSO: '" + gso + "' is neither 1 (packets leave in trains) nor 0 (alone)";
    return Errc::kInvalidArgument;
  }
  if (gso == "0") config.trains = link::UdpLink::Trains::kNo;
  auto faults = link::parse_fault_rules(environment("VERBATIM_FAULTS"), message);
  if (!faults) {
    message = "VERBATIM_FAULTS, " + message;
    return faults.error();
  }
  config.faults = std::move(*faults);
  config.capture = environment("VERBATIM_CAPTURE");
  const std::string path = environment("VERBATIM_PATH");
  if (path == "direct") {
    config.path = DataPathPolicy::kDirect;
  } else if (path == "packet") {
    config.path = DataPathPolicy::kPackets;
  } else if (!path.empty() && path != "auto") {
    message = "VERBATIM_PATH: '" + path +
              "' is none of auto (directly where both ends are on one host), packet (never " +
              "directly), direct (or not at all)";
    return Errc::kInvalidArgument;
  }
  const std::string rehome = environment("VERBATIM_REHOME");
  if (!rehome.empty() && rehome != "auto" && rehome != "0" && rehome != "1") {
    message =
        "VERBATIM_REHOME: '" + rehome +
        "' is none of auto (registered memory moves to where peers of this host can map it, " +
        "where that is worth it), 0 (it stays where it is), 1 (it moves wherever it can)";
    return Errc::kInvalidArgument;
  }
  const std::string calls = environment("VERBATIM_CMA");
  if (!calls.empty() && calls != "0" && calls != "1") {
    message =
        "VERBATIM_CMA: '" + calls +
        "' is neither 1 (peers of this host may copy registered memory by system calls) nor 0 " +
        "(each process copies its own memory)";
    return Errc::kInvalidArgument;
  }
  config.has_peer_calls = calls != "0";
  const std::string yield = environment("VERBATIM_YIELD");
  if (!yield.empty() && yield != "0" && yield != "1") {
    message =
        "VERBATIM_YIELD: '" + yield +
        "' is neither 1 (a thread that polls in vain lets other threads have the processor) " +
        "nor 0 (it keeps the processor)";
    return Errc::kInvalidArgument;
  }
  config.gives_way = yield != "0";
  const std::string lend = environment("VERBATIM_LEND");
  if (!lend.empty() && lend != "0" && lend != "1") {
    message = "VERBATIM_LEND: '" + lend +
              "' is neither 1 (other users may use the addresses where this user has UDP port " +
              "4791) nor 0 (they are refused)";
    return Errc::kInvalidArgument;
  }
  config.lends_sockets = lend != "0";
  // Faults and captures concern packets, so a user that asks for them gets the packet path.
  if (!path.empty()) {
    config.path_cause = DataPathCause::kVariable;
  } else if (!config.faults.rules.empty()) {
    config.path_cause = DataPathCause::kFaults;
  } else if (!config.capture.empty()) {
    config.path_cause = DataPathCause::kCapture;
  }
  if (path.empty() && config.path_cause != DataPathCause::kNothing)
    config.path = DataPathPolicy::kPackets;
  return config;
}

}  // namespace verbatim::device

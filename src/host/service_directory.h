// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "host/service_name.h"

namespace verbatim::host {

/// A service, and the slot of the process that handles requests for it.
struct ServicePlace {
  std::uint64_t service = 0;
  std::uint32_t slot = 0;
  friend bool operator==(const ServicePlace&, const ServicePlace&) noexcept = default;
};

/// Which processes listen at one address, and which slots have a process. The names of sockets in
/// the RuntimeDirectory show it (`at-<address>-<service>-<slot>` and `<slot>`), and all processes
/// of this user on this host can read them. Other users can put no names there. A name that a
/// killed process has left does not count.
struct ServiceDirectory {
  std::vector<ServicePlace> services;
  std::vector<std::uint32_t> slots;
  friend bool operator==(const ServiceDirectory&, const ServiceDirectory&) noexcept = default;

  /// Reads the directory to which a UNIX socket belongs. Nothing when the directory cannot be read,
  /// because the process has changed its user since.
  [[nodiscard]] static std::optional<ServiceDirectory> read(
      int through, const std::array<std::uint8_t, 16>& address);
  /// Adds the information of one name, if it names a slot or a service of this address; else
  /// returns false.
  bool add(std::string_view name, const std::array<std::uint8_t, 16>& address);
};

}  // namespace verbatim::host

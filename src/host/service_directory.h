// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "host/service_name.h"

namespace verbatim::host {

/// A service, and the slot of the process that takes requests for it.
struct ServicePlace {
  std::uint64_t service = 0;
  std::uint32_t slot = 0;
  friend bool operator==(const ServicePlace&, const ServicePlace&) noexcept = default;
};

/// Which processes listen at one address, and which slots have a process, as all processes of this
/// user on this host can see: the names of their sockets in the RuntimeDirectory say so
/// (`at-<address>-<service>-<slot>` and `<slot>`). Other users can put no names there. A name that
/// a killed process has left behind does not count.
struct ServiceDirectory {
  std::vector<ServicePlace> services;
  std::vector<std::uint32_t> slots;
  friend bool operator==(const ServiceDirectory&, const ServiceDirectory&) noexcept = default;

  /// As seen through a UNIX socket, which says where the names are. Nothing when the directory
  /// cannot be read: the process has given up its user since.
  [[nodiscard]] static std::optional<ServiceDirectory> read(
      int through, const std::array<std::uint8_t, 16>& address);
  /// Adds what one name says, if it is about a slot or this address; false when it is not.
  bool add(std::string_view name, const std::array<std::uint8_t, 16>& address);
};

}  // namespace verbatim::host

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

/// Who listens at one address, and which slots have a process, as all processes of this user on
/// this host can see: the names of their sockets say so (`@verbatim/<uid>/at/<address>/<service>/
/// <slot>`), and the kernel lists them. Empty where it does not.
struct ServiceDirectory {
  std::vector<ServicePlace> services;
  std::vector<std::uint32_t> slots;
  friend bool operator==(const ServiceDirectory&, const ServiceDirectory&) noexcept = default;

  [[nodiscard]] static ServiceDirectory read(const std::array<std::uint8_t, 16>& address);
  /// Adds what one name of the kernel's list says, if it is about this user and address.
  void add(std::string_view name, const std::array<std::uint8_t, 16>& address);
};

}  // namespace verbatim::host

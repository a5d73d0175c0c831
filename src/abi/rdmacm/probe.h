// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "abi/rdmacm/address.h"

namespace verbatim::abi {

/// A UDP socket that is asked for routes.
class Probe {
 public:
  explicit Probe(bool is_ipv4) noexcept;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe();  // errno stays

  [[nodiscard]] bool bind(IpEndpoint to) noexcept;
  [[nodiscard]] bool connect(IpEndpoint to) noexcept;
  /// Makes the system look for the neighbour: an empty datagram, which says nothing.
  void knock() noexcept;
  [[nodiscard]] std::optional<IpEndpoint> name() noexcept;

 private:
  template <typename Call>
  [[nodiscard]] bool apply(Call call, const IpEndpoint& to) noexcept;

  int descriptor_;
};

}  // namespace verbatim::abi

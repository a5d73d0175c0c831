// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/interface_list.h"

/// Interfaces that this machine need not have. Nothing but tests includes this.
namespace verbatim::device::test {

inline wire::Gid ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
}

/// 2001:db8::last
inline wire::Gid ipv6(std::uint8_t last) {
  return {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

inline Interface interface_without_address(const std::string& name, std::uint32_t index) {
  Interface result;
  result.name = name;
  result.index = index;
  result.is_up = true;
  result.is_running = true;
  result.mac = {0x52, 0x54, 0x00, 0x12, 0x34, static_cast<std::uint8_t>(index)};
  return result;
}

/// With the address 192.0.2.host.
inline Interface interface(const std::string& name, std::uint32_t index, std::uint8_t host) {
  Interface result = interface_without_address(name, index);
  result.ipv4 = {ipv4(192, 0, 2, host)};
  return result;
}

inline Interface loopback() {
  Interface result = interface_without_address("lo", 1);
  result.is_loopback = true;
  result.mtu = 65536;
  result.mac.reset();
  result.ipv4 = {ipv4(127, 0, 0, 1)};
  result.ipv6 = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}};
  return result;
}

}  // namespace verbatim::device::test

// SPDX-License-Identifier: Apache-2.0
#include "host/service_name.h"

#include <cstdio>

namespace verbatim::host {

namespace {

std::string text_of(const char* kind, const Service& service) {
  char id[17];
  std::snprintf(id, sizeof id, "%llx", static_cast<unsigned long long>(service.id));
  return std::string(kind) + "-" + digits_of(service.address) + "-" + id;
}

}  // namespace

std::string digits_of(const std::array<std::uint8_t, 16>& address) {
  std::string digits;
  for (const std::uint8_t octet : address) {
    constexpr char kDigits[] = "0123456789abcdef";
    digits += kDigits[octet >> 4];
    digits += kDigits[octet & 0xf];
  }
  return digits;
}

Expected<ServiceName> ServiceName::claim(const Service& service, int named_socket) noexcept {
  return take(text_of("cm", service), named_socket);
}

Expected<ServiceName> ServiceName::advertise(const Service& service, std::uint32_t slot,
                                             int named_socket) noexcept {
  return take(text_of("at", service) + "-" + std::to_string(slot), named_socket);
}

Expected<ServiceName> ServiceName::take(const std::string& text, int named_socket) noexcept {
  auto mailbox = Mailbox::open(UnixName::in_directory(text), named_socket);
  if (!mailbox) return mailbox.error();
  ServiceName held;
  held.mailbox_ = std::move(*mailbox);
  return held;
}

Status ServiceName::forward(int through, const Service& to,
                            std::span<const std::byte> octets) noexcept {
  return Mailbox::send(through, UnixName::in_directory(text_of("cm", to)), octets);
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/service_directory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>

#include "host/slot.h"

namespace verbatim::host {

namespace {

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base) noexcept {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, value, base);
  if (failed != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

std::string own_prefix() { return "@verbatim/" + std::to_string(::geteuid()) + "/"; }

}  // namespace

void ServiceDirectory::add(std::string_view name, const std::array<std::uint8_t, 16>& address) {
  const std::string prefix = own_prefix();
  if (name.substr(0, prefix.size()) != prefix) return;
  name.remove_prefix(prefix.size());
  if (const auto slot = number_in<std::uint32_t>(name, 10); slot && *slot < kSlotCount) {
    slots.push_back(*slot);
    return;
  }
  const std::string place = "at/" + digits_of(address) + "/";
  if (name.substr(0, place.size()) != place) return;
  name.remove_prefix(place.size());
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return;
  const auto service = number_in<std::uint64_t>(name.substr(0, slash), 16);
  const auto slot = number_in<std::uint32_t>(name.substr(slash + 1), 10);
  if (service && slot && *slot < kSlotCount) {
    services.push_back({.service = *service, .slot = *slot});
  }
}

ServiceDirectory ServiceDirectory::read(const std::array<std::uint8_t, 16>& address) {
  ServiceDirectory directory;
  std::FILE* list = std::fopen("/proc/net/unix", "re");
  if (list == nullptr) return directory;
  char line[512];
  while (std::fgets(line, sizeof line, list) != nullptr) {
    const std::string_view text(line);
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos) continue;
    directory.add(text.substr(at, text.find_last_not_of("\n") + 1 - at), address);
  }
  std::fclose(list);
  // In one order, whatever the kernel's is: so that two readings can be compared.
  std::ranges::sort(directory.slots);
  std::ranges::sort(directory.services, [](const ServicePlace& a, const ServicePlace& b) {
    return a.service != b.service ? a.service < b.service : a.slot < b.slot;
  });
  return directory;
}

}  // namespace verbatim::host

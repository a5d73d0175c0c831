// SPDX-License-Identifier: Apache-2.0
#include "host/service_directory.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string>

#include "host/runtime_directory.h"
#include "host/slot.h"
#include "host/unix_name.h"

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

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

}  // namespace

bool ServiceDirectory::add(std::string_view name, const std::array<std::uint8_t, 16>& address) {
  if (const auto slot = number_in<std::uint32_t>(name, 10); slot && *slot < kSlotCount) {
    slots.push_back(*slot);
    return true;
  }
  const std::string place = "at-" + digits_of(address) + "-";
  if (name.substr(0, place.size()) != place) return false;
  name.remove_prefix(place.size());
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return false;
  const auto service = number_in<std::uint64_t>(name.substr(0, dash), 16);
  const auto slot = number_in<std::uint32_t>(name.substr(dash + 1), 10);
  if (!service || !slot || *slot >= kSlotCount) return false;
  services.push_back({.service = *service, .slot = *slot});
  return true;
}

std::optional<ServiceDirectory> ServiceDirectory::read(
    int through, const std::array<std::uint8_t, 16>& address) {
  const RuntimeDirectory* names = RuntimeDirectory::of(through);
  const std::unique_ptr<DIR, CloseFolder> folder(names != nullptr ? ::opendir(names->path().c_str())
                                                                  : nullptr);
  if (!folder && names != nullptr && errno == ENOENT) return ServiceDirectory{};
  if (!folder) return std::nullopt;
  ServiceDirectory directory;
  while (const dirent* entry = ::readdir(folder.get())) {
    ServiceDirectory said;
    if (!said.add(entry->d_name, address)) continue;
    if (!UnixName::in_directory(entry->d_name).is_held_beside(through)) continue;
    directory.slots.insert(directory.slots.end(), said.slots.begin(), said.slots.end());
    directory.services.insert(directory.services.end(), said.services.begin(), said.services.end());
  }
  // Sorted, so that two results can be compared; the order of the kernel varies.
  std::ranges::sort(directory.slots);
  std::ranges::sort(directory.services, [](const ServicePlace& a, const ServicePlace& b) {
    return a.service != b.service ? a.service < b.service : a.slot < b.slot;
  });
  return directory;
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ioctl.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/pointer.h"
#include "rehome/line_reader.h"
#include "rehome/mapping.h"
#include "rehome/maps_file.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

/// An ioctl(2) on /proc/self/maps of Linux 6.11 and later, PROCMAP_QUERY of <linux/fs.h>, which
/// older headers lack.
struct MappingQuery {
  static constexpr unsigned long kRequest = 0xc068'6611;  // _IOWR('f', 17, 104 octets)
  static constexpr std::uint64_t kReadable = 0x01;
  static constexpr std::uint64_t kWritable = 0x02;
  static constexpr std::uint64_t kExecutable = 0x04;
  static constexpr std::uint64_t kShared = 0x08;
  static constexpr std::uint64_t kThisOrNext = 0x10;

  std::uint64_t size = 104;
  std::uint64_t flags = kThisOrNext;  // of the query
  std::uint64_t address = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t permissions = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t name_size = 0;  // room for the name, then its octets with the final zero
  std::uint32_t build_id_size = 0;
  std::uint64_t name = 0;  // address of the room for the name
  std::uint64_t build_id = 0;

  [[nodiscard]] Mapping answer(const char* text) const noexcept {
    return {.range = {.begin = begin, .end = end},
            .readable = (permissions & kReadable) != 0,
            .writable = (permissions & kWritable) != 0,
            .executable = (permissions & kExecutable) != 0,
            .shared = (permissions & kShared) != 0,
            .offset = offset,
            .major = major,
            .minor = minor,
            .inode = inode,
            .name = {text, name_size > 0 ? name_size - 1 : 0}};
  }
};
static_assert(sizeof(MappingQuery) == 104);

/// The result of an ioctl(2) that the kernel does not know, or that an emulator or a filter of
/// system calls refuses.
[[nodiscard]] constexpr bool is_unknown_request(long answer) noexcept {
  return answer == -ENOTTY || answer == -ENOSYS || answer == -EPERM;
}

/// Queries one mapping after the other; -ENOTTY where the kernel does not know the query.
template <typename Visit>
long query_mappings(std::uintptr_t from, Visit&& visit) noexcept {
  const int kept = MapsFile::of_process().descriptor();
  const kernel::Descriptor opened(kept >= 0 ? -EBADF
                                            : kernel::open_file("/proc/self/maps", O_RDONLY));
  if (kept < 0 && !opened.is_open()) return opened.answer();
  const int file = kept >= 0 ? kept : opened.number();
  std::array<char, 4096> name;
  for (;;) {
    MappingQuery query{
        .address = from, .name_size = name.size(), .name = numeric_address(name.data())};
    const long answer = kernel::call(SYS_ioctl, file, MappingQuery::kRequest, &query);
    if (answer == -ENOENT) return 0;  // there are no more
    if (answer != 0) return is_unknown_request(answer) ? -ENOTTY : answer;
    if (!visit(query.answer(name.data()))) return 0;
    from = query.end;
  }
}

/// The same from the text of /proc/self/maps, which always begins with the first mapping.
template <typename Visit>
long read_mappings(std::uintptr_t from, Visit&& visit) noexcept {
  return for_each_line("/proc/self/maps", [&](std::string_view line) {
    const auto mapping = parse_mapping(line);
    return !mapping || mapping->range.end <= from || visit(*mapping);
  });
}

/// Calls `visit(mapping)` for each mapping of the process that ends after `from`, in order, until
/// it returns false. Allocates nothing. Returns 0, or a negative errno value.
template <typename Visit>
long for_each_mapping(std::uintptr_t from, Visit&& visit) noexcept {
  const long answer = query_mappings(from, visit);
  return answer == -ENOTTY ? read_mappings(from, visit) : answer;
}

}  // namespace verbatim::rehome

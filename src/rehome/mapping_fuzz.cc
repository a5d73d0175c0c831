// SPDX-License-Identifier: Apache-2.0
// Any text as a line of /proc/self/maps: it is refused, or gives a valid range and a name inside
// the line.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.h"
#include "rehome/mapping.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string line(size, '\0');
  for (std::size_t i = 0; i < size; ++i) line[i] = static_cast<char>(data[i]);
  const auto mapping = verbatim::rehome::parse_mapping(line);
  if (!mapping) return 0;
  VB_ASSERT(!mapping->range.empty());
  VB_ASSERT(mapping->name.size() < line.size() && line.ends_with(mapping->name));
  VB_ASSERT(!mapping->is_private_anonymous() || (!mapping->shared && mapping->inode == 0));
  VB_ASSERT(!(mapping->is_private_anonymous() && mapping->is_stack()));
  return 0;
}

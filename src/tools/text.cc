// SPDX-License-Identifier: Apache-2.0
#include "tools/text.h"

#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace verbatim::tools {

using device::DataPathCause;
using device::DataPathPolicy;

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

std::string text_of(const wire::Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_ipv4 = gid.is_ipv4_mapped();
  (void)::inet_ntop(is_ipv4 ? AF_INET : AF_INET6, gid.octets.data() + (is_ipv4 ? 12 : 0),
                    text.data(), text.size());
  return text.data();
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

const char* name_of(DataPathPolicy path) noexcept {
  switch (path) {
    case DataPathPolicy::kAutomatic:
      return "auto";
    case DataPathPolicy::kDirect:
      return "direct";
    case DataPathPolicy::kPackets:
      return "packet";
  }
  return "?";
}

const char* name_of(DataPathCause cause) noexcept {
  switch (cause) {
    case DataPathCause::kNothing:
      return "default";
    case DataPathCause::kVariable:
      return "VERBATIM_PATH";
    case DataPathCause::kFaults:
      return "VERBATIM_FAULTS";
    case DataPathCause::kCapture:
      return "VERBATIM_CAPTURE";
  }
  return "?";
}

const char* sentence_of(DataPathPolicy path, DataPathCause cause) noexcept {
  switch (path) {
    case DataPathPolicy::kAutomatic:
      return "direct where both ends allow it (RC and UC), else packets";
    case DataPathPolicy::kDirect:
      return "direct or not at all (VERBATIM_PATH=direct)";
    case DataPathPolicy::kPackets:
      break;
  }
  if (path != DataPathPolicy::kPackets) return "?";
  switch (cause) {
    case DataPathCause::kNothing:
      return "packets";
    case DataPathCause::kVariable:
      return "packets (VERBATIM_PATH=packet)";
    case DataPathCause::kFaults:
      return "packets (VERBATIM_FAULTS is set, and faults are of packets; VERBATIM_PATH=auto for "
             "direct)";
    case DataPathCause::kCapture:
      return "packets (VERBATIM_CAPTURE is set, and captures are of packets; VERBATIM_PATH=auto "
             "for direct)";
  }
  return "?";
}

}  // namespace verbatim::tools

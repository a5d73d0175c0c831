// SPDX-License-Identifier: Apache-2.0
#include "tools/text.h"

#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace verbatim::tools {

using device::PathCause;
using device::PathPolicy;

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

const char* name_of(PathPolicy path) noexcept {
  switch (path) {
    case PathPolicy::kAutomatic:
      return "auto";
    case PathPolicy::kDirect:
      return "direct";
    case PathPolicy::kPackets:
      return "packet";
  }
  return "?";
}

const char* name_of(PathCause cause) noexcept {
  switch (cause) {
    case PathCause::kNothing:
      return "default";
    case PathCause::kVariable:
      return "VERBATIM_PATH";
    case PathCause::kFaults:
      return "VERBATIM_FAULTS";
    case PathCause::kCapture:
      return "VERBATIM_CAPTURE";
  }
  return "?";
}

const char* sentence_of(PathPolicy path, PathCause cause) noexcept {
  switch (path) {
    case PathPolicy::kAutomatic:
      return "direct where both ends allow it (RC and UC), else packets";
    case PathPolicy::kDirect:
      return "direct or not at all (VERBATIM_PATH=direct)";
    case PathPolicy::kPackets:
      break;
  }
  if (path != PathPolicy::kPackets) return "?";
  switch (cause) {
    case PathCause::kNothing:
      return "packets";
    case PathCause::kVariable:
      return "packets (VERBATIM_PATH=packet)";
    case PathCause::kFaults:
      return "packets (VERBATIM_FAULTS is set, and faults are of packets; VERBATIM_PATH=auto for "
             "direct)";
    case PathCause::kCapture:
      return "packets (VERBATIM_CAPTURE is set, and captures are of packets; VERBATIM_PATH=auto "
             "for direct)";
  }
  return "?";
}

}  // namespace verbatim::tools

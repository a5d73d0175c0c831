// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_names.h"

#include <array>
#include <cstdio>

namespace verbatim::tools {

const char* name_of(fabric::NodeKind kind) noexcept {
  return kind == fabric::NodeKind::kSwitch ? "switch" : "host";
}

const char* name_of(fabric::PacketKind kind) noexcept {
  return kind == fabric::PacketKind::kData ? "data" : "management";
}

const char* name_of(wire::PortState state) noexcept {
  switch (state) {
    case wire::PortState::kNoChange:
      break;
    case wire::PortState::kDown:
      return "Down";
    case wire::PortState::kInitialize:
      return "Init";
    case wire::PortState::kArmed:
      return "Armed";
    case wire::PortState::kActive:
      return "Active";
  }
  return "?";
}

const char* name_of(wire::PortPhysicalState state) noexcept {
  switch (state) {
    case wire::PortPhysicalState::kNoChange:
      break;
    case wire::PortPhysicalState::kSleep:
      return "Sleep";
    case wire::PortPhysicalState::kPolling:
      return "Polling";
    case wire::PortPhysicalState::kDisabled:
      return "Disabled";
    case wire::PortPhysicalState::kTraining:
      return "Training";
    case wire::PortPhysicalState::kLinkUp:
      return "LinkUp";
    case wire::PortPhysicalState::kErrorRecovery:
      return "Recovery";
  }
  return "?";
}

std::string hexadecimal(unsigned number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%04x", number);
  return text.data();
}

std::string text_of(wire::Guid guid) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%016llx", static_cast<unsigned long long>(guid));
  return text.data();
}

}  // namespace verbatim::tools

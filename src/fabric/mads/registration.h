// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "wire/headers/ids.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// The methods of a class that an agent claims. Bit 7 of a method is not part of its number here.
using MethodMask = std::bitset<128>;

/// Who segments and assembles the messages of an agent (IBA Vol 1, 13.6).
enum class RmppMode : std::uint8_t {
  kNone,  // the class has no RMPP, or the agent does not use it
  kPort,  // the MadPort: the agent sees whole messages
  kUser,  // the agent itself: it sees segments and acknowledgements
};

/// What a program asks for when it registers an agent. With class 0 the agent sends requests and
/// gets the answers, nothing else; so does one with an empty mask.
struct Registration {
  wire::QpNumber qpn = wire::QpNumber::kGsi;  // 0 or 1
  wire::MgmtClass mgmt_class{};
  std::uint8_t class_version = 0;
  std::array<std::uint8_t, 3> oui{};  // names the vendor of a class from 0x30 to 0x4f
  MethodMask methods{};               // requests that the agent alone gets
  RmppMode rmpp = RmppMode::kNone;
};

}  // namespace verbatim::fabric

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "host/descriptor.h"
#include "host/fabric_message.h"
#include "host/fabric_place.h"

namespace verbatim::host {

/// A connection that the process of a fabric has accepted.
struct FabricWelcome {
  std::uint32_t node = 0;  // its number in the fabric; not for commands
  Descriptor page;         // with the state of the node; likewise
  // For data: the area, the bell of this process, that of the fabric.
  std::array<Descriptor, 3> data{};
  Descriptor connection;
};

/// Writes the name of a node into a greeting; false, with a message, when it is too long to be one.
[[nodiscard]] bool name_node(FabricHello& hello, std::string_view node, std::string& message);

/// Connects to the process of a fabric, and waits until it has accepted or refused. On failure
/// `message` is a sentence for the user, with what to do.
[[nodiscard]] Expected<FabricWelcome> greet_fabric(const FabricPlace& place,
                                                   const FabricHello& hello, std::string& message);

/// Why the process of a fabric did not do what it should: kTimedOut, else it has ended.
[[nodiscard]] std::string silence_of(const FabricPlace& place, Errc error);

}  // namespace verbatim::host

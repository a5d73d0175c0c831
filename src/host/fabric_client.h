// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "host/descriptor.h"
#include "host/fabric_message.h"
#include "host/fabric_page.h"
#include "host/fabric_place.h"

namespace verbatim::host {

/// The program's side of connections to the process of a fabric (host/fabric_server.h is the
/// other).
///
/// Calls wait for that process, at most kFabricPatienceMs: a stopped one does not hang a program.
/// On failure `message` is a sentence for the user, with what to do. Any thread; a thread is not
/// cancelled in them.

struct NodeView {
  std::uint32_t node = 0;  // its number in the fabric
  FabricNodeState state;
};
/// The node as it is now. kNoDevice: the fabric has no such node.
[[nodiscard]] Expected<NodeView> look_at_node(const FabricPlace& place, std::string_view node,
                                              std::string& message);

/// A descriptor on which datagrams arrive, and to which they are written: see UserMadHeader. It
/// does not block. kInvalidArgument: the node has no such port.
[[nodiscard]] Expected<Descriptor> open_fabric_port(const FabricPlace& place, std::string_view node,
                                                    std::uint32_t port, std::string& message);

/// Registers or unregisters an agent at such a descriptor, also while other threads use it.
/// FabricReply::error is the answer of the fabric. kNoDevice: the fabric is gone. kTimedOut:
/// it is stopped.
[[nodiscard]] Expected<FabricReply> call_fabric(int port, const FabricCall& call);

/// Whether the fabric would take a datagram now, of which `message` has at least the first
/// kMadOctets or all octets; `header.octets` counts all of them and the header. The answer and the
/// errors are those of call_fabric().
[[nodiscard]] Expected<FabricReply> ask_fabric(int port, const UserMadHeader& header,
                                               std::span<const std::byte> message);

/// A connection for commands.
[[nodiscard]] Expected<Descriptor> open_fabric_commands(const FabricPlace& place,
                                                        std::string& message);
/// Sends a command and returns the answer. Waits as long as the fabric takes. `take` gets each part
/// of the answer when it arrives.
[[nodiscard]] Expected<std::string> command_fabric(
    int commands, std::string_view text, const std::function<void(std::string_view)>& take = {});

}  // namespace verbatim::host

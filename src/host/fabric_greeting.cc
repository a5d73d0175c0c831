// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_greeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "host/fabric_transfer.h"
#include "host/fabric_waiting.h"

namespace verbatim::host {
namespace {

Errc errc_of(int error) noexcept {
  switch (error) {
    case ENODEV:
      return Errc::kNoDevice;
    case EINVAL:
      return Errc::kInvalidArgument;
    case EADDRINUSE:
      return Errc::kAddressInUse;
    case ENOMEM:
      return Errc::kNoMemory;
    default:
      return Errc::kAccessDenied;
  }
}

}  // namespace

bool name_node(FabricHello& hello, std::string_view node, std::string& message) {
  if (node.size() >= hello.node.size()) {
    message = "'" + std::string(node) + "' is too long to be the name of a node";
    return false;
  }
  std::ranges::copy(node, hello.node.begin());
  return true;
}

std::string silence_of(const FabricPlace& place, Errc error) {
  return error == Errc::kTimedOut
             ? "fabric " + place.name() +
                   " does not answer; its process is stopped (SIGCONT continues it) or overloaded"
             : "fabric " + place.name() + " has ended; start it again with `verbatim fabric up`";
}

Expected<FabricWelcome> greet_fabric(const FabricPlace& place, const FabricHello& hello,
                                     std::string& message) {
  auto connected = place.connect(message);
  if (!connected) return connected.error();
  FabricWelcome welcome;
  welcome.connection = Descriptor(*connected);
  FabricAnswer answer;
  const Status sent = send_waiting(*connected, octets_of(hello), -1);
  // A fabric without room has answered already, and closed the connection.
  if (!sent && sent.error() != Errc::kNoDevice) {
    message = silence_of(place, sent.error());
    return sent.error();
  }
  auto arrived =
      receive_waiting(*connected, std::as_writable_bytes(std::span(&answer, 1)), kFabricPatienceMs);
  if (!arrived) {
    message = silence_of(place, arrived.error());
    return arrived.error();
  }
  if (arrived->octets != sizeof answer || answer.magic != FabricAnswer::kMagic) {
    message =
        "fabric " + place.name() +
        " is of another version of Verbatim; use the command and the libraries of one package";
    return Errc::kNotSupported;
  }
  if (answer.error != 0) {
    message.assign(answer.why.data(), ::strnlen(answer.why.data(), answer.why.size()));
    return errc_of(answer.error);
  }
  if (arrived->lacks_descriptors) {
    message = "this program has no descriptor left for fabric " + place.name() +
              "; close some, or raise `ulimit -n`";
    return Errc::kNoMemory;
  }
  welcome.node = answer.node;
  welcome.page = std::move(arrived->descriptor);
  welcome.data = std::move(arrived->other_descriptors);
  return welcome;
}

}  // namespace verbatim::host

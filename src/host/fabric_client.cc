// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_client.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/uncancelled.h"
#include "host/fabric_transfer.h"
#include "host/sealed_file.h"

namespace verbatim::host {
namespace {

constexpr int kForEver = -1;

/// Waits until one of the events is there; false when the time is over.
bool wait_for(int socket, short events, int patience_ms) noexcept {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::milliseconds(patience_ms);
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now()).count();
    if (patience_ms != kForEver && left <= 0) return false;
    pollfd watched{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&watched, 1, patience_ms == kForEver ? -1 : static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Sends a message as soon as the other side has room for it.
Status send_all(int socket, std::span<const std::byte> octets, int descriptor) noexcept {
  for (;;) {
    switch (send_parts(socket, octets, {}, descriptor)) {
      case Transfer::kDone:
        return Ok{};
      case Transfer::kRefused:
        return Errc::kNoMemory;
      case Transfer::kGone:
        return Errc::kNoDevice;
      case Transfer::kFull:
        if (!wait_for(socket, POLLOUT, kFabricPatienceMs)) return Errc::kTimedOut;
    }
  }
}

Expected<ArrivedMessage> receive_within(int socket, std::span<std::byte> room, int patience_ms) {
  for (;;) {
    bool is_gone = false;
    if (auto arrived = receive_message(socket, room, is_gone)) return std::move(*arrived);
    if (is_gone) return Errc::kNoDevice;
    if (!wait_for(socket, POLLIN, patience_ms)) return Errc::kTimedOut;
  }
}

/// A connection that the fabric has accepted.
struct Accepted {
  std::uint32_t node = 0;
  Descriptor page;
  Descriptor connection;
};

Errc errc_of(int error) noexcept {
  switch (error) {
    case ENODEV:
      return Errc::kNoDevice;
    case EINVAL:
      return Errc::kInvalidArgument;
    default:
      return Errc::kAccessDenied;
  }
}

std::string silence_of(const FabricPlace& place, Errc error) {
  return error == Errc::kTimedOut
             ? "fabric " + place.name() +
                   " does not answer; its process is stopped (SIGCONT continues it) or overloaded"
             : "fabric " + place.name() + " has ended; start it again with `verbatim fabric up`";
}

Expected<Accepted> greet(const FabricPlace& place, const FabricHello& hello, std::string& message) {
  auto connected = place.connect(message);
  if (!connected) return connected.error();
  Accepted accepted;
  accepted.connection = Descriptor(*connected);
  FabricAnswer answer;
  const Status sent = send_all(*connected, octets_of(hello), -1);
  // A fabric without room has answered already, and closed the connection.
  if (!sent && sent.error() != Errc::kNoDevice) {
    message = silence_of(place, sent.error());
    return sent.error();
  }
  auto arrived =
      receive_within(*connected, std::as_writable_bytes(std::span(&answer, 1)), kFabricPatienceMs);
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
  accepted.node = answer.node;
  accepted.page = std::move(arrived->descriptor);
  return accepted;
}

/// False when `node` is too long for the name of a node.
bool name_node(FabricHello& hello, std::string_view node, std::string& message) {
  if (node.size() >= hello.node.size()) {
    message = "'" + std::string(node) + "' is too long to be the name of a node";
    return false;
  }
  std::ranges::copy(node, hello.node.begin());
  return true;
}

std::optional<FabricNodeState> state_in(int page) {
  if (octets_of_sealed(page) < FabricPage::kOctets) return std::nullopt;
  void* mapped = ::mmap(nullptr, FabricPage::kOctets, PROT_READ, MAP_SHARED, page, 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  auto state = static_cast<const FabricPage*>(mapped)->read();
  ::munmap(mapped, FabricPage::kOctets);
  return state;
}

}  // namespace

Expected<NodeView> look_at_node(const FabricPlace& place, std::string_view node,
                                std::string& message) {
  const Uncancelled uncancelled;
  FabricHello hello;
  if (!name_node(hello, node, message)) return Errc::kNoDevice;
  auto accepted = greet(place, hello, message);
  if (!accepted) return accepted.error();
  const auto state = state_in(accepted->page.number());
  if (state) return NodeView{.node = accepted->node, .state = *state};
  message = silence_of(place, Errc::kTimedOut);
  return Errc::kTimedOut;
}

Expected<Descriptor> open_fabric_port(const FabricPlace& place, std::string_view node,
                                      std::uint32_t port, std::string& message) {
  const Uncancelled uncancelled;
  FabricHello hello;
  hello.purpose = FabricHello::Purpose::kPort;
  hello.port = port;
  if (!name_node(hello, node, message)) return Errc::kNoDevice;
  auto accepted = greet(place, hello, message);
  if (!accepted) return accepted.error();
  return std::move(accepted->connection);
}

namespace {

/// Sends a call and what stands behind it, and waits for the reply.
Expected<FabricReply> send_call(int port, std::span<const std::byte> call) {
  const Uncancelled uncancelled;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Errc::kNoMemory;
  }
  const Descriptor mine(ends[0]);
  Descriptor others(ends[1]);
  if (auto sent = send_all(port, call, others.number()); !sent) return sent.error();
  others.close();  // the end of the fabric's process ends the wait
  FabricReply reply;
  auto arrived = receive_within(mine.number(), std::as_writable_bytes(std::span(&reply, 1)),
                                kFabricPatienceMs);
  if (!arrived) return arrived.error();
  if (arrived->octets != sizeof reply || reply.magic != FabricReply::kMagic) {
    return Errc::kNotSupported;
  }
  return reply;
}

}  // namespace

Expected<FabricReply> call_fabric(int port, const FabricCall& call) {
  return send_call(port, octets_of(call));
}

Expected<FabricReply> ask_fabric(int port, const UserMadHeader& header,
                                 std::span<const std::byte> message) {
  FabricCall call;
  call.kind = FabricCall::Kind::kMaySend;
  std::array<std::byte, sizeof call + sizeof header + kMadOctets> octets;
  const auto first = message.first(std::min(message.size(), kMadOctets));
  std::span<std::byte> rest(octets);
  for (const auto part : {octets_of(call), octets_of(header), first}) {
    std::ranges::copy(part, rest.begin());
    rest = rest.subspan(part.size());
  }
  return send_call(port, std::span(octets).first(octets.size() - rest.size()));
}

Expected<Descriptor> open_fabric_commands(const FabricPlace& place, std::string& message) {
  const Uncancelled uncancelled;
  FabricHello hello;
  hello.purpose = FabricHello::Purpose::kCommands;
  auto accepted = greet(place, hello, message);
  if (!accepted) return accepted.error();
  return std::move(accepted->connection);
}

Expected<std::string> command_fabric(int commands, std::string_view text) {
  if (text.empty() || text.size() > kCommandOctetsMax) return Errc::kInvalidArgument;
  if (auto sent = send_all(commands, std::as_bytes(std::span(text)), -1); !sent)
    return sent.error();
  std::string answer;
  const auto room = std::make_unique<std::array<std::byte, kCommandOctetsMax + 1>>();
  for (;;) {
    auto arrived = receive_within(commands, *room, kForEver);
    if (!arrived) return arrived.error();
    const std::size_t octets = std::min(arrived->octets, room->size());
    answer.append(reinterpret_cast<const char*>(room->data()) + 1, octets - 1);
    if ((*room)[0] == std::byte{1}) return answer;
  }
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_client.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "base/uncancelled.h"
#include "host/fabric_greeting.h"
#include "host/fabric_transfer.h"
#include "host/fabric_waiting.h"
#include "host/sealed_file.h"

namespace verbatim::host {
namespace {

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
  auto accepted = greet_fabric(place, hello, message);
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
  auto accepted = greet_fabric(place, hello, message);
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
  if (auto sent = send_waiting(port, call, others.number()); !sent) return sent.error();
  others.close();  // the end of the fabric's process ends the wait
  FabricReply reply;
  auto arrived = receive_waiting(mine.number(), std::as_writable_bytes(std::span(&reply, 1)),
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
  auto accepted = greet_fabric(place, hello, message);
  if (!accepted) return accepted.error();
  return std::move(accepted->connection);
}

Expected<std::string> command_fabric(int commands, std::string_view text,
                                     const std::function<void(std::string_view)>& take) {
  if (text.empty() || text.size() > kCommandOctetsMax) return Errc::kInvalidArgument;
  if (auto sent = send_waiting(commands, std::as_bytes(std::span(text)), -1); !sent)
    return sent.error();
  std::string answer;
  const auto room = std::make_unique<std::array<std::byte, kCommandOctetsMax + 1>>();
  for (;;) {
    auto arrived = receive_waiting(commands, *room, kForEver);
    if (!arrived) return arrived.error();
    const std::size_t octets = std::min(arrived->octets, room->size());
    const std::string_view part(reinterpret_cast<const char*>(room->data()) + 1, octets - 1);
    if (take) take(part);
    answer.append(part);
    if ((*room)[0] == std::byte{1}) return answer;
  }
}

}  // namespace verbatim::host

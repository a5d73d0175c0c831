// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::host {

/// The header of a management datagram on the connection between a program and the process of a
/// fabric, in both directions. The layout is that of `struct ib_user_mad` in ABI version 5 of the
/// kernel's umad, so a program may also read and write the descriptor of a port itself.
///
/// Members that end in `_be` are in network byte order.
struct UserMadHeader {
  std::uint32_t agent = 0;
  std::uint32_t status = 0;      // an errno value; ETIMEDOUT: the own request, without an answer
  std::uint32_t timeout_ms = 0;  // 0: no answer is expected; 0xffff'ffff: wait for ever
  std::uint32_t retries = 0;
  std::uint32_t octets = 0;  // of this header and the message
  std::uint32_t qpn_be = 0;
  std::uint32_t qkey_be = 0;
  std::uint16_t lid_be = 0;  // of the destination, or of the source of a received message
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;
  std::uint8_t has_grh = 0;
  std::uint8_t gid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t flow_label_be = 0;
  std::uint16_t pkey_index = 0;
  std::array<std::uint8_t, 6> reserved{};
};
static_assert(sizeof(UserMadHeader) == 64);

/// The octets of one management datagram. A message of several segments (RMPP) is longer.
inline constexpr std::size_t kMadOctets = 256;
/// The common header, which is all that a request without an answer returns with.
inline constexpr std::size_t kMadHeaderOctets = 24;

/// A message with more octets, header included, does not fit into a datagram of the socket under
/// all settings of the system. Only the header and the first segment are in the datagram then, and
/// the whole message, without the header, is in a sealed memory file that comes with it.
inline constexpr std::size_t kInlineOctetsMax = 64 * 1024;
/// The longest message; a longer one is refused.
inline constexpr std::size_t kUserMadOctetsMax = 256UL * 1024 * 1024;

/// How many agents a connection has at most, as in the kernel. Their numbers begin with 0.
inline constexpr std::uint32_t kAgentsMax = 32;

/// The first message of a connection, from the program. FabricAnswer is the reply. After it a
/// connection for a port carries datagrams (UserMadHeader) and calls (FabricCall), one for commands
/// carries text, one for data carries a FabricNews now and then and a FabricClaim the other way,
/// and one for looking is closed.
struct FabricHello {
  static constexpr std::uint32_t kMagic = 0x5642'4661;
  static constexpr std::uint32_t kVersion = 4;
  enum class Purpose : std::uint32_t { kLook, kPort, kCommands, kData };

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  Purpose purpose = Purpose::kLook;
  std::uint32_t port = 0;       // for kPort and kData
  std::uint32_t slot = 0;       // for kData
  std::array<char, 96> node{};  // as VERBATIM_NODE names it, with a terminating zero
};
static_assert(sizeof(FabricHello) == 116);

/// For kLook, kPort and kData a descriptor comes with it: the node's FabricPage. For kData three
/// more: the FabricDataArea, the bell of the program, and the bell of the fabric.
struct FabricAnswer {
  static constexpr std::uint32_t kMagic = 0x5642'4662;
  std::uint32_t magic = kMagic;
  std::uint32_t version = FabricHello::kVersion;
  std::int32_t error = 0;       // an errno value; 0: accepted
  std::uint32_t node = 0;       // its number in the fabric
  std::array<char, 304> why{};  // why not, and what to do about it
};
static_assert(sizeof(FabricAnswer) == 320);

/// On a connection for data, from the fabric: the node's FabricPage has changed. The next one comes
/// when the program has read this one.
struct FabricNews {
  static constexpr std::uint32_t kMagic = 0x5642'4665;
  std::uint32_t magic = kMagic;
};
static_assert(sizeof(FabricNews) == 4);

/// On a connection for data, from the program: it listens for requests of this service, or does so
/// no more. Of the service ID only the lower half counts. The fabric brings such requests to the
/// program; where several programs or none have said so, to any program of the port.
struct FabricClaim {
  static constexpr std::uint32_t kMagic = 0x5642'4666;
  std::uint32_t magic = kMagic;
  std::uint32_t service = 0;
  std::uint32_t listens = 1;  // 0: no more
};
static_assert(sizeof(FabricClaim) == 12);

/// A call with an answer, on the connection of a port. One end of a socket pair comes with it, on
/// which the process of the fabric answers: so another thread may wait for datagrams meanwhile, and
/// a forked child has the same rights as its parent. The magic number cannot be that of an agent.
///
/// kMaySend asks whether a datagram would be taken, without sending it: behind the call stand its
/// UserMadHeader and at most its first kMadOctets octets.
///
/// kFind asks for the GID of the node that has an address. kServeConnections says that the program
/// uses rdma_cm: the fabric does for the multicast groups that this connection joins what the
/// kernel does (GroupKeeper in tools/fabric), and tells it of processes that end (FabricDeparture).
struct FabricCall {
  static constexpr std::uint32_t kMagic = 0x5642'4663;
  enum class Kind : std::uint32_t { kRegister, kUnregister, kMaySend, kFind, kServeConnections };

  std::uint32_t magic = kMagic;
  Kind kind = Kind::kRegister;
  std::uint32_t agent = 0;                 // for kUnregister
  std::uint32_t flags = 0;                 // as UMAD_USER_RMPP
  std::array<std::uint64_t, 2> methods{};  // a bit for each method that the agent serves
  std::uint32_t oui = 0;                   // host byte order, for classes 0x30 to 0x4f
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t rmpp_version = 0;
  std::uint8_t qpn = 0;       // 0 or 1
  std::uint32_t address = 0;  // for kFind: IPv4, host byte order
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FabricCall) == 48);

/// On the connection of a port, from the fabric, after kServeConnections: the process in this slot
/// of a port has ended, whose LIDs are `lid` to `lid` + 2^lmc - 1. No UserMadHeader is as short.
struct FabricDeparture {
  static constexpr std::uint32_t kMagic = 0x5642'4667;
  std::uint32_t magic = kMagic;
  std::uint32_t slot = 0;
  std::uint16_t lid = 0;
  std::uint16_t lmc = 0;
};
static_assert(sizeof(FabricDeparture) == 12);

/// The answer to a FabricCall.
struct FabricReply {
  static constexpr std::uint32_t kMagic = 0x5642'4664;
  std::uint32_t magic = kMagic;
  std::int32_t error = 0;  // an errno value
  std::uint32_t agent = 0;
  std::uint32_t flags = 0;             // those that the fabric supports, when it refuses others
  std::array<std::uint8_t, 16> gid{};  // of kFind
};
static_assert(sizeof(FabricReply) == 32);

/// The longest message on a connection for commands. A command is one message of text. Its answer
/// is one or more: an octet, 1 in the last message and 0 before, and text.
inline constexpr std::size_t kCommandOctetsMax = 60 * 1024;

}  // namespace verbatim::host

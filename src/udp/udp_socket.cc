// SPDX-License-Identifier: Apache-2.0
#include "udp/udp_socket.h"

#include <linux/filter.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "udp/socket_address.h"

namespace verbatim::link {

namespace {

constexpr int kReceiveBufferOctets = 32 << 20;  // as much of it as the system allows
constexpr int kSendBufferOctets = 4 << 20;

Errc reason_of(int error) noexcept {
  switch (error) {
    case EADDRINUSE:
      return Errc::kAddressInUse;
    case EADDRNOTAVAIL:  // not an address of this host
    case EAFNOSUPPORT:   // a host without IPv6
    case ENODEV:
      return Errc::kNoDevice;
    case EACCES:
    case EPERM:
      return Errc::kAccessDenied;
    case EINVAL:
      return Errc::kInvalidArgument;
    default:
      return Errc::kNoMemory;
  }
}

/// Gives a socket a program. The gap between the members is zeroed too: valgrind reports octets
/// that were never written when they go to the kernel.
bool attach(int socket, int option, std::span<sock_filter> instructions) noexcept {
  sock_fprog program;
  std::memset(&program, 0, sizeof program);
  program.len = static_cast<unsigned short>(instructions.size());
  program.filter = instructions.data();
  return ::setsockopt(socket, SOL_SOCKET, option, &program, sizeof program) == 0;
}

}  // namespace

Expected<UdpSocket> UdpSocket::open_receiver(const LocalAddress& address, std::uint16_t port,
                                             Program program) noexcept {
  UdpSocket socket;
  if (auto created = socket.create(address); !created) return created.error();
  if (!socket.set(SOL_SOCKET, SO_REUSEPORT, 1) || !socket.prepare_receiver(address)) {
    return reason_of(errno);
  }
  if (auto bound = socket.bind_to(address, port); !bound) return bound.error();
  // After the bind, because a socket that has a program already cannot join the others. If the
  // system takes no program, packets reach any of the sockets and are forwarded.
  if (program == Program::kBring) (void)socket.steer({});
  return socket;
}

Expected<UdpSocket> UdpSocket::open_locked(const LocalAddress& address, std::uint16_t port,
                                           std::span<sock_filter> filter) noexcept {
  UdpSocket socket;
  if (auto created = socket.create(address); !created) return created.error();
  const bool is_ready = socket.set(SOL_SOCKET, SO_REUSEPORT, 1) &&
                        socket.prepare_receiver(address) &&
                        attach(socket.descriptor_.number(), SO_ATTACH_FILTER, filter) &&
                        socket.set(SOL_SOCKET, SO_LOCK_FILTER, 1);
  if (!is_ready) return reason_of(errno);
  if (auto bound = socket.bind_to(address, port); !bound) return bound.error();
  return socket;
}

Expected<UdpSocket> UdpSocket::open_sender(const LocalAddress& address,
                                           std::uint16_t port) noexcept {
  UdpSocket socket;
  if (auto created = socket.create(address); !created) return created.error();
  const bool is_ipv4 = address.gid.is_ipv4_mapped();
  const bool set =
      is_ipv4 ? socket.set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
              : socket.set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
                    socket.set(IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(address.scope));
  if (!set || !socket.change_settings({}, is_ipv4)) return reason_of(errno);
  socket.enlarge(SO_SNDBUFFORCE, SO_SNDBUF, kSendBufferOctets);
  sock_filter nothing[] = {{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0}};
  // If it fails, unread packets cost memory.
  (void)attach(socket.descriptor_.number(), SO_ATTACH_FILTER, nothing);
  if (auto bound = socket.bind_to(address, port); !bound) return bound.error();
  return socket;
}

bool UdpSocket::change_settings(const PacketSettings& settings, bool is_ipv4) noexcept {
  if (is_ipv4) {
    return set(IPPROTO_IP, IP_TOS, settings.traffic_class) &&
           set(IPPROTO_IP, IP_TTL, settings.hop_limit) &&
           set(IPPROTO_IP, IP_MULTICAST_TTL, settings.hop_limit);
  }
  return set(IPPROTO_IPV6, IPV6_TCLASS, settings.traffic_class) &&
         set(IPPROTO_IPV6, IPV6_UNICAST_HOPS, settings.hop_limit) &&
         set(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, settings.hop_limit);
}

bool UdpSocket::keep_trains() noexcept { return set(IPPROTO_UDP, UDP_GRO, 1); }

Status UdpSocket::create(const LocalAddress& address) noexcept {
  const int family = address.gid.is_ipv4_mapped() ? AF_INET : AF_INET6;
  descriptor_ = host::OwnDescriptor(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!descriptor_.is_open()) return reason_of(errno);
  if (family == AF_INET6 && !set(IPPROTO_IPV6, IPV6_V6ONLY, 1)) return reason_of(errno);
  return Ok{};
}

Status UdpSocket::bind_to(const LocalAddress& address, std::uint16_t port) noexcept {
  SocketAddress name;
  const socklen_t octets = store_address(name, address.gid, port, address.scope);
  if (::bind(descriptor_.number(), &name.base, octets) != 0) return reason_of(errno);
  return Ok{};
}

bool UdpSocket::set(int level, int option, int value) noexcept {
  return ::setsockopt(descriptor_.number(), level, option, &value, sizeof value) == 0;
}

/// The forced option needs a capability and ignores the system's limit. The ordinary option stays
/// within the limit.
void UdpSocket::enlarge(int forced, int ordinary, int octets) noexcept {
  if (!set(SOL_SOCKET, forced, octets)) (void)set(SOL_SOCKET, ordinary, octets);
}

/// Bound to the group and not to every address, so that it neither gets nor blocks packets to other
/// addresses.
Expected<UdpSocket> UdpSocket::open_group(const LocalAddress& group, std::uint16_t port) noexcept {
  UdpSocket socket;
  if (auto created = socket.create(group); !created) return created.error();
  if (!socket.set(SOL_SOCKET, SO_REUSEADDR, 1) || !socket.prepare_receiver(group)) {
    return reason_of(errno);
  }
  if (auto bound = socket.bind_to(group, port); !bound) return bound.error();
  if (!socket.join(group) || !socket.tell_headers(group, true)) return reason_of(errno);
  return socket;
}

/// The option "all" is off: with it the socket would receive every group that any program of this
/// host has joined on any interface.
bool UdpSocket::join(const LocalAddress& group) noexcept {
  if (group.gid.is_ipv4_mapped()) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, group.gid.octets.data() + 12, 4);
    request.imr_ifindex = static_cast<int>(group.scope);
    return set(IPPROTO_IP, IP_MULTICAST_ALL, 0) &&
           ::setsockopt(descriptor_.number(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request,
                        sizeof request) == 0;
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, group.gid.octets.data(), 16);
  request.ipv6mr_interface = group.scope;
  return set(IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0) &&
         ::setsockopt(descriptor_.number(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &request,
                      sizeof request) == 0;
}

UdpSocket UdpSocket::adopt(int descriptor) noexcept {
  UdpSocket socket;
  socket.descriptor_ = host::OwnDescriptor(descriptor);
  return socket;
}

bool UdpSocket::prepare_receiver(const LocalAddress& address) noexcept {
  enlarge(SO_RCVBUFFORCE, SO_RCVBUF, kReceiveBufferOctets);
  return address.gid.is_ipv4_mapped() || set(IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
}

bool UdpSocket::tell_headers(const LocalAddress& address, bool tell) noexcept {
  const int value = tell ? 1 : 0;
  return address.gid.is_ipv4_mapped()
             ? set(IPPROTO_IP, IP_RECVTOS, value) && set(IPPROTO_IP, IP_RECVTTL, value)
             : set(IPPROTO_IPV6, IPV6_RECVTCLASS, value) &&
                   set(IPPROTO_IPV6, IPV6_RECVHOPLIMIT, value);
}

void UdpSocket::reset_receiver(const LocalAddress& address) noexcept {
  (void)prepare_receiver(address);     // if it fails, the options stay as they are
  (void)set(IPPROTO_UDP, UDP_GRO, 0);  // trains and headers must be asked for again
  (void)tell_headers(address, false);
}

bool UdpSocket::steer(std::span<const ServiceRoute> routes, std::uint32_t fallback) {
  return steer_sockets_beside(descriptor_.number(), routes, fallback);
}

bool steer_sockets_beside(int socket, std::span<const ServiceRoute> routes,
                          std::uint32_t fallback) {
  auto program = steering_program(routes, fallback);
  return attach(socket, SO_ATTACH_REUSEPORT_CBPF, program);
}

}  // namespace verbatim::link

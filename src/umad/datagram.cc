// SPDX-License-Identifier: Apache-2.0
// Datagrams: umad_send, umad_recv, umad_poll.
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <span>

#include "base/uncancelled.h"
#include "host/fabric_client.h"
#include "host/fabric_transfer.h"
#include "host/fabric_waiting.h"
#include "umad/adapter.h"
#include "umad/agents.h"
#include "umad/border.h"
#include "umad/deadlines.h"
#include "umad/dump.h"
#include "umad/transactions.h"

namespace verbatim::umad {
namespace {

using host::Transfer;
using host::UserMadHeader;

constexpr std::size_t kHeaderOctets = sizeof(UserMadHeader);
static_assert(sizeof(ib_user_mad) == kHeaderOctets);
constexpr int kLeastLength = 36;  // the kernel's umad takes no less: headers of MAD and RMPP
constexpr int kGonePauseMs = 100;

/// A message is looked at before it is taken, and another thread must not take it in between. A
/// forked child has one thread, so its mutexes are free.
constinit std::array<std::mutex, 64> g_receiving;

std::mutex& mutex_of(int port) noexcept {
  return g_receiving[static_cast<std::size_t>(port) % g_receiving.size()];
}

__attribute__((constructor)) void prepare_forks() {
  (void)::pthread_atfork(nullptr, nullptr, [] {
    for (std::mutex& mutex : g_receiving) new (&mutex) std::mutex;
  });
}

constinit std::atomic<bool> g_is_gone{false};

/// The fabric has ended. Programs that receive in a loop, as OpenSM, would do nothing but that:
/// from the second time on they are slowed down.
int fabric_gone(int timeout_ms) {
  if (!g_is_gone.exchange(true, std::memory_order_relaxed)) {
    tell_user("the fabric has ended, and with it the ports of this program; start both again");
  } else if (timeout_ms != 0) {
    (void)::poll(nullptr, 0, kGonePauseMs);
  }
  errno = EIO;
  return -EIO;
}

int failed(int error) noexcept {
  errno = error;
  return -error;
}

/// 0, or a negative errno value, which is in errno as well. EINTR is in errno alone.
int waited(int port, int timeout_ms) {
  pollfd watched{.fd = port, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&watched, 1, timeout_ms);
  if (ready > 0) return 0;
  if (ready == 0) return failed(ETIMEDOUT);
  return -EIO;
}

enum class Outcome { kDone, kGone, kError };

/// Takes the next message into the program's buffer, if there is room for all of it.
struct Receiving {
  int port;
  std::span<std::byte> buffer;  // header and room
  std::size_t octets = 0;       // of the message, without the header
  int error = 0;

  [[nodiscard]] Outcome refused(int with) noexcept {
    error = with;
    return Outcome::kError;
  }
  [[nodiscard]] Outcome take() noexcept;
  [[nodiscard]] Outcome take_all() noexcept;
};

Outcome Receiving::take() noexcept {
  const Uncancelled uncancelled;
  const std::lock_guard lock(mutex_of(port));
  const ssize_t got =
      ::recv(port, buffer.data(), buffer.size(), MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  if (got == 0) return Outcome::kGone;
  if (got < 0) return errno == ECONNRESET ? Outcome::kGone : refused(errno);
  if (static_cast<std::size_t>(got) < kHeaderOctets) return refused(EIO);
  UserMadHeader header;
  std::memcpy(static_cast<void*>(&header), buffer.data(), kHeaderOctets);
  if (header.octets < kHeaderOctets) return refused(EIO);
  octets = header.octets - kHeaderOctets;
  const std::size_t room = buffer.size() - kHeaderOctets;
  if (room < std::min(octets, host::kMadOctets)) return refused(EINVAL);
  if (room < octets) return refused(ENOSPC);
  return take_all();
}

Outcome Receiving::take_all() noexcept {
  bool is_gone = false;
  const auto arrived = host::receive_message(port, buffer, is_gone);
  if (!arrived) return is_gone ? Outcome::kGone : refused(EAGAIN);
  if (!arrived->descriptor.is_open()) return Outcome::kDone;
  const auto message = buffer.subspan(kHeaderOctets, octets);
  if (!host::read_memory_file(arrived->descriptor.number(), message)) return refused(EIO);
  return Outcome::kDone;
}

/// Where a datagram with a directed route begins in the ordinary way: at the port that it is sent
/// from, or as an answer at the last port of its route (IBA Vol 1, 14.2.2).
bool begins_as_usual(int port, std::span<const std::byte> mad) noexcept {
  constexpr std::size_t kRouteOctets = 130;  // up to the first port of the way there
  if (mad.size() < kRouteOctets) return false;
  const auto at = [mad](std::size_t index) { return std::to_integer<int>(mad[index]); };
  const bool returns = (at(4) & 0x80) != 0;
  const int pointer = at(6);
  const int hops = at(7);
  if (returns) return pointer == hops + 1;
  return pointer == 0 && (hops == 0 || at(129) == Agents::port_of(port));
}

/// The class in which agents with RMPP usually are: they may not send datagrams of every class.
bool is_of_administration(std::span<const std::byte> mad) noexcept {
  return mad[1] == std::byte{0x03};
}

/// Whether the fabric could refuse the datagram. To ask it costs a round trip, so only these are
/// asked about: long ones, since not every agent may send messages of several segments, those of
/// agents with RMPP in unusual classes, unusual directed routes, and those whose transaction may be
/// outstanding.
bool may_be_refused(int port, const ib_user_mad& mad, std::span<const std::byte> message) noexcept {
  constexpr std::byte kDirectedRoute{0x81};
  if (message.size() > host::kMadOctets) return true;
  const auto agent = static_cast<int>(mad.agent_id);
  if (Agents::has_rmpp(port, agent) && !is_of_administration(message)) return true;
  if (message[1] == kDirectedRoute && !begins_as_usual(port, message)) return true;
  return Transactions::may_be_outstanding(port, mad);
}

/// 0, or the errno value with which the fabric refuses the datagram.
int verdict_of(int port, UserMadHeader header, std::span<const std::byte> message) noexcept {
  header.octets = static_cast<std::uint32_t>(kHeaderOctets + message.size());
  const auto reply = host::ask_fabric(port, header, message);
  return reply ? reply->error : 0;  // a fabric that is gone or stopped does not take it, either
}

/// A request that waits for an answer is outstanding, and so is a message of several segments until
/// they are acknowledged.
bool is_outstanding(const ib_user_mad& mad, std::span<const std::byte> message) noexcept {
  return mad.timeout_ms != 0 || message.size() > host::kMadOctets;
}

/// Waits for room at the fabric, which may be busy or stopped.
Transfer send_with_patience(int port, const UserMadHeader& header,
                            std::span<const std::byte> message) noexcept {
  const Uncancelled uncancelled;
  Transfer sent = host::send_user_mad(port, header, message);
  for (int waits = 0; sent == Transfer::kFull && waits < host::kFabricPatienceMs / 100; ++waits) {
    pollfd watched{.fd = port, .events = POLLOUT, .revents = 0};
    (void)::poll(&watched, 1, 100);
    sent = host::send_user_mad(port, header, message);
  }
  return sent;
}

}  // namespace
}  // namespace verbatim::umad

using verbatim::host::Transfer;
using verbatim::umad::Deadlines;
using verbatim::umad::failed;
using verbatim::umad::Outcome;
using verbatim::umad::Transactions;

/// Returns 0 or -EIO; errno says more.
VB_EXPORT int umad_send(int portid, int agentid, void* umad, int length, int timeout_ms,
                        int retries) {
  errno = 0;
  auto* mad = static_cast<ib_user_mad*>(umad);
  if (mad == nullptr || length < verbatim::umad::kLeastLength ||
      !verbatim::umad::Agents::may_send(portid, agentid)) {
    errno = EINVAL;
    return -EIO;
  }
  mad->timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  mad->retries = static_cast<std::uint32_t>(retries);
  mad->agent_id = static_cast<std::uint32_t>(agentid);
  verbatim::umad::dump_if_wanted(mad);
  verbatim::host::UserMadHeader header;
  std::memcpy(static_cast<void*>(&header), mad, sizeof header);
  const std::span message(reinterpret_cast<const std::byte*>(mad->data),
                          static_cast<std::size_t>(length));
  const int refusal = verbatim::umad::may_be_refused(portid, *mad, message)
                          ? verbatim::umad::verdict_of(portid, header, message)
                          : 0;
  if (refusal != 0) {
    errno = refusal;
    return -EIO;
  }
  Deadlines::sent(portid, timeout_ms);
  if (verbatim::umad::is_outstanding(*mad, message)) Transactions::sent(portid, *mad);
  switch (verbatim::umad::send_with_patience(portid, header, message)) {
    case Transfer::kDone:
      return 0;
    case Transfer::kFull:
      verbatim::umad::tell_user(
          "the fabric takes no datagrams; its process is stopped (SIGCONT continues it) or "
          "overloaded");
      errno = EAGAIN;
      return -EIO;
    case Transfer::kRefused:
      errno = ENOMEM;
      return -EIO;
    case Transfer::kGone:
      if (errno == EBADF) return -EIO;  // it is not the fabric that is gone
      (void)verbatim::umad::fabric_gone(0);
      return -EIO;
  }
  return -EIO;
}

/// Returns the agent, or a negative errno value, which is in errno as well; -EIO after a signal has
/// interrupted the wait, with EINTR in errno. After ENOSPC `length` is the room that the message
/// needs, and its header and first segment are in the buffer.
VB_EXPORT int umad_recv(int portid, void* umad, int* length, int timeout_ms) {
  errno = 0;
  if (umad == nullptr || length == nullptr || *length < 0) return failed(EINVAL);
  if (timeout_ms != 0) {
    int result = verbatim::umad::waited(portid, timeout_ms);
    const int grace_ms = result == -ETIMEDOUT ? Deadlines::grace_ms(portid) : 0;
    if (grace_ms > 0) result = verbatim::umad::waited(portid, grace_ms);
    if (result < 0) return result;
    errno = 0;
  }
  verbatim::umad::Receiving receiving{
      .port = portid,
      .buffer = {static_cast<std::byte*>(umad),
                 verbatim::umad::kHeaderOctets + static_cast<std::size_t>(*length)}};
  switch (receiving.take()) {
    case Outcome::kDone:
      Deadlines::received(portid);
      if (receiving.octets >= verbatim::host::kMadHeaderOctets) {
        Transactions::received(portid, *static_cast<ib_user_mad*>(umad));
      }
      *length = static_cast<int>(receiving.octets);
      return static_cast<int>(static_cast<ib_user_mad*>(umad)->agent_id);
    case Outcome::kGone:
      return verbatim::umad::fabric_gone(timeout_ms);
    case Outcome::kError:
      if (receiving.error == ENOSPC) *length = static_cast<int>(receiving.octets);
      return failed(receiving.error);
  }
  return -EIO;
}

VB_EXPORT int umad_poll(int portid, int timeout_ms) {
  errno = 0;
  return verbatim::umad::waited(portid, timeout_ms);
}

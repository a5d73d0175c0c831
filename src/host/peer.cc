// SPDX-License-Identifier: Apache-2.0
#include "host/peer.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/uncancelled.h"
#include "host/attach_answer.h"
#include "host/bells.h"
#include "host/credentials.h"
#include "host/huge_pages.h"
#include "host/ring.h"
#include "host/sealed_file.h"
#include "host/uncancellable.h"
#include "host/unix_name.h"
#include "memory/key_entry.h"

namespace verbatim::host {
namespace {

bool becomes_readable(int connection, Duration patience) noexcept {
  pollfd answer{.fd = connection, .events = POLLIN, .revents = 0};
  const auto milliseconds =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  int ready = 0;
  do {
    ready = ::poll(&answer, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

std::uint64_t end_of_tables(const SegmentHeader& header) noexcept {
  return std::max(header.keys_at + header.key_count * sizeof(memory::KeyEntry),
                  header.bells_at + Bells::kOctets);
}

}  // namespace

Expected<std::shared_ptr<Peer>> Peer::attach(std::uint32_t own_slot, std::uint32_t slot,
                                             Duration patience) {
  auto peer = std::make_shared<Peer>();
  peer->connection_ =
      OwnDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!peer->connection_.is_open()) return Errc::kNoMemory;
  const int connection = peer->connection_.number();
  if (UnixName::of_door(slot).connect(connection) != 0) return Errc::kNoSuchObject;
  const ucred owner = peer_of(connection);
  if (!Credentials::current().match(owner)) return Errc::kAccessDenied;
  peer->owner_ = ProcessMark::of(owner.pid);
  AttachMessage hello;
  hello.slot = own_slot;
  if (::send(connection, &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof hello)) {
    return Errc::kNoSuchObject;
  }
  if (!becomes_readable(connection, patience)) return Errc::kTimedOut;
  if (auto met = meet_challenge(connection); !met) return met.error();
  if (!becomes_readable(connection, patience)) return Errc::kTimedOut;
  AttachAnswer received(connection);
  const bool is_let_in = received.makes_sense && received.message.has(AttachMessage::kSegment) &&
                         received.message.has(AttachMessage::kBell);
  if (!is_let_in) return Errc::kNotSupported;
  if (auto mapped = peer->map(received.descriptors[AttachMessage::kSegment]); !mapped) {
    return mapped.error();
  }
  if (peer->header_.slot != slot) return Errc::kNotSupported;
  const auto take = [&](AttachMessage::Descriptor kind) {
    return OwnDescriptor(std::exchange(received.descriptors[kind], -1));
  };
  peer->bell_ = take(AttachMessage::kBell);
  int arena = -1;
  std::swap(arena, received.descriptors[AttachMessage::kArena]);
  if (arena >= 0) peer->arena_.open(arena);
  peer->memory_ = take(AttachMessage::kMemory);
  return peer;
}

Status Peer::map(int segment) noexcept {
  const std::uint64_t octets = octets_of_sealed(segment);
  if (octets < sizeof(SegmentHeader)) return Errc::kNotSupported;
  if (!segment_.map(segment, octets)) return Errc::kNoMemory;
  process_ = ::getpid();
  (void)::madvise(segment_.begin(), octets, MADV_DONTFORK);  // a forked child does not use it
  if (!segment_.open_up_to(sizeof header_)) return Errc::kNoMemory;
  std::memcpy(&header_, segment_.begin(), sizeof header_);  // once: the owner may change it
  const std::uint64_t stated_octets = header_.octets;       // checked below
  header_.octets = octets;  // the mapped length, which the destructor needs
  const bool makes_sense =
      header_.magic == SegmentHeader::kMagic && header_.version == SegmentHeader::kVersion &&
      stated_octets == octets && header_.address_count <= SegmentHeader::kAddressCount &&
      header_.holds(header_.keys_at, header_.key_count, sizeof(memory::KeyEntry)) &&
      header_.holds(header_.bells_at, 1, Bells::kOctets);
  if (!makes_sense) return Errc::kNotSupported;
  return segment_.open_up_to(end_of_tables(header_)) ? Status(Ok{}) : Errc::kNoMemory;
}

Peer::~Peer() {
  if (process_ == ::getpid()) segment_.unmap();
}

bool Peer::has_lost_connection() const noexcept {
  if (!connection_.is_still_own()) return true;
  std::byte octet;
  const ssize_t got =
      uncancellable::recv(connection_.number(), &octet, sizeof octet, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/// The kernel ends the address space before it closes the descriptors, at exit and at exec. Of a
/// process that lends no descriptor of it, only the end of the connection is known.
///
/// The program may close the descriptor at any moment and open an empty file with its number, so
/// the answer of the call counts only if the number is still that of the address space afterwards.
bool Peer::has_lost_address_space() const noexcept {
  if (memory_.is_open() && memory_.is_still_own()) {
    std::byte octet;
    const iovec piece{.iov_base = &octet, .iov_len = sizeof octet};
    const bool is_at_end = uncancellable::preadv(memory_.number(), &piece, 1, 0) == 0;
    if (memory_.is_still_own()) return is_at_end;
  }
  const bool was_closed_here = memory_.is_open() || !connection_.is_still_own();
  return !was_closed_here || owner_.has_ended();
}

bool Peer::look() noexcept {
  if (has_ended() || !has_lost_connection()) return has_gone();
  if (connection_.is_still_own()) mark_gone();  // the process has ended, or has closed it
  if (has_lost_address_space()) {
    mark_gone();
    ended_.store(true, std::memory_order_relaxed);
  }
  return has_gone();
}

bool Peer::send(std::span<const std::byte> head, std::span<const std::byte> rest) const noexcept {
  const Uncancelled uncancelled;
  return send_message(connection_.number(), head, rest);
}

std::size_t Peer::take(std::span<std::byte> into) const noexcept {
  const ssize_t got =
      uncancellable::recv(connection_.number(), into.data(), into.size(), MSG_DONTWAIT | MSG_TRUNC);
  return got < 0 || static_cast<std::size_t>(got) > into.size() ? 0 : static_cast<std::size_t>(got);
}

void Peer::ring() const noexcept { host::ring(bell_); }

bool Peer::answers_at(const std::array<std::uint8_t, 16>& address) const noexcept {
  const auto known = std::span(header_.addresses).first(header_.address_count);
  return std::find(known.begin(), known.end(), address) != known.end();
}

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_connection.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

namespace verbatim::host {

bool FabricConnection::send(const UserMadHeader& header, std::span<const std::byte> message) {
  if (waiting_.empty()) {
    const Transfer done = transfer(header, message);
    if (done != Transfer::kFull) return done == Transfer::kDone;
  }
  return keep({.is_datagram = true,
               .header = header,
               .octets = {message.begin(), message.end()},
               .descriptor = Descriptor()});
}

bool FabricConnection::send(std::span<const std::byte> head, std::span<const std::byte> rest,
                            int descriptor) {
  if (waiting_.empty()) {
    const Transfer done = send_parts(socket_.number(), head, rest, descriptor);
    if (done != Transfer::kFull) return done == Transfer::kDone;
  }
  Waiting message{
      .is_datagram = false,
      .header = {},
      .octets = {head.begin(), head.end()},
      .descriptor = Descriptor(descriptor < 0 ? -1 : ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0))};
  message.octets.insert(message.octets.end(), rest.begin(), rest.end());
  return keep(std::move(message));
}

bool FabricConnection::keep(Waiting message) {
  const std::size_t octets = waiting_octets_ + message.octets.size();
  if (waiting_.size() >= kWaitingMessagesMax || octets > kWaitingOctetsMax ||
      !shared_.hold(octets - std::min(octets, kOwnOctets))) {
    return false;
  }
  waiting_octets_ = octets;
  waiting_.push_back(std::move(message));
  return true;
}

/// The memory files that a program has not taken stay in its socket, so they count as unread, too.
/// When nothing is in the socket any more, it has taken all.
bool FabricConnection::has_room_for_file(std::size_t octets) noexcept {
  if (has_taken_all()) files_.release();
  const std::size_t all = files_.octets() + octets;
  return all <= kWaitingOctetsMax && files_.hold(all);
}

bool FabricConnection::has_taken_all() const noexcept {
  int unread = 0;
  return ::ioctl(socket_.number(), SIOCOUTQ, &unread) == 0 && unread == 0;
}

/// A program that has something unread reads the node after it.
void FabricConnection::tell_news() noexcept {
  if (has_taken_all()) (void)send_parts(socket_.number(), octets_of(FabricNews{}), {}, -1);
}

Transfer FabricConnection::transfer(const UserMadHeader& header,
                                    std::span<const std::byte> message) noexcept {
  const std::size_t octets = sizeof header + message.size();
  if (is_in_memory_file(octets) && !has_room_for_file(octets)) return Transfer::kRefused;
  return send_user_mad(socket_.number(), header, message);
}

Transfer FabricConnection::transfer(const Waiting& message) noexcept {
  return message.is_datagram
             ? transfer(message.header, message.octets)
             : send_parts(socket_.number(), message.octets, {}, message.descriptor.number());
}

void FabricConnection::flush() {
  while (!waiting_.empty() && transfer(waiting_.front()) != Transfer::kFull) {
    waiting_octets_ -= waiting_.front().octets.size();
    waiting_.pop_front();
  }
  (void)shared_.hold(waiting_octets_ - std::min(waiting_octets_, kOwnOctets));  // less than before
}

std::uint32_t FabricConnection::add_call(Descriptor reply_to) {
  if (calls_.size() >= kCallsMax) calls_.clear();  // the programs see the end of their sockets
  const std::uint32_t call = next_call_++;
  calls_.emplace(call, std::move(reply_to));
  return call;
}

void FabricConnection::reply(std::uint32_t call, const FabricReply& reply) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  (void)send_parts(found->second.number(), octets_of(reply), {}, -1);  // an empty socket has room
  calls_.erase(found);
}

}  // namespace verbatim::host

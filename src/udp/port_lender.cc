// SPDX-License-Identifier: Apache-2.0
#include "udp/port_lender.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "host/opening_lock.h"
#include "host/slot.h"
#include "host/users.h"
#include "udp/udp_link.h"
#include "udp/udp_table.h"

namespace verbatim::link {

namespace {

using Answer = host::LendingDesk::Answer;
using host::SocketLabel;

bool has_descriptors_for(std::size_t held) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         held <= limit.rlim_cur / PortLender::kShareOfDescriptors;
}

}  // namespace

/// The sockets of one address, sorted by use.
struct PortLender::Stock {
  SocketLabel label{};
  std::vector<host::SocketShare::Holding> own;     // of this user's processes
  std::vector<host::SocketShare::Holding> lent;    // to the user that asks
  std::vector<host::SocketShare::Holding> others;  // lent to other users
  std::vector<host::SocketShare::Holding> spares;

  Stock(const host::SocketShare& share, const SocketLabel& of, uid_t borrower) : label(of) {
    for (const auto& holding : share.held_beside(of)) {
      const auto note = note_of(holding.descriptor);
      if (!note) {
        own.push_back(holding);
      } else if (note->use == LentNote::Use::kSpare) {
        spares.push_back(holding);
      } else {
        (note->borrower == borrower ? lent : others).push_back(holding);
      }
    }
  }
  [[nodiscard]] std::size_t size() const noexcept {
    return own.size() + lent.size() + others.size() + spares.size();
  }
};

Answer PortLender::lend(const host::LendingMessage& question, uid_t borrower) {
  SocketLabel label = question.address;
  label.slot = 0;
  if (borrower == ::geteuid() || !host::can_tell_users_apart()) return {};
  Stock stock(share_, label, borrower);
  if (stock.own.empty()) return {};  // this user does not own the port there
  if (stock.lent.size() <= question.held) {
    host::OpeningLock::Holder holder;
    const auto lock = host::OpeningLock::take(Duration::zero(), holder);
    if (!lock) return {.kind = Answer::Kind::kLater};
    LocalAddress address{.scope = label.scope};
    address.gid.octets = label.address;
    if (!make_block(stock, address, borrower)) return {};
    stock = Stock(share_, label, borrower);
    (void)share_.find_peers(own_slot_);  // each process of this user is to hold them, too
    share_.serve_more();
  }
  Answer answer{.kind = Answer::Kind::kLent};
  for (const auto* holdings : {&stock.lent, &stock.spares}) {
    for (const auto& holding : *holdings) answer.descriptors.push_back(holding.descriptor);
  }
  return answer;
}

/// With the OpeningLock held. Makes all of them or none.
bool PortLender::make_block(const Stock& stock, const LocalAddress& address, uid_t borrower) {
  const std::size_t in_front = stock.own.size() + stock.others.size();
  const std::size_t lent = stock.size() - stock.own.size() + kBlockSlots + in_front;
  const std::size_t size = stock.size() + kBlockSlots + in_front;
  const std::size_t slots_then = in_front + stock.lent.size() + kBlockSlots;
  const std::size_t reserve = stock.lent.empty() ? 0 : kBlockSlots + slots_then;
  if (stock.lent.size() + kBlockSlots > kSlotsPerUser || lent + reserve > kLentMax ||
      size > host::kSlotCount || !has_descriptors_for(size)) {
    return false;
  }
  // The numbers are right only if all sockets are known.
  const auto is_complete = [&](std::size_t expected) {
    return counts_exactly(address) && count_sockets(address, kRocePort) == expected;
  };
  if (!is_complete(stock.size())) return false;
  if (stock.size() == 1 && !steer_sockets_beside(stock.own.front().descriptor, {}, own_slot_)) {
    return false;
  }
  for (const auto* holdings : {&stock.own, &stock.lent, &stock.others, &stock.spares}) {
    for (const auto& holding : *holdings) share_port_again(holding.descriptor);
  }
  std::vector<UdpSocket> made;
  while (stock.size() + made.size() < size) {
    const bool is_slot = made.size() < kBlockSlots;
    auto socket = open_lent(address, kRocePort,
                            {.use = is_slot ? LentNote::Use::kSlot : LentNote::Use::kSpare,
                             .slot = static_cast<std::uint32_t>(stock.size() + made.size()),
                             .borrower = is_slot ? borrower : 0});
    if (!socket) return false;
    made.push_back(std::move(*socket));
  }
  if (!is_complete(size)) return false;
  SocketLabel label = stock.label;
  label.slot = static_cast<std::uint32_t>(stock.size());
  for (UdpSocket& socket : made) {
    share_.add(label, socket.release());
    ++label.slot;
  }
  return true;
}

}  // namespace verbatim::link

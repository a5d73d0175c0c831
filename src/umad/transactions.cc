// SPDX-License-Identifier: Apache-2.0
#include "umad/transactions.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"

namespace verbatim::umad {
namespace {

constexpr std::size_t kSlots = 16'384;
constexpr std::uint8_t kResponseBit = 0x80;

/// By the last bits of a mark: the mark that was noted last, 0 for none.
constinit std::array<std::atomic<std::uint64_t>, kSlots> g_sent{};

std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93U;
  x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93U;
  return x ^ (x >> 32);
}

/// A number for what two outstanding transactions may not have in common; hardly ever the same for
/// two others. A request is known by the lower half of its transaction, to which the fabric adds
/// its agent; a response also by where it goes.
std::uint64_t mark_of(int port, const ib_user_mad& mad, bool is_response) noexcept {
  const auto* octets = reinterpret_cast<const std::byte*>(mad.data);
  const auto transaction = load_be_at<std::uint64_t>(octets + 8);
  const auto management_class = std::to_integer<std::uint64_t>(octets[1]);
  const std::uint64_t where = (static_cast<std::uint64_t>(port) << 32) |
                              (std::uint64_t{mad.agent_id & 0xff} << 16) | (management_class << 8) |
                              (is_response ? 1U : 0U);
  const std::uint64_t what =
      is_response ? transaction ^ (std::uint64_t{mad.addr.lid} << 40) : transaction & 0xffff'ffffU;
  const std::uint64_t mark = mix(mix(where) ^ what);
  return mark != 0 ? mark : 1;
}

bool is_response(const ib_user_mad& mad) noexcept {
  return (std::to_integer<std::uint8_t>(reinterpret_cast<const std::byte*>(mad.data)[3]) &
          kResponseBit) != 0;
}

std::atomic<std::uint64_t>& slot_of(std::uint64_t mark) noexcept { return g_sent[mark % kSlots]; }

}  // namespace

bool Transactions::may_be_outstanding(int port, const ib_user_mad& mad) noexcept {
  const std::uint64_t mark = mark_of(port, mad, is_response(mad));
  return slot_of(mark).load(std::memory_order_relaxed) == mark;
}

void Transactions::sent(int port, const ib_user_mad& mad) noexcept {
  const std::uint64_t mark = mark_of(port, mad, is_response(mad));
  slot_of(mark).store(mark, std::memory_order_relaxed);
}

void Transactions::received(int port, const ib_user_mad& mad) noexcept {
  // What comes back with a status is the own datagram; else an answer to an own request.
  const bool is_own = mad.status != 0;
  if (!is_own && !is_response(mad)) return;
  std::uint64_t mark = mark_of(port, mad, is_own && is_response(mad));
  slot_of(mark).compare_exchange_strong(mark, 0, std::memory_order_relaxed);
}

}  // namespace verbatim::umad

// SPDX-License-Identifier: Apache-2.0
#include "direct/visitor.h"

#include <atomic>
#include <utility>

#include "direct/half_table.h"

namespace verbatim::direct {

Visitor::Visitor(std::shared_ptr<host::Peer> peer, const Visiting* visiting)
    : listed_(std::make_shared<Listed>(std::move(peer), visiting)) {}

Visitor Visitor::of(std::shared_ptr<host::Peer> peer, const std::byte* own_segment,
                    wire::QpNumber number) {
  const HalfTable halves = peer == nullptr ? HalfTable::of(own_segment) : HalfTable::of(*peer);
  const HalfRecord* record = halves.find(number);
  if (record == nullptr) return {};
  return {std::move(peer), &record->visiting};
}

void Visitor::look() const noexcept {
  if (listed_->party.peer() != nullptr) (void)listed_->party.peer()->look();
}

bool Visitor::calls_into(std::uint64_t address, std::uint64_t octets) const noexcept {
  if (listed_ == nullptr ||
      (listed_->party.peer() != nullptr && listed_->party.peer()->has_ended()))
    return false;
  const auto load = [](const std::uint64_t& word) {
    return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
  };
  const std::uint64_t called = load(listed_->visiting->call_octets);
  const std::uint64_t at = load(listed_->visiting->call_at);
  return called != 0 && at < address + octets && address < at + called;
}

bool Visitor::sends_packets_to(wire::QpNumber number) const noexcept {
  if (listed_ == nullptr) return false;
  auto& packets_to = const_cast<std::uint32_t&>(listed_->visiting->packets_to);
  // pairs with choose_packets()
  return std::atomic_ref(packets_to).load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(number);
}

}  // namespace verbatim::direct

// SPDX-License-Identifier: Apache-2.0
#include "cm/communication_table.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace verbatim::cm {
namespace {

constexpr std::uint32_t kIndexMask = (1U << CommunicationTable::kIndexBits) - 1;
constexpr std::uint32_t kLastGeneration = (1U << CommunicationTable::kGenerationBits) - 1;

}  // namespace

CommunicationTable::CommunicationTable(const Config& config)
    : config_(config), prng_(config.seed), by_id_(prng_.next()), by_qp_(prng_.next()) {
  config_.capacity = std::min(config_.capacity, kIndexMask + 1);
}

Communication* CommunicationTable::add() {
  if (size_ >= config_.capacity) return nullptr;
  const std::uint32_t index = take_index();
  auto& communication = entries_[index].communication;
  communication = std::make_unique<Communication>();
  communication->id = id_of(index);
  ++size_;
  return communication.get();
}

void CommunicationTable::remove(wire::CommId id) noexcept {
  VB_ASSERT(find(id) != nullptr);
  const std::uint32_t index = static_cast<std::uint32_t>(id) & kIndexMask;
  Entry& entry = entries_[index];
  by_id_.remove(*entry.communication);
  by_qp_.remove(*entry.communication);
  entry.communication.reset();
  entry.generation = entry.generation % kLastGeneration + 1;
  free_.push_back(index);
  --size_;
}

Communication* CommunicationTable::find(wire::CommId id) noexcept {
  return const_cast<Communication*>(std::as_const(*this).find(id));
}

const Communication* CommunicationTable::find(wire::CommId id) const noexcept {
  const std::uint32_t index = static_cast<std::uint32_t>(id) & kIndexMask;
  if (index >= entries_.size()) return nullptr;
  const Communication* communication = entries_[index].communication.get();
  return communication != nullptr && communication->id == id ? communication : nullptr;
}

std::uint32_t CommunicationTable::take_index() {
  const bool may_grow = entries_.size() < config_.capacity;
  if (may_grow && free_.size() < kRestingIndices) {
    entries_.push_back(
        {.generation = static_cast<std::uint32_t>(prng_.between(1, kLastGeneration))});
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  const std::uint32_t index = free_.front();
  free_.pop_front();
  return index;
}

wire::CommId CommunicationTable::id_of(std::uint32_t index) const noexcept {
  return wire::CommId{(std::uint32_t{config_.slot} << (kIndexBits + kGenerationBits)) |
                      (entries_[index].generation << kIndexBits) | index};
}

}  // namespace verbatim::cm

// SPDX-License-Identifier: Apache-2.0
#include "umad/agents.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "host/fabric_message.h"

namespace verbatim::umad {
namespace {

constexpr std::size_t kDescriptors = 4096;
constexpr std::uint64_t kIsKnown = std::uint64_t{1} << 32;  // the lower half: a bit for each agent

constinit std::array<std::atomic<std::uint64_t>, kDescriptors> g_agents{};

std::atomic<std::uint64_t>* entry_of(int descriptor) noexcept {
  const auto index = static_cast<std::size_t>(descriptor);
  return descriptor >= 0 && index < kDescriptors ? &g_agents[index] : nullptr;
}

std::uint64_t bit_of(std::uint32_t agent) noexcept {
  return agent < host::kAgentsMax ? std::uint64_t{1} << agent : 0;
}

}  // namespace

void Agents::open(int descriptor) noexcept {
  if (auto* entry = entry_of(descriptor)) entry->store(kIsKnown, std::memory_order_relaxed);
}
void Agents::close(int descriptor) noexcept {
  if (auto* entry = entry_of(descriptor)) entry->store(0, std::memory_order_relaxed);
}
void Agents::add(int descriptor, std::uint32_t agent) noexcept {
  if (auto* entry = entry_of(descriptor)) entry->fetch_or(bit_of(agent), std::memory_order_relaxed);
}
void Agents::remove(int descriptor, std::uint32_t agent) noexcept {
  if (auto* entry = entry_of(descriptor))
    entry->fetch_and(~bit_of(agent), std::memory_order_relaxed);
}

bool Agents::may_send(int descriptor, int agent) noexcept {
  if (agent < 0 || static_cast<std::uint32_t>(agent) >= host::kAgentsMax) return false;
  const auto* entry = entry_of(descriptor);
  const std::uint64_t agents = entry != nullptr ? entry->load(std::memory_order_relaxed) : 0;
  return (agents & kIsKnown) == 0 || (agents & bit_of(static_cast<std::uint32_t>(agent))) != 0;
}

}  // namespace verbatim::umad

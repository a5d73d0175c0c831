// SPDX-License-Identifier: Apache-2.0
#include "umad/agents.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "host/fabric_message.h"

namespace verbatim::umad {
namespace {

constexpr std::size_t kDescriptors = 4096;
// The lower half has a bit for each agent, the upper one this bit and the number of the port.
constexpr std::uint64_t kIsKnown = std::uint64_t{1} << 32;
constexpr unsigned kPortShift = 33;

constinit std::array<std::atomic<std::uint64_t>, kDescriptors> g_agents{};
constinit std::array<std::atomic<std::uint32_t>, kDescriptors> g_with_rmpp{};  // a bit for each

std::atomic<std::uint64_t>* entry_of(int descriptor) noexcept {
  const auto index = static_cast<std::size_t>(descriptor);
  return descriptor >= 0 && index < kDescriptors ? &g_agents[index] : nullptr;
}

std::uint64_t bit_of(std::uint32_t agent) noexcept {
  return agent < host::kAgentsMax ? std::uint64_t{1} << agent : 0;
}

}  // namespace

void Agents::open(int descriptor, int port) noexcept {
  const std::uint64_t known = kIsKnown | (static_cast<std::uint64_t>(port) << kPortShift);
  if (auto* entry = entry_of(descriptor)) entry->store(known, std::memory_order_relaxed);
}
int Agents::port_of(int descriptor) noexcept {
  const auto* entry = entry_of(descriptor);
  const std::uint64_t known = entry != nullptr ? entry->load(std::memory_order_relaxed) : 0;
  return (known & kIsKnown) != 0 ? static_cast<int>(known >> kPortShift) : -1;
}
void Agents::close(int descriptor) noexcept {
  if (auto* entry = entry_of(descriptor)) entry->store(0, std::memory_order_relaxed);
}
void Agents::add(int descriptor, std::uint32_t agent, bool has_rmpp) noexcept {
  auto* entry = entry_of(descriptor);
  if (entry == nullptr) return;
  auto& with_rmpp = g_with_rmpp[static_cast<std::size_t>(descriptor)];
  const auto bit = static_cast<std::uint32_t>(bit_of(agent));
  has_rmpp ? with_rmpp.fetch_or(bit, std::memory_order_relaxed)
           : with_rmpp.fetch_and(~bit, std::memory_order_relaxed);
  entry->fetch_or(bit, std::memory_order_relaxed);
}
bool Agents::has_rmpp(int descriptor, int agent) noexcept {
  if (entry_of(descriptor) == nullptr || agent < 0) return false;
  const auto& with_rmpp = g_with_rmpp[static_cast<std::size_t>(descriptor)];
  return (with_rmpp.load(std::memory_order_relaxed) & bit_of(static_cast<std::uint32_t>(agent))) !=
         0;
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

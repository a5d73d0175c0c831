// SPDX-License-Identifier: Apache-2.0
#include "umad/deadlines.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace verbatim::umad {
namespace {

constexpr std::size_t kDescriptors = 4096;
constexpr std::int64_t kGraceMs = 500;  // on a machine with many more programs than processors

constinit std::array<std::atomic<std::int64_t>, kDescriptors> g_deadlines_ms{};  // 0: none

std::int64_t now_ms() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::atomic<std::int64_t>* entry_of(int port) noexcept {
  const auto index = static_cast<std::size_t>(port);
  return port >= 0 && index < kDescriptors ? &g_deadlines_ms[index] : nullptr;
}

}  // namespace

void Deadlines::sent(int port, int timeout_ms) noexcept {
  auto* entry = entry_of(port);
  if (entry == nullptr || timeout_ms <= 0) return;
  entry->store(now_ms() + timeout_ms, std::memory_order_relaxed);
}

void Deadlines::received(int port) noexcept {
  if (auto* entry = entry_of(port)) entry->store(0, std::memory_order_relaxed);
}

int Deadlines::grace_ms(int port) noexcept {
  const auto* entry = entry_of(port);
  const std::int64_t deadline = entry != nullptr ? entry->load(std::memory_order_relaxed) : 0;
  if (deadline == 0) return 0;
  const std::int64_t now = now_ms();
  const bool is_due = deadline <= now + 1 && now < deadline + kGraceMs;
  return is_due ? static_cast<int>(deadline + kGraceMs - now) : 0;
}

}  // namespace verbatim::umad

// SPDX-License-Identifier: Apache-2.0
#include "wire/crc/crc32.h"

#include <array>
#include <atomic>

#include "base/assert.h"
#include "wire/crc/crc32_kernels.h"
#include "wire/crc/crc32_tables.h"

namespace verbatim::wire {
namespace {

// Null until the first use. Relaxed is enough: the kernels are constants, and threads that choose
// at the same time choose the same one.
constinit std::atomic<const Crc32Kernel*> chosen{nullptr};

[[gnu::noinline]] const Crc32Kernel& choose() noexcept {
  const Crc32Kernel* choice = &kPortableCrc32;
  for (const Crc32Kernel& native : native_crc32_kernels()) {
    if (native.runs_here()) {
      choice = &native;
      break;
    }
  }
  chosen.store(choice, std::memory_order_relaxed);
  return *choice;
}

/// Entry i skips i * kOctets zeroes, backwards if that is negative: x^(8 i kOctets), times x^-33 to
/// cancel the factor of multiply().
template <int kOctets>
constexpr auto kSteps = [] {
  std::array<std::uint32_t, 256> steps{};
  const std::uint32_t step = crc32_field::power_of_x(8 * kOctets);
  std::uint32_t power = crc32_field::power_of_x(-33);
  for (std::uint32_t& entry : steps) {
    entry = power;
    power = crc32_field::product(power, step);
  }
  return steps;
}();

}  // namespace

const Crc32Kernel& crc32_kernel() noexcept {
  const Crc32Kernel* choice = chosen.load(std::memory_order_relaxed);
  if (choice == nullptr) [[unlikely]]
    return choose();
  return *choice;
}

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> octets) noexcept {
  return crc32_kernel().update(state, octets.data(), octets.size());
}

std::uint32_t crc32_copy(std::uint32_t state, std::byte* to,
                         std::span<const std::byte> from) noexcept {
  return crc32_kernel().copy(state, to, from.data(), from.size());
}

std::uint32_t crc32_before_zeroes(std::uint32_t state, std::size_t octets) noexcept {
  VB_ASSERT(octets <= kCrc32MaxZeroes);
  const auto multiply = crc32_kernel().multiply;
  return multiply(state, multiply(kSteps<-1>[octets & 0xff], kSteps<-256>[octets >> 8]));
}

std::uint32_t crc32_after_zeroes(std::uint32_t state, std::size_t octets) noexcept {
  VB_ASSERT(octets <= kCrc32MaxZeroes);
  const auto multiply = crc32_kernel().multiply;
  return multiply(state, multiply(kSteps<1>[octets & 0xff], kSteps<256>[octets >> 8]));
}

const char* crc32_implementation() noexcept { return crc32_kernel().name; }

}  // namespace verbatim::wire

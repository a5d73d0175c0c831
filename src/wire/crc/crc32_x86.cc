// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/crc/crc32_kernels.h"
#include "wire/crc/crc32_slicing.h"
#include "wire/crc/crc32_tables.h"

// Folding with the carry-less multiplication: four accumulators of 16 octets pass over the message.
// Each is moved 64 octets ahead and added to the octets there. Then the first three are moved onto
// the last one, which tables reduce.

namespace verbatim::wire {
namespace {

constexpr std::size_t kLanes = 4;
constexpr std::size_t kBlock = 16 * kLanes;
constexpr auto kFolds = crc32_folds<kLanes + 1>();

struct Lane {
  __m128i octets;
};

[[gnu::target("pclmul,sse4.1")]] inline Lane fold_of(std::size_t distance) noexcept {
  return {_mm_set_epi64x(static_cast<long long>(kFolds[distance].late),
                         static_cast<long long>(kFolds[distance].early))};
}

[[gnu::target("pclmul,sse4.1")]] inline Lane moved(Lane lane, Lane fold, Lane onto) noexcept {
  const __m128i early = _mm_clmulepi64_si128(lane.octets, fold.octets, 0x00);
  const __m128i late = _mm_clmulepi64_si128(lane.octets, fold.octets, 0x11);
  return {_mm_xor_si128(_mm_xor_si128(early, late), onto.octets)};
}

[[gnu::target("pclmul,sse4.1")]] inline std::uint32_t reduced(Lane lane) noexcept {
  const auto early = static_cast<std::uint64_t>(_mm_cvtsi128_si64(lane.octets));
  const auto late = static_cast<std::uint64_t>(_mm_extract_epi64(lane.octets, 1));
  return crc32_slice(early, late);
}

/// At least one block.
template <bool kCopies>
[[gnu::target("pclmul,sse4.1")]] std::uint32_t folded(std::uint32_t state,
                                                      Crc32Stream<kCopies> stream,
                                                      std::size_t octets) noexcept {
  Lane a = stream.template take<Lane>(0);
  Lane b = stream.template take<Lane>(16);
  Lane c = stream.template take<Lane>(32);
  Lane d = stream.template take<Lane>(48);
  a.octets = _mm_xor_si128(a.octets, _mm_cvtsi32_si128(static_cast<int>(state)));
  std::size_t at = kBlock;
  const Lane over_block = fold_of(kLanes);
  for (; octets - at >= kBlock; at += kBlock) {
    a = moved(a, over_block, stream.template take<Lane>(at));
    b = moved(b, over_block, stream.template take<Lane>(at + 16));
    c = moved(c, over_block, stream.template take<Lane>(at + 32));
    d = moved(d, over_block, stream.template take<Lane>(at + 48));
  }
  d = moved(a, fold_of(3), moved(b, fold_of(2), moved(c, fold_of(1), d)));
  for (; octets - at >= 16; at += 16) d = moved(d, fold_of(1), stream.template take<Lane>(at));
  return crc32_by_slicing(reduced(d), stream, at, octets);
}

bool has_pclmul() noexcept {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

std::uint32_t update(std::uint32_t state, const std::byte* from, std::size_t octets) noexcept {
  const Crc32Stream<false> stream{from, nullptr};
  return octets < kBlock ? crc32_by_slicing(state, stream, 0, octets)
                         : folded(state, stream, octets);
}

std::uint32_t copy(std::uint32_t state, std::byte* to, const std::byte* from,
                   std::size_t octets) noexcept {
  const Crc32Stream<true> stream{from, to};
  return octets < kBlock ? crc32_by_slicing(state, stream, 0, octets)
                         : folded(state, stream, octets);
}

std::uint32_t copy_behind(std::uint32_t state, std::uint32_t word, std::byte* to,
                          const std::byte* from, std::size_t octets) noexcept {
  return copy(crc32_over(state, word), to, from, octets);
}

[[gnu::target("pclmul,sse4.1")]] std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  const __m128i wide = _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)),
                                            _mm_cvtsi32_si128(static_cast<int>(b)), 0);
  return crc32_slice(static_cast<std::uint64_t>(_mm_cvtsi128_si64(wide)));
}

constexpr Crc32Kernel kKernels[] = {{.name = "PCLMULQDQ",
                                     .runs_here = has_pclmul,
                                     .update = update,
                                     .copy = copy,
                                     .copy_behind = copy_behind,
                                     .multiply = multiply}};

}  // namespace

std::span<const Crc32Kernel> native_crc32_kernels() noexcept { return kKernels; }

}  // namespace verbatim::wire

#endif

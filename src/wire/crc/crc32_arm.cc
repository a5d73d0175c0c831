// SPDX-License-Identifier: Apache-2.0
#if defined(__AARCH64EL__)

#include <arm_neon.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/crc/crc32_kernels.h"
#include "wire/crc/crc32_tables.h"

// A core has a CRC unit that takes 8 octets a cycle and, beside it, carry-less multipliers that
// fold 16 octets a cycle. Long inputs use both at once: the first two thirds are folded in vector
// registers while the CRC instruction handles the last third. At the end the folded part is moved
// over the last part and added. Short inputs use the CRC instruction alone, which needs no
// preparation.
//
// The instructions are assembly: the headers of clang 14 hide their intrinsics unless the whole
// file, and with it every inline function that it shares with other files, is compiled for a CPU
// that has them. `.arch_extension` and `.arch` affect only the assembler.

namespace verbatim::wire {
namespace {

using Lane = uint64x2_t;  // 16 octets

[[gnu::always_inline]] inline std::uint32_t crc(std::uint32_t state, std::uint64_t word) noexcept {
  asm(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(state) : "r"(word));
  return state;
}

[[gnu::always_inline]] inline std::uint32_t crc(std::uint32_t state, std::uint32_t word) noexcept {
  asm(".arch_extension crc\n\tcrc32w %w0, %w0, %w1" : "+r"(state) : "r"(word));
  return state;
}

[[gnu::always_inline]] inline std::uint32_t crc(std::uint32_t state, std::uint16_t half) noexcept {
  asm(".arch_extension crc\n\tcrc32h %w0, %w0, %w1" : "+r"(state) : "r"(half));
  return state;
}

[[gnu::always_inline]] inline std::uint32_t crc(std::uint32_t state, std::uint8_t octet) noexcept {
  asm(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(state) : "r"(octet));
  return state;
}

[[gnu::always_inline]] inline Lane early_product(Lane a, Lane b) noexcept {
  Lane product;
  asm(".arch_extension aes\n\tpmull %0.1q, %1.1d, %2.1d" : "=w"(product) : "w"(a), "w"(b));
  return product;
}

[[gnu::always_inline]] inline Lane late_product(Lane a, Lane b) noexcept {
  Lane product;
  asm(".arch_extension aes\n\tpmull2 %0.1q, %1.2d, %2.2d" : "=w"(product) : "w"(a), "w"(b));
  return product;
}

/// Exclusive or of three; with kEor3 by the one instruction that newer cores have for it.
template <bool kEor3>
[[gnu::always_inline]] inline Lane sum(Lane a, Lane b, Lane c) noexcept {
  if constexpr (!kEor3) return (a ^ b) ^ c;
  Lane result;
#if defined(__ARM_FEATURE_SHA3)
  asm("eor3 %0.16b, %1.16b, %2.16b, %3.16b" : "=w"(result) : "w"(a), "w"(b), "w"(c));
#else  // the assembler wants the base that the extension came with
  asm(".arch armv8.2-a+sha3\n\teor3 %0.16b, %1.16b, %2.16b, %3.16b"
      : "=w"(result)
      : "w"(a), "w"(b), "w"(c));
#endif
  return result;
}

struct Words {
  std::uint64_t first;
  std::uint64_t second;
};

[[gnu::always_inline]] inline std::uint32_t crc(std::uint32_t state, Words words) noexcept {
  return crc(crc(state, words.first), words.second);
}

/// The CRC instruction alone.
template <bool kCopies>
[[gnu::always_inline]] inline std::uint32_t by_instruction(std::uint32_t state,
                                                           Crc32Stream<kCopies> stream,
                                                           std::size_t at,
                                                           std::size_t end) noexcept {
  for (; end - at >= 32; at += 32) {
    state = crc(state, stream.template take<Words>(at));
    state = crc(state, stream.template take<Words>(at + 16));
  }
  const std::size_t left = end - at;
  if ((left & 16) != 0) {
    state = crc(state, stream.template take<Words>(at));
    at += 16;
  }
  if ((left & 8) != 0) {
    state = crc(state, stream.template take<std::uint64_t>(at));
    at += 8;
  }
  if ((left & 4) != 0) {
    state = crc(state, stream.template take<std::uint32_t>(at));
    at += 4;
  }
  if ((left & 2) != 0) {
    state = crc(state, stream.template take<std::uint16_t>(at));
    at += 2;
  }
  if ((left & 1) != 0) state = crc(state, stream.template take<std::uint8_t>(at));
  return state;
}

// Six lanes hide the six cycles that one fold takes, and six CRC instructions fit beside them. On a
// Neoverse V1 that makes 24 octets a cycle, the most that its units can do.
constexpr std::size_t kLanes = 6;
constexpr std::size_t kFolded = 16 * kLanes;  // octets of a block that are folded
constexpr std::size_t kBeside = 8 * kLanes;   // octets of a block for the CRC instruction
constexpr std::size_t kMaxPiece = 4688;       // so that a payload of 4096 and its headers are one
constexpr std::size_t kHybridFrom = 240;  // octets; with fewer, combining costs more than it saves

/// Divides a piece into a front part, which is folded, and a back part for the CRC instruction. The
/// front part is as long as possible while every fold has its share of the back part beside it. Its
/// first lanes are not yet folded, so they need none. The rest of the back part is handled while
/// the two are combined.
struct Piece {
  Piece(std::size_t from, std::size_t end_of_input) noexcept : front(from) {
    const std::size_t octets = std::min(end_of_input - from, kMaxPiece);
    back = from + (octets + kBeside) / (kFolded + kBeside) * kFolded;
    end = from + octets - octets % 16;
  }
  std::size_t front = 0;
  std::size_t back = 0;
  std::size_t end = 0;  // whole lanes behind the others
};

// The farthest that a lane is moved: from the first of a piece to the last.
constexpr auto kFolds = crc32_folds<kMaxPiece / 16>();

[[gnu::always_inline]] inline Lane fold_of(std::size_t distance) noexcept {
  return Lane{kFolds[distance].early, kFolds[distance].late};
}

template <bool kEor3, bool kCopies>
[[gnu::always_inline]] inline std::uint32_t over_piece(std::uint32_t state,
                                                       Crc32Stream<kCopies> stream,
                                                       const Piece& piece) noexcept {
  Lane lanes[kLanes];
#pragma GCC unroll 6
  for (std::size_t i = 0; i < kLanes; ++i) {
    lanes[i] = stream.template take<Lane>(piece.front + 16 * i);
  }
  std::uint32_t back_state = 0;
  std::size_t at = piece.back;
  const Lane to_next = fold_of(kLanes);
  for (std::size_t front = piece.front + kFolded; front != piece.back; front += kFolded) {
#pragma GCC unroll 6
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = sum<kEor3>(early_product(lanes[i], to_next), late_product(lanes[i], to_next),
                            stream.template take<Lane>(front + 16 * i));
      if (i % 2 == 1) back_state = crc(back_state, stream.template take<Words>(at + 8 * (i - 1)));
    }
    at += kBeside;
  }

  const std::size_t back_lanes = (piece.end - piece.back) / 16;
  Lane moved[kLanes];
#pragma GCC unroll 6
  for (std::size_t i = 0; i < kLanes; ++i) {
    const Lane to_end = fold_of(back_lanes + kLanes - 1 - i);
    moved[i] = early_product(lanes[i], to_end) ^ late_product(lanes[i], to_end);
  }
  // The register belongs to the first octets. It is moved separately and needed only here, so the
  // previous computation need not be finished when a piece begins.
  const Lane start_to_end = fold_of((piece.end - piece.front) / 16 - 1);
  const Lane start = early_product(Lane{state, 0}, start_to_end);
  const Lane front_sum = sum<kEor3>(sum<kEor3>(moved[0], moved[1], moved[2]),
                                    sum<kEor3>(moved[3], moved[4], moved[5]), start);
  for (; at != piece.end; at += 16) back_state = crc(back_state, stream.template take<Words>(at));
  return back_state ^ crc(0, Words{front_sum[0], front_sum[1]});
}

template <bool kEor3, bool kCopies>
[[gnu::always_inline]] inline std::uint32_t hybrid(std::uint32_t state, Crc32Stream<kCopies> stream,
                                                   std::size_t octets) noexcept {
  std::size_t at = 0;
  while (octets - at >= kHybridFrom) {
    const Piece piece(at, octets);
    state = over_piece<kEor3>(state, stream, piece);
    at = piece.end;
  }
  return by_instruction(state, stream, at, octets);
}

enum class Method { kInstruction, kHybrid, kHybridEor3 };

template <Method kMethod, bool kCopies>
[[gnu::always_inline]] inline std::uint32_t by(std::uint32_t state, Crc32Stream<kCopies> stream,
                                               std::size_t octets) noexcept {
  if (kMethod == Method::kInstruction || octets < kHybridFrom) {
    return by_instruction(state, stream, 0, octets);
  }
  return hybrid<kMethod == Method::kHybridEor3>(state, stream, octets);
}

template <Method kMethod>
std::uint32_t update(std::uint32_t state, const std::byte* from, std::size_t octets) noexcept {
  return by<kMethod>(state, Crc32Stream<false>{from, nullptr}, octets);
}

template <Method kMethod>
std::uint32_t copy(std::uint32_t state, std::byte* to, const std::byte* from,
                   std::size_t octets) noexcept {
  return by<kMethod>(state, Crc32Stream<true>{from, to}, octets);
}

template <Method kMethod>
std::uint32_t copy_behind(std::uint32_t state, std::uint32_t word, std::byte* to,
                          const std::byte* from, std::size_t octets) noexcept {
  return by<kMethod>(crc(state, word), Crc32Stream<true>{from, to}, octets);
}

template <Method kMethod>
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  if constexpr (kMethod == Method::kInstruction) return crc(0, crc32_field::wide_product(a, b));
  return crc(0, std::uint64_t{early_product(Lane{a, 0}, Lane{b, 0})[0]});
}

template <unsigned long kCapabilities>
bool has() noexcept {
  return (getauxval(AT_HWCAP) & kCapabilities) == kCapabilities;
}

constexpr Crc32Kernel kKernels[] = {
    {.name = "PMULL and EOR3 beside CRC32X",
     .runs_here = has<HWCAP_CRC32 | HWCAP_PMULL | HWCAP_SHA3>,
     .update = update<Method::kHybridEor3>,
     .copy = copy<Method::kHybridEor3>,
     .copy_behind = copy_behind<Method::kHybridEor3>,
     .multiply = multiply<Method::kHybridEor3>},
    {.name = "PMULL beside CRC32X",
     .runs_here = has<HWCAP_CRC32 | HWCAP_PMULL>,
     .update = update<Method::kHybrid>,
     .copy = copy<Method::kHybrid>,
     .copy_behind = copy_behind<Method::kHybrid>,
     .multiply = multiply<Method::kHybrid>},
    {.name = "CRC32X",
     .runs_here = has<HWCAP_CRC32>,
     .update = update<Method::kInstruction>,
     .copy = copy<Method::kInstruction>,
     .copy_behind = copy_behind<Method::kInstruction>,
     .multiply = multiply<Method::kInstruction>},
};

}  // namespace

std::span<const Crc32Kernel> native_crc32_kernels() noexcept { return kKernels; }

}  // namespace verbatim::wire

#endif

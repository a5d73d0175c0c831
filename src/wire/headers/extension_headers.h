// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "wire/headers/aeth.h"
#include "wire/headers/ids.h"

/// The extended transport headers that follow a BTH (IBA Vol 1, 9.3). The opcode determines which
/// of them a packet has, and PacketView has checked that the octets are present. So each is a plain
/// value with `emit` and `from`, and the layout above it.
namespace verbatim::wire {

/// Datagram: 0..3 Q_Key | 4 reserved | 5..7 source QP
struct Deth {
  static constexpr std::size_t kSize = 8;
  QKey qkey{};
  QpNumber source_qp{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(to, static_cast<std::uint32_t>(qkey));
    store_be<std::uint32_t, 4>(to, static_cast<std::uint32_t>(source_qp) & kQpNumberMask);
  }
  static Deth from(std::span<const std::byte, kSize> octets) noexcept {
    return {.qkey = QKey{load_be<std::uint32_t, 0>(octets)},
            .source_qp = QpNumber{load_be<std::uint32_t, 4>(octets) & kQpNumberMask}};
  }
};

/// Extended reliable connected: 0 reserved | 1..3 number of the shared receive queue
struct XrcEth {
  static constexpr std::size_t kSize = 4;
  SrqNumber srq{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(to, static_cast<std::uint32_t>(srq) & kQpNumberMask);
  }
  static XrcEth from(std::span<const std::byte, kSize> octets) noexcept {
    return {.srq = SrqNumber{load_be<std::uint32_t, 0>(octets) & kQpNumberMask}};
  }
};

/// RDMA: 0..7 virtual address | 8..11 R_Key | 12..15 DMA length
struct Reth {
  static constexpr std::size_t kSize = 16;
  std::uint64_t address = 0;
  MemoryKey rkey{};
  std::uint32_t dma_octets = 0;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint64_t, 0>(to, address);
    store_be<std::uint32_t, 8>(to, static_cast<std::uint32_t>(rkey));
    store_be<std::uint32_t, 12>(to, dma_octets);
  }
  static Reth from(std::span<const std::byte, kSize> octets) noexcept {
    return {.address = load_be<std::uint64_t, 0>(octets),
            .rkey = MemoryKey{load_be<std::uint32_t, 8>(octets)},
            .dma_octets = load_be<std::uint32_t, 12>(octets)};
  }
};

/// Atomic: 0..7 virtual address | 8..11 R_Key | 12..19 swap or add | 20..27 compare
struct AtomicEth {
  static constexpr std::size_t kSize = 28;
  std::uint64_t address = 0;
  MemoryKey rkey{};
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint64_t, 0>(to, address);
    store_be<std::uint32_t, 8>(to, static_cast<std::uint32_t>(rkey));
    store_be<std::uint64_t, 12>(to, swap_or_add);
    store_be<std::uint64_t, 20>(to, compare);
  }
  static AtomicEth from(std::span<const std::byte, kSize> octets) noexcept {
    return {.address = load_be<std::uint64_t, 0>(octets),
            .rkey = MemoryKey{load_be<std::uint32_t, 8>(octets)},
            .swap_or_add = load_be<std::uint64_t, 12>(octets),
            .compare = load_be<std::uint64_t, 20>(octets)};
  }
};

/// Atomic acknowledge: the eight octets from before the operation.
struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;
  std::uint64_t original = 0;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint64_t, 0>(to, original);
  }
  static AtomicAckEth from(std::span<const std::byte, kSize> octets) noexcept {
    return {.original = load_be<std::uint64_t, 0>(octets)};
  }
};

/// Immediate data. The verbs keep it in network order, so it is copied and never swapped.
struct ImmDt {
  static constexpr std::size_t kSize = 4;
  Immediate immediate{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    std::memcpy(to.data(), &immediate, sizeof immediate);
  }
  static ImmDt from(std::span<const std::byte, kSize> octets) noexcept {
    ImmDt header;
    std::memcpy(&header.immediate, octets.data(), sizeof header.immediate);
    return header;
  }
};

/// Invalidate: the R_Key that the responder invalidates.
struct Ieth {
  static constexpr std::size_t kSize = 4;
  MemoryKey rkey{};

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(to, static_cast<std::uint32_t>(rkey));
  }
  static Ieth from(std::span<const std::byte, kSize> octets) noexcept {
    return {.rkey = MemoryKey{load_be<std::uint32_t, 0>(octets)}};
  }
};

/// Flush (annex A19): reserved 26 | selectivity 2 | placement type 4
struct Feth {
  static constexpr std::size_t kSize = 4;
  enum Selectivity : std::uint8_t { kRange = 0, kWholeRegion = 1 };
  enum Placement : std::uint8_t { kGlobalVisibility = 1, kPersistence = 2 };
  std::uint8_t selectivity = kRange;
  std::uint8_t placement = kGlobalVisibility;

  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint32_t, 0>(to, ((selectivity & 3U) << 4) | (placement & 0xfU));
  }
  static Feth from(std::span<const std::byte, kSize> octets) noexcept {
    const auto word = load_be<std::uint32_t, 0>(octets);
    return {.selectivity = static_cast<std::uint8_t>((word >> 4) & 3),
            .placement = static_cast<std::uint8_t>(word & 0xf)};
  }
};

/// A CNP ends in 16 reserved octets, sent as zero (annex A17).
inline constexpr std::size_t kCnpReservedOctets = 16;

}  // namespace verbatim::wire

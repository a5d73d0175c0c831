// SPDX-License-Identifier: Apache-2.0
// How fast is our CRC-32, alone and fused with the copy, against ISA-L's and against memcpy? And
// what does a packet's ICRC cost? Everything is timed in turn, many rounds over, and the median of
// each counts: on a busy machine only ratios from one run mean something.
#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "wire/crc/crc32.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet_builder.h"

namespace {

using namespace verbatim::wire;

constexpr std::size_t kSizes[] = {64, 256, 1024, 4096, 65536};
constexpr int kRounds = 41;
constexpr std::size_t kOctetsPerRound = 1 << 20;  // some 20 to 100 us, below a scheduler's slice

struct Buffers {
  alignas(64) std::array<std::byte, 1 << 17> from{};
  alignas(64) std::array<std::byte, 1 << 17> to{};
};
Buffers buffers;

/// Takes the register and a size; the register it returns feeds the next call, as a packet's does.
using Work = std::uint32_t (*)(std::uint32_t state, std::size_t octets);
struct Contender {
  const char* name;
  Work work;
};

std::uint32_t run_update(std::uint32_t state, std::size_t octets) {
  return crc32_update(state, std::span(buffers.from).first(octets));
}
std::uint32_t run_copy(std::uint32_t state, std::size_t octets) {
  return crc32_copy(state, buffers.to.data(), std::span(buffers.from).first(octets));
}
std::uint32_t run_isal(std::uint32_t state, std::size_t octets) {
  const void* from = buffers.from.data();
  return ~crc32_gzip_refl(~state, static_cast<const unsigned char*>(from), octets);
}
std::uint32_t run_memcpy(std::uint32_t state, std::size_t octets) {
  std::memcpy(buffers.to.data(), buffers.from.data(), octets);
  asm volatile("" ::: "memory");  // keeps the copy, although it is not read
  return state;
}
std::uint32_t run_memcpy_then_isal(std::uint32_t state, std::size_t octets) {
  return run_isal(run_memcpy(state, octets), octets);
}

constexpr Contender kContenders[] = {{"ours, CRC", run_update},
                                     {"ours, copy and CRC", run_copy},
                                     {"ISA-L, CRC", run_isal},
                                     {"memcpy", run_memcpy},
                                     {"memcpy, then ISA-L", run_memcpy_then_isal}};

IcrcSeed seed_of_flow() {
  Gid gid;
  gid.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  return IcrcSeed::roce_v2(gid, gid, 0xc000);
}

/// Headers, copied payload, ICRC: what a sender does for each packet.
std::uint32_t run_build(std::uint32_t state, std::size_t octets) {
  static const IcrcSeed seed = seed_of_flow();
  PacketHeaders headers;
  headers.bth = {.opcode = opcode_of(Transport::kRc, Operation::kSendMiddle), .psn = Psn(state)};
  PacketBuilder builder(buffers.to, headers, octets, {.seed = &seed});
  builder.append(std::span(buffers.from).first(octets));
  return state + static_cast<std::uint32_t>(builder.finish());
}

template <std::uint16_t kIdentification>
std::uint32_t run_verify(std::uint32_t state, std::size_t octets) {
  static const IcrcSeed seed = seed_of_flow();
  static std::array<std::vector<std::byte>, 8> packets;  // by the logarithm of their size
  auto& packet = packets[static_cast<std::size_t>(std::countr_zero(octets)) % 8];
  if (packet.size() != octets + Bth::kSize + kIcrcSize) {
    packet.assign(octets + Bth::kSize + kIcrcSize, std::byte{0x5a});
    const std::span<std::byte> whole(packet);
    const auto covered = whole.first(octets + Bth::kSize);
    store_icrc(whole.last<kIcrcSize>(),
               icrc_over_headers(seed.start(packet.size(), kIdentification), covered));
  }
  return state + verify_icrc(seed, packet).value_or(0xffff);
}

constexpr Contender kPacketWork[] = {{"build a packet", run_build},
                                     {"verify, identification 0", run_verify<0>},
                                     {"verify, identification 7", run_verify<7>}};

double nanoseconds_per_call(Work work, std::size_t octets) {
  const std::size_t calls = std::max<std::size_t>(kOctetsPerRound / octets, 8);
  std::uint32_t state = kCrc32Preset;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < calls; ++i) state = work(state, octets);
  const auto end = std::chrono::steady_clock::now();
  asm volatile("" ::"r"(state));
  return std::chrono::duration<double, std::nano>(end - start).count() / static_cast<double>(calls);
}

/// The median of each contender, timed in turns.
std::vector<double> medians(std::span<const Contender> contenders, std::size_t octets) {
  std::vector<std::array<double, kRounds>> times(contenders.size());
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      times[i][round] = nanoseconds_per_call(contenders[i].work, octets);
    }
  }
  std::vector<double> medians;
  for (auto& each : times) {
    std::nth_element(each.begin(), each.begin() + kRounds / 2, each.end());
    medians.push_back(each[kRounds / 2]);
  }
  return medians;
}

void print_row(const char* name, std::span<const double> values, int decimals) {
  std::printf("%-28s", name);
  for (const double value : values) std::printf("%10.*f", decimals, value);
  std::printf("\n");
}

void print_sizes(const char* unit, std::span<const std::size_t> sizes) {
  std::printf("\n");
  print_row(unit, std::vector<double>(sizes.begin(), sizes.end()), 0);
}

/// One row per contender, one column per size.
using Table = std::vector<std::vector<double>>;

Table time_all(std::span<const Contender> contenders, std::span<const std::size_t> sizes) {
  Table table(contenders.size());
  for (const std::size_t size : sizes) {
    const auto column = medians(contenders, size);
    for (std::size_t i = 0; i < column.size(); ++i) table[i].push_back(column[i]);
  }
  return table;
}

void compare_crcs() {
  const Table times = time_all(kContenders, kSizes);
  print_sizes("GB/s, octets:", kSizes);
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::vector<double> rates;
    for (std::size_t j = 0; j < times[i].size(); ++j) {
      rates.push_back(static_cast<double>(kSizes[j]) / times[i][j]);
    }
    print_row(kContenders[i].name, rates, 1);
  }
  print_sizes("times as fast, octets:", kSizes);
  const auto print_ratio = [&](const char* name, std::size_t ours, std::size_t theirs) {
    std::vector<double> ratios;
    for (std::size_t j = 0; j < times[ours].size(); ++j) {
      ratios.push_back(times[theirs][j] / times[ours][j]);
    }
    print_row(name, ratios, 2);
  };
  print_ratio("CRC / ISA-L", 0, 2);
  print_ratio("copy and CRC / both apart", 1, 4);
  print_ratio("CRC / memcpy", 0, 3);
  print_ratio("copy and CRC / memcpy", 1, 3);
}

void time_packets() {
  const auto payloads = std::span(kSizes).first<4>();  // a packet carries no more than 4096
  const Table times = time_all(kPacketWork, payloads);
  print_sizes("ns per packet, payload:", payloads);
  for (std::size_t i = 0; i < times.size(); ++i) print_row(kPacketWork[i].name, times[i], 1);
}

}  // namespace

int main() {
  for (std::size_t i = 0; i < buffers.from.size(); ++i) {
    buffers.from[i] = static_cast<std::byte>(i * 131 >> 3);
  }
  std::printf("CRC-32 by: %s\n", crc32_implementation());
  compare_crcs();
  time_packets();
  return 0;
}

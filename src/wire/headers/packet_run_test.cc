// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/packet_run.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/headers/packet_builder.h"
#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::Octets;

const Gid kSource = test::gid("00000000000000000000ffff0a000001");
const Gid kDestination = test::gid("00000000000000000000ffff0a000002");
const Gid kSource6 = test::gid("20010db8000000000000000000000001");
const Gid kDestination6 = test::gid("20010db8000000000000000000000002");

Bth random_bth(Prng& prng) {
  constexpr std::array kOperations{Operation::kSendFirst, Operation::kSendMiddle,
                                   Operation::kSendLast, Operation::kWriteMiddle,
                                   Operation::kWriteLast};
  return {.opcode = opcode_of(Transport::kRc, kOperations[prng.below(kOperations.size())]),
          .solicited = prng.below(2) == 0,
          .migrated = prng.below(2) == 0,
          .pkey = PKey{static_cast<std::uint16_t>(prng.below(0x10000))},
          .fecn = prng.below(2) == 0,
          .becn = prng.below(2) == 0,
          .dest_qp = QpNumber{static_cast<std::uint32_t>(prng.below(0x1000000))},
          .ack_request = prng.below(2) == 0,
          .psn = Psn(static_cast<std::uint32_t>(prng.below(0x1000000)))};
}

TEST(PacketRun, WritesWhatTheBuilderWrites) {
  Prng prng(23);
  const IcrcSeed seeds[] = {IcrcSeed::roce_v2(kSource, kDestination, 0xc123),
                            IcrcSeed::roce_v2(kSource6, kDestination6, 0xd001),
                            IcrcSeed::roce_v1(kSource6, kDestination6)};
  for (const IcrcSeed& seed : seeds) {
    for (const std::size_t mtu : {4U, 256U, 512U, 1024U, 2048U, 4096U}) {
      const std::size_t count = prng.between(1, 9);
      const auto first = static_cast<std::uint16_t>(prng.below(0x10000));
      const std::size_t each = PacketRun::octets_for(mtu);
      Octets frame(each * count + 8, std::byte{0xee});
      PacketRun run(frame, mtu, seed, first);
      Octets expected;
      PacketHeaders headers;
      for (std::size_t i = 0; i < count; ++i) {
        const Octets payload = test::random_octets(prng, mtu);
        if (i == 0 || prng.below(2) == 0) {
          headers.bth = random_bth(prng);
          run.begin(headers.bth.front());
        }
        headers.bth.ack_request = prng.below(2) == 0;
        headers.bth.psn = headers.bth.psn + 1;
        run.append(headers.bth.back(), payload.data());
        Octets packet(each);
        PacketBuilder builder(
            packet, headers, mtu,
            {.seed = &seed, .ipv4_identification = static_cast<std::uint16_t>(first + i)});
        builder.append(payload);
        ASSERT_EQ(builder.finish(), each);
        expected.insert(expected.end(), packet.begin(), packet.end());
      }
      ASSERT_EQ(run.octets(), each * count);
      expected.resize(frame.size(), std::byte{0xee});  // nothing behind it is touched
      EXPECT_EQ(frame, expected);
    }
  }
}

TEST(IcrcRun, EveryBitOfTheBthCountsButThoseThatSwitchesChange) {
  IcrcRun run(IcrcSeed::roce_v2(kSource, kDestination, 0xc123), 1040);
  const auto register_of = [&](std::uint64_t front, std::uint32_t back, std::uint16_t number) {
    run.share(big_endian(front));
    return run.copy(big_endian(back), number, nullptr, {});
  };
  const std::uint32_t unchanged = register_of(0, 0, 7);
  for (std::size_t bit = 0; bit < 64; ++bit) {
    const bool is_of_switches = bit >= 24 && bit < 32;  // octet 4
    EXPECT_EQ(register_of(std::uint64_t{1} << bit, 0, 7) == unchanged, is_of_switches) << bit;
  }
  for (std::size_t bit = 0; bit < 32; ++bit) {
    EXPECT_NE(register_of(0, 1U << bit, 7), unchanged) << bit;
  }
  EXPECT_NE(register_of(0, 0, 8), unchanged);
}

TEST(IcrcRun, TheIcrcIsItsFourOctets) {
  std::array<std::byte, kIcrcSize> stored{};
  store_icrc(stored, 0x1234'5678);
  EXPECT_TRUE(is_icrc(stored, 0x1234'5678));
  EXPECT_FALSE(is_icrc(stored, 0x1234'5679));
}

}  // namespace
}  // namespace verbatim::wire

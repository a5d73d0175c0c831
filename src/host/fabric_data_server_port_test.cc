// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_data_server_port.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "base/pointer.h"
#include "base/prng.h"

namespace verbatim::host {
namespace {

constexpr std::uint32_t kBuffers = FabricDataArea::kBuffers;

/// A data port, and its area as the process has it.
struct Mapped {
  Mapped() {
    EXPECT_TRUE(port.open());
    void* mapped = ::mmap(nullptr, sizeof(FabricDataArea), PROT_READ | PROT_WRITE, MAP_SHARED,
                          port.descriptors()[0], 0);
    area = pointer_as<FabricDataArea>(mapped);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { ::munmap(area, sizeof(FabricDataArea)); }

  void post(std::uint32_t buffer, std::uint32_t octets) {
    area->sending[posted % kBuffers].store(buffer << 16 | octets);
    area->posted.store(++posted);
  }

  FabricDataServerPort port;
  FabricDataArea* area = nullptr;
  std::uint32_t posted = 0;
};

TEST(FabricDataServerPort, EntriesThatMakeNoSenseAreCountedAndNotTaken) {
  Mapped mapped;
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> nonsense = {
      {3, 0}, {3, FabricDataArea::kBufferOctets + 1}, {3, 0xffff}};
  for (const auto& [buffer, octets] : nonsense) {
    mapped.post(buffer, octets);
    EXPECT_TRUE(mapped.port.has_posted());
    EXPECT_FALSE(mapped.port.take_posted()) << buffer << " " << octets;
  }
  EXPECT_EQ(mapped.port.nonsense_count(), nonsense.size());
  EXPECT_FALSE(mapped.port.has_posted());
  mapped.post(3, 100);
  EXPECT_TRUE(mapped.port.take_posted());
}

TEST(FabricDataServerPort, ViolationsAreTakenByKeyWithTheLastOne) {
  Mapped mapped;
  EXPECT_FALSE(mapped.port.has_violations());
  auto& boxes = mapped.area->violations;
  for (const std::uint32_t key : {0x8001U, 0x8002U}) {
    boxes[0].add({.key = key, .dest_qp = 7, .source_lid = 3, .source_gid = {0xfe, 0x80}});
  }
  EXPECT_TRUE(mapped.port.has_violations());
  EXPECT_FALSE(mapped.port.begin_rest(0)) << "there is something to look at";
  EXPECT_EQ(mapped.port.take_violations(FabricKey::kQKey).count, 0U);
  const auto told = mapped.port.take_violations(FabricKey::kPKey);
  EXPECT_EQ(told.count, 2U);
  EXPECT_EQ(told.last.key, 0x8002U);
  EXPECT_EQ(told.last.dest_qp, 7U);
  EXPECT_EQ(told.last.source_lid, 3U);
  EXPECT_EQ(told.last.source_gid[1], 0x80);
  EXPECT_FALSE(mapped.port.has_violations());
  EXPECT_TRUE(mapped.port.begin_rest(0));
}

TEST(FabricDataServerPort, AnEntryHasTheRateOfThePath) {
  Mapped mapped;
  mapped.post(16U << 8 | 5, 100);
  const auto posted = mapped.port.take_posted();
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->rate, 16);
  EXPECT_EQ(posted->buffer, 5U);
}

TEST(FabricDataServerPort, ABufferThatWasTakenIsNotTakenAgain) {
  Mapped mapped;
  mapped.post(9, 100);
  mapped.post(9, 200);
  ASSERT_TRUE(mapped.port.take_posted());
  EXPECT_FALSE(mapped.port.take_posted());
  EXPECT_EQ(mapped.port.packet(9).size(), 100U);
  mapped.port.free_buffer(9);
  mapped.post(9, 300);
  EXPECT_TRUE(mapped.port.take_posted());
}

TEST(FabricDataServerPort, ACountThatIsTooFarAheadLooksLikeNothing) {
  Mapped mapped;
  mapped.area->posted.store(kBuffers + 1);
  EXPECT_FALSE(mapped.port.has_posted());
  mapped.area->posted.store(0xffff'ffff);
  EXPECT_FALSE(mapped.port.has_posted());
  EXPECT_TRUE(mapped.port.begin_rest(0)) << "so it keeps no processor busy";
}

/// The whole area, at any moment. The address sanitizer sees each access that is out of bounds.
TEST(FabricDataServerPort, AProcessThatWritesAnythingHarmsNothing) {
  Mapped mapped;
  Prng prng(1);
  constexpr std::size_t kWordsInFront = offsetof(FabricDataArea, buffers) / 8;
  auto* words = pointer_as<std::uint64_t>(mapped.area);
  std::vector<std::uint32_t> taken;
  std::uint64_t taken_count = 0;
  const std::vector<std::byte> packet(1'000, std::byte{0x5a});
  for (int round = 0; round < 200'000; ++round) {
    words[prng.below(kWordsInFront)] = prng.next() >> prng.below(64);
    if (prng.below(2) == 0) {  // something that may pass, as well
      mapped.area->posted.store(static_cast<std::uint32_t>(mapped.posted++));
      mapped.area->sending[prng.below(kBuffers)].store(
          static_cast<std::uint32_t>(prng.below(300) << 16 | prng.below(5'000)));
    }
    if (const auto posted = mapped.port.take_posted()) {
      ASSERT_LT(posted->buffer, kBuffers);
      ASSERT_LE(mapped.port.packet(posted->buffer).size(), FabricDataArea::kBufferOctets);
      taken.push_back(posted->buffer);
      ++taken_count;
    }
    while (taken.size() > prng.below(kBuffers)) {
      mapped.port.free_buffer(taken.back());
      taken.pop_back();
    }
    (void)mapped.port.put(packet);
    mapped.port.ring();
    if (mapped.port.begin_rest(prng.below(2) == 0 ? 0 : 1'000)) mapped.port.end_rest();
  }
  EXPECT_EQ(mapped.port.taken_count(), taken.size());
  EXPECT_GT(taken_count, 100U) << "the test reaches what it is about";
}

}  // namespace
}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#include "device/segment_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/pointer.h"
#include "device/limits.h"
#include "host/slot.h"

namespace verbatim::device {
namespace {

constexpr std::uint32_t kSlot = 3;
constexpr std::size_t kRoom = std::size_t{64} << 20;

class SegmentLayoutTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(segment.open(kRoom).ok()); }

  std::size_t offset_of(const void* record) const {
    return segment.offset_of(static_cast<const std::byte*>(record));
  }

  host::Segment segment;
  SegmentLayout layout;
};

TEST_F(SegmentLayoutTest, TheHeaderLiesAtOffsetZeroAndNamesWhatTheOwnerUses) {
  ASSERT_TRUE(layout.lay_out(segment, {.slot = kSlot}).ok());
  const host::SegmentHeader& header = layout.header();
  EXPECT_EQ(offset_of(&header), 0U);
  EXPECT_EQ(header.magic, host::SegmentHeader::kMagic);
  EXPECT_EQ(header.octets, segment.octets());
  EXPECT_EQ(header.slot, kSlot);
  EXPECT_EQ(header.adapter_at, offset_of(&layout.adapter()));

  constexpr std::uint32_t kPlace = 41;
  const wire::QpNumber number{kSlot * host::kNumbersPerSlot + kPlace};
  EXPECT_EQ(header.halves_at + kPlace * sizeof(direct::HalfRecord),
            offset_of(&layout.half(number)));
  EXPECT_EQ(header.queue_pairs_at + kPlace * sizeof(direct::QueuePairRecord),
            offset_of(&layout.queue_pair(number)));

  layout.bells().raise(kPlace);
  std::vector<std::uint32_t> rung;
  host::Bells as_a_peer_finds_them(pointer_as<std::byte>(&layout.header()) + header.bells_at);
  as_a_peer_finds_them.take([&](std::uint32_t index) { rung.push_back(index); });
  EXPECT_EQ(rung, std::vector<std::uint32_t>{kPlace});
}

TEST_F(SegmentLayoutTest, NothingOverlapsAndEverythingLiesInside) {
  ASSERT_TRUE(layout.lay_out(segment, {.slot = kSlot}).ok());
  const host::SegmentHeader& header = layout.header();
  struct Part {
    std::uint64_t at;
    std::uint64_t octets;
  };
  const std::array parts{
      Part{0, sizeof header},
      Part{header.keys_at, header.key_count * sizeof(memory::KeyEntry)},
      Part{header.halves_at, header.half_count * sizeof(direct::HalfRecord)},
      Part{header.bells_at, host::Bells::kOctets},
      Part{header.queue_pairs_at, header.half_count * sizeof(direct::QueuePairRecord)},
      Part{header.adapter_at, sizeof(AdapterRecord)}};
  for (const Part& part : parts) {
    EXPECT_TRUE(header.holds(part.at, 1, part.octets)) << part.at;
    for (const Part& other : parts) {
      if (&part == &other) continue;
      EXPECT_TRUE(part.at + part.octets <= other.at || other.at + other.octets <= part.at)
          << part.at << " and " << other.at;
    }
  }
}

TEST_F(SegmentLayoutTest, SaysWhatTheAdapterIs) {
  std::vector<GidEntry> addresses(host::SegmentHeader::kAddressCount + 1);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    addresses[i].gid.octets[15] = static_cast<std::uint8_t>(i + 1);
  }
  const std::string long_name(100, 'x');
  ASSERT_TRUE(layout
                  .lay_out(segment, {.slot = kSlot,
                                     .device = "vb0",
                                     .interface = long_name,
                                     .addresses = addresses,
                                     .path = DataPathPolicy::kPackets,
                                     .opened_at = Instant::at(Duration(42))})
                  .ok());
  const AdapterRecord& adapter = layout.adapter();
  EXPECT_STREQ(adapter.device.data(), "vb0");
  EXPECT_EQ(std::string(adapter.interface.data()), long_name.substr(0, 15));
  EXPECT_EQ(adapter.path, DataPathPolicy::kPackets);
  EXPECT_EQ(adapter.opened_at, 42);
  const host::SegmentHeader& header = layout.header();
  ASSERT_EQ(header.address_count, host::SegmentHeader::kAddressCount);
  for (std::size_t i = 0; i < header.address_count; ++i) {
    EXPECT_EQ(header.addresses[i], addresses[i].gid.octets);
  }
}

TEST(SegmentLayout, RefusesASegmentThatIsTooSmall) {
  host::Segment segment;
  ASSERT_TRUE(segment.open(std::size_t{1} << 20).ok());
  SegmentLayout layout;
  EXPECT_EQ(layout.lay_out(segment, {.slot = kSlot}).error(), Errc::kNoMemory);
}

}  // namespace
}  // namespace verbatim::device

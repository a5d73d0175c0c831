// SPDX-License-Identifier: Apache-2.0
#include "wire/management/sm_info.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

TEST(SmInfo, IsWrittenAndReadAsTheFigureShows) {
  const SmInfo info{.guid = Guid{0x0102030405060708},
                    .sm_key = 0x1112131415161718,
                    .activity_count = 0x21222324,
                    .priority = 14,
                    .state = SmState::kMaster};
  auto octets = test::hex("0102030405060708 1112131415161718 21222324 e3");
  octets.resize(SmInfo::kSize);
  EXPECT_EQ(test::emitted(info), octets);
  EXPECT_EQ(SmInfo::from(test::first<64>(octets)), info);
}

}  // namespace
}  // namespace verbatim::wire

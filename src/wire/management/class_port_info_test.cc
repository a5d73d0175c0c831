// SPDX-License-Identifier: Apache-2.0
#include "wire/management/class_port_info.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

ClassPortInfo example() {
  return {.base_version = 1,
          .class_version = 2,
          .capabilities = 0x1203,
          .capabilities_2 = 0x05060708,
          .response_time = 18,
          .redirect = {.gid = test::gid("11121314151617181920212223242526"),
                       .traffic_class = 0x31,
                       .level = ServiceLevel{0x4},
                       .flow_label = 0x51627,
                       .lid = Lid{0x3233},
                       .pkey = PKey{0x3435},
                       .qpn = QpNumber{0x363738},
                       .qkey = QKey{0x393a3b3c}},
          .trap = {.gid = test::gid("41424344454647484950515253545556"),
                   .traffic_class = 0x61,
                   .level = ServiceLevel{0x7},
                   .flow_label = 0x81927,
                   .lid = Lid{0x6263},
                   .pkey = PKey{0x6465},
                   .hop_limit = 0x66,
                   .qpn = QpNumber{0x676869},
                   .qkey = QKey{0x6a6b6c6d}}};
}
test::Octets example_octets() {
  // 0x05060708 in 27 bits, then 18 in 5.
  return test::hex(
      "01 02 1203 a0c0e112"
      "11121314151617181920212223242526 31451627 3233 3435 00363738 393a3b3c"
      "41424344454647484950515253545556 61781927 6263 6465 66676869 6a6b6c6d");
}

TEST(ClassPortInfo, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(test::emitted(example()), example_octets());
  EXPECT_EQ(ClassPortInfo::from(test::first<ClassPortInfo::kSize>(example_octets())), example());
}

TEST(ClassPortInfo, HasNoHopLimitInItsRedirection) {
  auto octets = example_octets();
  octets[32] = std::byte{9};
  EXPECT_EQ(ClassPortInfo::from(test::first<ClassPortInfo::kSize>(octets)), example());
}

TEST(ClassPortInfo, AnyOctetsAreSomeValueThatIsWrittenAgain) {
  Prng prng(1);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, ClassPortInfo::kSize);
    octets[32] = std::byte{0};  // reserved
    const auto info = ClassPortInfo::from(test::first<ClassPortInfo::kSize>(octets));
    EXPECT_EQ(test::emitted(info), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire

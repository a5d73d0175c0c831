// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/mkey_guard.h"

#include <gtest/gtest.h>

#include <chrono>

namespace verbatim::fabric {
namespace {

using std::chrono::seconds;
using wire::MadMethod;
using wire::MKey;

constexpr MKey kKey{0x1234};
constexpr MKey kOther{0x4321};

Instant at(int s) { return Instant::at(seconds(s)); }

wire::PortInfo port(std::uint8_t protection, std::uint16_t lease = 0) {
  wire::PortInfo info;
  info.mkey = kKey;
  info.mkey_protection = protection;
  info.mkey_lease_seconds = lease;
  return info;
}

TEST(MKeyGuard, APortWithoutAKeyAdmitsAll) {
  MKeyGuard guard;
  wire::PortInfo info;
  info.mkey_protection = 3;
  EXPECT_TRUE(guard.admits(at(0), info, MadMethod::kSet, kOther));
}

TEST(MKeyGuard, AWrongKeySetsNothing) {
  for (std::uint8_t protection = 0; protection < 4; ++protection) {
    MKeyGuard guard;
    auto info = port(protection);
    EXPECT_FALSE(guard.admits(at(0), info, MadMethod::kSet, kOther));
    EXPECT_EQ(info.mkey_violations, 1);
    EXPECT_TRUE(guard.admits(at(0), info, MadMethod::kSet, kKey));
    EXPECT_EQ(info.mkey_violations, 1);
  }
}

TEST(MKeyGuard, AWrongKeyReadsBelowProtectionTwo) {
  for (std::uint8_t protection = 0; protection < 4; ++protection) {
    MKeyGuard guard;
    auto info = port(protection);
    EXPECT_EQ(guard.admits(at(0), info, MadMethod::kGet, kOther), protection < 2);
    EXPECT_EQ(info.mkey_violations, protection < 2 ? 0 : 1);
  }
}

TEST(MKeyGuard, TheKeyItselfIsShownWithoutProtectionOnly) {
  EXPECT_TRUE(MKeyGuard::shows(port(0), kOther));
  EXPECT_FALSE(MKeyGuard::shows(port(1), kOther));
  EXPECT_TRUE(MKeyGuard::shows(port(1), kKey));
}

TEST(MKeyGuard, WhenTheLeaseEndsSoDoesTheProtection) {
  MKeyGuard guard;
  auto info = port(2, 10);
  EXPECT_FALSE(guard.admits(at(100), info, MadMethod::kGet, kOther));
  EXPECT_FALSE(guard.admits(at(105), info, MadMethod::kGet, kOther)) << "does not start it again";
  EXPECT_TRUE(guard.admits(at(110), info, MadMethod::kGet, kOther));
  EXPECT_EQ(info.mkey_protection, 0);
}

TEST(MKeyGuard, ARightKeyRenewsTheLease) {
  MKeyGuard guard;
  auto info = port(2, 10);
  EXPECT_FALSE(guard.admits(at(100), info, MadMethod::kGet, kOther));
  EXPECT_TRUE(guard.admits(at(109), info, MadMethod::kGet, kKey));
  EXPECT_FALSE(guard.admits(at(111), info, MadMethod::kGet, kOther));
  EXPECT_EQ(info.mkey_protection, 2);
}

TEST(MKeyGuard, ALeaseOfZeroNeverEnds) {
  MKeyGuard guard;
  auto info = port(3, 0);
  EXPECT_FALSE(guard.admits(at(0), info, MadMethod::kGet, kOther));
  EXPECT_FALSE(guard.admits(at(1'000'000), info, MadMethod::kGet, kOther));
}

TEST(MKeyGuard, ViolationsDoNotOverflow) {
  MKeyGuard guard;
  auto info = port(3);
  info.mkey_violations = 0xffff;
  EXPECT_FALSE(guard.admits(at(0), info, MadMethod::kSet, kOther));
  EXPECT_EQ(info.mkey_violations, 0xffff);
}

}  // namespace
}  // namespace verbatim::fabric

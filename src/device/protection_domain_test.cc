// SPDX-License-Identifier: Apache-2.0
#include "device/protection_domain.h"

#include <gtest/gtest.h>

#include <mutex>

#include "device/limits.h"
#include "device/test_management.h"

namespace verbatim::device {
namespace {

/// An adapter that is not open: its tables are there, and no system resource.
class ProtectionDomainTest : public ::testing::Test {
 protected:
  Adapter adapter_{test::loopback_port(), &test::FakeManagement::make};
};

TEST_F(ProtectionDomainTest, DomainsOfAnAdapterDiffer) {
  auto first = ProtectionDomain::create(adapter_);
  auto second = ProtectionDomain::create(adapter_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->id(), second->id());
  EXPECT_NE(first->id(), memory::DomainId::kNone);
}

TEST_F(ProtectionDomainTest, StaysWhileItContainsAnObject) {
  auto domain = ProtectionDomain::create(adapter_);
  ASSERT_TRUE(domain.ok());
  const auto change = [&](auto&& what) {
    const std::lock_guard lock(adapter_.mutex());
    what(adapter_.domains());
  };
  change([&](auto& domains) { ASSERT_TRUE(domains.add_user(domain->id()).ok()); });
  EXPECT_EQ(domain->destroy().error(), Errc::kBusy);
  change([&](auto& domains) { domains.drop_user(domain->id()); });
  EXPECT_TRUE(domain->destroy().ok());
  EXPECT_EQ(domain->destroy().error(), Errc::kInvalidArgument) << "it has ended";
}

TEST_F(ProtectionDomainTest, ADeviceHasAsManyAsItSays) {
  auto first = ProtectionDomain::create(adapter_);
  ASSERT_TRUE(first.ok());
  for (std::uint32_t i = 1; i < kMaxDomains; ++i) {
    ASSERT_TRUE(ProtectionDomain::create(adapter_).ok()) << i;
  }
  EXPECT_EQ(ProtectionDomain::create(adapter_).error(), Errc::kNoMemory);
  ASSERT_TRUE(first->destroy().ok());
  EXPECT_TRUE(ProtectionDomain::create(adapter_).ok());
}

}  // namespace
}  // namespace verbatim::device

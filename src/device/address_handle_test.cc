// SPDX-License-Identifier: Apache-2.0
#include "device/address_handle.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "device/protection_domain.h"
#include "device/test_management.h"

namespace verbatim::device {
namespace {

/// An adapter that is not open: its tables are there, and no system resource.
class AddressHandleTest : public ::testing::Test {
 protected:
  [[nodiscard]] Expected<AddressHandle> create(const Adapter::Destination& to) {
    return AddressHandle::create(adapter_, domain_.id(), to);
  }

  const wire::Gid far_ = test::ipv4(192, 0, 2, 7);
  Adapter adapter_{test::loopback_port(), &test::FakeManagement::make};
  ProtectionDomain domain_ = *ProtectionDomain::create(adapter_);
};

TEST_F(AddressHandleTest, ItsPathLeadsFromTheAdapterToTheDestination) {
  auto handle = create({.gid = far_, .traffic_class = 3, .hop_limit = 9, .flow_label = 0x12345});
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(handle->path().source, test::kLoopbackAddress);
  EXPECT_EQ(handle->path().destination, far_);
  EXPECT_EQ(handle->path().traffic_class, 3);
  EXPECT_EQ(handle->path().hop_limit, 9);
  EXPECT_EQ(handle->path().flow_label, 0x12345U);
  handle->destroy();
}

TEST_F(AddressHandleTest, ADestinationThatCannotBeReachedIsRefusedAndCountsNowhere) {
  for (const Adapter::Destination& to :
       {Adapter::Destination{.gid_index = 1, .gid = far_}, Adapter::Destination{},
        Adapter::Destination{.gid = test::ipv6(1)}}) {
    auto refused = create(to);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error(), Errc::kInvalidArgument);
  }
  EXPECT_TRUE(domain_.destroy().ok());
}

TEST_F(AddressHandleTest, ItKeepsItsDomainOpen) {
  auto first = create({.gid = far_});
  auto second = create({.gid = far_});
  ASSERT_TRUE(first.ok() && second.ok());
  first->destroy();
  EXPECT_EQ(domain_.destroy().error(), Errc::kBusy);
  second->destroy();
  EXPECT_TRUE(domain_.destroy().ok());
}

TEST_F(AddressHandleTest, ADeviceHasNoMoreThanItSays) {
  {
    const std::lock_guard lock(adapter_.mutex());
    for (std::uint32_t i = 1; i < kMaxAddressHandles; ++i) {
      ASSERT_TRUE(adapter_.quotas().address_handles.take().ok());
    }
  }
  auto last = create({.gid = far_});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(create({.gid = far_}).error(), Errc::kNoMemory);
  last->destroy();
  EXPECT_TRUE(domain_.destroy().ok()) << "the one that was refused does not count";
  domain_ = *ProtectionDomain::create(adapter_);
  EXPECT_TRUE(create({.gid = far_}).ok());
}

}  // namespace
}  // namespace verbatim::device

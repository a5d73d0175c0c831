// SPDX-License-Identifier: Apache-2.0
#include "device/adapter.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <functional>
#include <string>

#include "device/adapter_registry.h"
#include "device/test_management.h"
#include "host/own_descriptor.h"
#include "host/slot.h"
#include "udp/test_network.h"

namespace verbatim::device {
namespace {

using test::FakeManagement;

/// Calls `on_end` when the adapter destroys its management port, and closes the adapter.
void close_adapter(const std::function<void(const ManagementPort::Parts&)>& on_end) {
  std::string message;
  auto adapter = open_adapter(test::loopback_port(), &FakeManagement::make, message);
  ASSERT_TRUE(adapter.ok()) << message;
  FakeManagement::of(**adapter).on_end = on_end;
}

// The next process in the slot opens the names that the management port closes.
TEST(Adapter, TheManagementPortEndsWhileTheSlotIsHeld) {
  link::test::in_a_private_network([] {
    bool was_held = false;
    close_adapter([&](const ManagementPort::Parts& parts) {
      was_held = parts.slot.descriptor() >= 0 && !host::Slot::claim(parts.slot.number());
    });
    EXPECT_TRUE(was_held);
  });
}

// As long as a child has a connection of the management port open, other processes take this
// process for alive. So a fork by another thread waits, and a fork by this thread closes them.
TEST(Adapter, NoChildKeepsWhatTheManagementPortCloses) {
  link::test::in_a_private_network([] {
    host::OwnDescriptor connection(::eventfd(0, EFD_CLOEXEC));
    int ended = -1;
    close_adapter([&](const ManagementPort::Parts&) {
      ended = host::test::in_a_child([&] { EXPECT_FALSE(connection.is_still_own()); });
    });
    EXPECT_EQ(ended, 0);
    EXPECT_TRUE(connection.is_still_own());
  });
}

}  // namespace
}  // namespace verbatim::device

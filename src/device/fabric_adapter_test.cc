// SPDX-License-Identifier: Apache-2.0
// Adapters whose network is a fabric.
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "device/adapter_registry.h"
#include "device/clock.h"
#include "device/fabric_ports.h"
#include "device/test_management.h"
#include "host/test_fabric_data.h"
#include "host/test_process.h"

namespace verbatim::device {
namespace {

using namespace std::chrono_literals;
using host::test::DataFabric;
using host::test::FabricFolder;
using test::FakeManagement;

Duration processor_time() {
  timespec used{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// A process on the node "h0" of a fabric, which runs in the same process.
struct OnANode {
  OnANode() {
    ::setenv("VERBATIM_FABRIC", folder.fabric().c_str(), 1);
    ::setenv("VERBATIM_NODE", "h0", 1);
    const PortInfo port = fabric_port_of("h0", {.node = 5, .state = host::test::adapter_state()});
    fabric->serve_while([&] {
      std::string message;
      auto opened = open_adapter(port, &FakeManagement::make, message);
      EXPECT_TRUE(opened.ok()) << message;
      if (opened) adapter = *opened;
    });
  }
  /// As when its process is killed; waits until the adapter has noticed it.
  void end_fabric() {
    fabric.reset();
    while (!adapter->is_removed()) std::this_thread::sleep_for(1ms);
  }

  FabricFolder folder;
  std::unique_ptr<DataFabric> fabric = std::make_unique<DataFabric>(folder.place());
  std::shared_ptr<Adapter> adapter;
};

TEST(FabricAdapter, UsesNoProcessorWhenItsFabricHasEnded) {
  const int ended = host::test::in_a_child([] {
    OnANode node;
    ASSERT_TRUE(node.adapter);
    node.end_fabric();
    const Duration before = processor_time();
    const Instant begin = now();
    std::this_thread::sleep_for(300ms);
    // Also where others want the processors: a thread that never sleeps would get more than this.
    EXPECT_LT((processor_time() - before) * 20, now() - begin);
  });
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_captures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/byte_order.h"
#include "fabric/topology/generate.h"

namespace verbatim::tools {
namespace {

using testing::HasSubstr;

fabric::Topology tree() {
  std::string message;
  auto topology = fabric::tree_topology("2x2", {}, message);
  EXPECT_TRUE(topology.ok()) << message;
  return std::move(*topology);
}

class FabricCapturesTest : public testing::Test {
 protected:
  FabricCapturesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "vb-captures-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FabricCapturesTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] fabric::PortEnd port(std::uint32_t number) const {
    return fabric_.topology().links[number].a;
  }
  Status start(std::uint32_t number, const std::string& name, CaptureLimits limits = {}) {
    return captures_.start(now_,
                           {.port = port(number),
                            .port_name = "port" + std::to_string(number),
                            .file = file(name),
                            .limits = limits},
                           message_);
  }
  void pass(std::uint32_t number) {
    const std::vector<std::byte> octets(64, std::byte{0x11});
    captures_.take({.at = now_, .port = port(number), .handle = 1}, octets);
  }
  /// Waits for what must come, so the limit is for broken code only.
  FabricCaptures::State ended() {
    pollfd about{.fd = captures_.descriptor(), .events = POLLIN, .revents = 0};
    for (int tries = 0; tries < 60; ++tries) {
      EXPECT_EQ(::poll(&about, 1, 60'000), 1);
      captures_.handle_ends();
      if (auto state = captures_.poll_ended()) return *state;
    }
    ADD_FAILURE() << "no capture has ended";
    return {};
  }

  fabric::Fabric fabric_{tree()};
  FabricCaptures captures_{fabric_};
  std::string folder_;
  std::string message_;
  Instant now_ = Instant::at(std::chrono::seconds(5));
};

TEST_F(FabricCapturesTest, ACaptureEndsAfterItsNumberOfPackets) {
  ASSERT_TRUE(start(0, "a.pcapng", {.packets = 2})) << message_;
  for (int count = 0; count < 5; ++count) pass(0);
  const auto state = ended();
  EXPECT_EQ(state.progress.packets, 2U);
  EXPECT_EQ(ending_of(state), "port0: 2 packets in '" + file("a.pcapng") + "'");
  EXPECT_EQ(state.progress.octets, std::filesystem::file_size(file("a.pcapng")));
  EXPECT_TRUE(captures_.running().empty());
}

TEST_F(FabricCapturesTest, ACaptureEndsAfterItsTime) {
  ASSERT_TRUE(start(0, "a.pcapng", {.time = std::chrono::seconds(2)}));
  EXPECT_EQ(captures_.next_due(), now_ + std::chrono::seconds(2));
  captures_.turn(now_ + (std::chrono::seconds(2) - Duration(1)));
  pass(0);
  captures_.turn(now_ + std::chrono::seconds(2));
  EXPECT_EQ(captures_.next_due(), Instant::never());
  pass(0);
  EXPECT_EQ(ended().progress.packets, 1U);
}

TEST_F(FabricCapturesTest, PortsHaveTheirOwnFiles) {
  ASSERT_TRUE(start(0, "a.pcapng"));
  ASSERT_TRUE(start(1, "b.pcapng"));
  pass(0);
  pass(1);
  pass(1);
  EXPECT_TRUE(captures_.stop(port(0)));
  EXPECT_EQ(ended().port_name, "port0");
  const auto running = captures_.running();
  ASSERT_EQ(running.size(), 1U);
  EXPECT_EQ(running[0].progress.packets, 2U);
  EXPECT_THAT(captures_text(running), HasSubstr("port1"));
  EXPECT_EQ(captures_json(running)[0]["packets"], 2);
  EXPECT_FALSE(captures_.stop(port(0))) << "it has ended";
}

TEST_F(FabricCapturesTest, APortIsCapturedOnceAtATime) {
  ASSERT_TRUE(start(0, "a.pcapng"));
  EXPECT_EQ(start(0, "b.pcapng").error(), Errc::kBusy);
  EXPECT_EQ(message_, "port0 is being captured to '" + file("a.pcapng") +
                          "'; `capture stop port0` ends that");
  EXPECT_EQ(start(1, "a.pcapng").error(), Errc::kBusy) << "the file is taken";
  EXPECT_FALSE(std::filesystem::exists(file("b.pcapng")));
}

TEST_F(FabricCapturesTest, AFileThatCannotBeWrittenIsRefused) {
  EXPECT_FALSE(start(0, "no/such/folder.pcapng"));
  EXPECT_THAT(message_, HasSubstr("No such file or directory (is its folder there?)"));
  EXPECT_TRUE(captures_.running().empty());
}

TEST_F(FabricCapturesTest, APortWithoutALinkIsRefused) {
  const auto& nodes = fabric_.topology().nodes;
  fabric::PortEnd management;
  while (nodes[management.node].kind != fabric::NodeKind::kSwitch) ++management.node;
  const Status status = captures_.start(
      now_, {.port = management, .port_name = "leaf0[0]", .file = file("a.pcapng")}, message_);
  EXPECT_FALSE(status);
  EXPECT_EQ(message_, "leaf0[0] has no link in the topology");
}

TEST_F(FabricCapturesTest, ADatagramIsWrittenAsThePacketOnItsLink) {
  ASSERT_TRUE(start(0, "a.pcapng", {.packets = 1}));
  captures_.take({.at = now_,
                  .port = port(0),
                  .lane = wire::VirtualLane::kManagement,
                  .datagram = fabric::ManagementPacket{.source = wire::Lid::kPermissive,
                                                       .destination = wire::Lid::kPermissive}},
                 {});
  const auto state = ended();
  std::ifstream stream(state.file, std::ios::binary);
  const std::string octets(std::istreambuf_iterator<char>(stream), {});
  // LRH, BTH, DETH, the datagram, ICRC and VCRC.
  constexpr std::size_t kRecordHead = 16;
  constexpr std::size_t kWhole = 8 + 12 + 8 + 256 + 4 + 2;
  const auto at = octets.find(std::string("\xf0\x02\xff\xff\x00\x48\xff\xff", 8));
  ASSERT_NE(at, std::string::npos);
  std::byte length[4];
  std::memcpy(length, octets.data() + at - kRecordHead - 8, sizeof length);
  EXPECT_EQ(load_be_at<std::uint32_t>(length), kRecordHead + kWhole);
}

TEST_F(FabricCapturesTest, WhatIsMissingIsSaid) {
  const FabricCaptures::State state{
      .port_name = "h0[1]",
      .file = "x",
      .progress = {.packets = 1, .missing = 3, .error = ENOSPC, .has_ended = true}};
  EXPECT_EQ(ending_of(state),
            "the capture of h0[1] to 'x' ends here, the fabric goes on: No space left on device "
            "(make room, or capture elsewhere); the file has 1 packet; 3 packets came faster than "
            "the file takes them, and are missing");
}

}  // namespace
}  // namespace verbatim::tools

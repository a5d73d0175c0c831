// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "host/fabric_client.h"
#include "host/fabric_transfer.h"
#include "host/test_fabric.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

using test::FabricFolder;
using test::ServedFabric;

Descriptor open_port(const FabricFolder& folder) {
  std::string message;
  auto port = open_fabric_port(folder.place(), "h0", 1, message);
  EXPECT_TRUE(port.ok()) << message;
  return port ? std::move(*port) : Descriptor();
}

std::vector<std::byte> pattern_of(std::size_t octets) {
  std::vector<std::byte> pattern(octets);
  for (std::size_t i = 0; i < octets; ++i) pattern[i] = static_cast<std::byte>(i * 7);
  return pattern;
}

struct Datagram {
  UserMadHeader header;
  std::vector<std::byte> message;
};

/// The next datagram; an empty one when the fabric has ended.
Datagram receive_datagram(int port) {
  std::vector<std::byte> room(kInlineOctetsMax);
  bool is_gone = false;
  pollfd ready{.fd = port, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&ready, 1, 10'000), 1);
  const auto arrived = receive_message(port, room, is_gone);
  Datagram datagram;
  if (!arrived) return datagram;
  std::memcpy(static_cast<void*>(&datagram.header), room.data(), sizeof datagram.header);
  datagram.message.assign(room.begin() + sizeof datagram.header,
                          room.begin() + static_cast<long>(arrived->octets));
  if (!arrived->descriptor.is_open()) return datagram;
  datagram.message.resize(datagram.header.octets - sizeof datagram.header);
  EXPECT_TRUE(read_memory_file(arrived->descriptor.number(), datagram.message));
  return datagram;
}

TEST(FabricServer, AProgramSeesTheStateOfItsNode) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  std::string message;
  const auto view = look_at_node(folder.place(), "h0", message);
  ASSERT_TRUE(view.ok()) << message;
  EXPECT_EQ(view->node, 5U);
  EXPECT_EQ(view->state.ports[1].lid, 7);
  EXPECT_EQ(view->state.ports[1].pkeys[0], 0xffff);
  EXPECT_EQ(view->state.ports[2].guid, 0U);
  ServedFabric::await(fabric.left, 1);
}

TEST(FabricServer, AProgramSeesWhatHasChangedSince) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  std::string message;
  ASSERT_TRUE(look_at_node(folder.place(), "h0", message).ok());
  fabric.do_in_thread([&] {
    auto state = test::adapter_state();
    state.ports[1].lid = 9;
    fabric.server.publish(5, state);
    fabric.server.publish(6, state);  // a node that no program has looked at
    EXPECT_FALSE(fabric.server.has_page(6));
  });
  const auto view = look_at_node(folder.place(), "h0", message);
  ASSERT_TRUE(view.ok()) << message;
  EXPECT_EQ(view->state.ports[1].lid, 9);
}

TEST(FabricServer, AProgramIsToldWhyItsNodeIsRefused) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  std::string message;
  const auto view = look_at_node(folder.place(), "h9", message);
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.error(), Errc::kNoDevice);
  EXPECT_EQ(message, "there is no node 'h9'; there is h0");
  EXPECT_FALSE(open_fabric_port(folder.place(), std::string(200, 'x'), 1, message).ok());
  EXPECT_NE(message.find("too long"), std::string::npos);
}

TEST(FabricServer, AProgramIsToldThatThereIsNoFabric) {
  const FabricFolder folder;
  std::string message;
  const auto view = look_at_node(folder.place(), "h0", message);
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.error(), Errc::kNoSuchObject);
  EXPECT_NE(message.find("there is no fabric"), std::string::npos) << message;
}

TEST(FabricServer, DatagramsOfAnyLengthGoBothWays) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  const Descriptor port = open_port(folder);
  for (const std::size_t octets : {24UL, 256UL, 4'000UL, kInlineOctetsMax - sizeof(UserMadHeader),
                                   kInlineOctetsMax, 3'000'000UL}) {
    SCOPED_TRACE(octets);
    UserMadHeader header;
    header.agent = 3;
    header.service_level = 2;
    const auto sent = pattern_of(octets);
    ASSERT_EQ(send_user_mad(port.number(), header, sent), Transfer::kDone);
    const Datagram received = receive_datagram(port.number());
    EXPECT_EQ(received.header.agent, 3U);
    EXPECT_EQ(received.header.service_level, 2);
    EXPECT_EQ(received.header.octets, octets + sizeof header);
    EXPECT_TRUE(received.message == sent);
  }
}

TEST(FabricServer, CallsAreAnsweredBesideDatagrams) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  const Descriptor port = open_port(folder);
  ASSERT_EQ(send_user_mad(port.number(), {}, pattern_of(256)), Transfer::kDone);
  for (std::uint32_t agent = 0; agent < 3; ++agent) {
    FabricCall call;
    call.management_class = 3;
    const auto reply = call_fabric(port.number(), call);
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->error, 0);
    EXPECT_EQ(reply->agent, agent);
  }
  FabricCall refused;
  refused.management_class = 0xff;
  EXPECT_EQ(call_fabric(port.number(), refused)->error, EPERM);
  EXPECT_EQ(receive_datagram(port.number()).message.size(), 256U);
}

TEST(FabricServer, AProgramAsksWhetherADatagramWouldBeTaken) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  const Descriptor port = open_port(folder);
  fabric.send_error = EINVAL;
  const auto reply = ask_fabric(port.number(), {}, pattern_of(1000));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->error, EINVAL);
  EXPECT_EQ(fabric.asked.load(), 1);
  fabric.send_error = 0;
  EXPECT_EQ(ask_fabric(port.number(), {}, pattern_of(24))->error, 0);
}

TEST(FabricServer, OneProcessCannotTakeAllDescriptors) {
  const FabricFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{.rlim_cur = 200, .rlim_max = 400};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(1);
    const ServedFabric fabric(folder.place());
    std::string message;
    std::vector<Descriptor> ports;
    while (auto port = open_fabric_port(folder.place(), "h0", 1, message)) {
      ports.push_back(std::move(*port));
    }
    const bool is_told = message.find("no descriptor left for this program") != message.npos;
    ::_exit(ports.size() == 100 && is_told ? 0 : 2);  // the server has raised its limit to 400
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FabricServer, AForkedChildHasTheRightsOfItsParent) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  const Descriptor port = open_port(folder);
  const int ended = test::in_a_child([&] {
    FabricCall call;
    call.management_class = 3;
    EXPECT_TRUE(call_fabric(port.number(), call).ok());
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(call_fabric(port.number(), FabricCall{})->agent, 1U);
}

TEST(FabricServer, TheEndOfAProgramIsNoticedOnce) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  Descriptor port = open_port(folder);
  EXPECT_EQ(fabric.left.load(), 0);
  port.close();
  ServedFabric::await(fabric.left, 1);
  (void)open_port(folder);
  ServedFabric::await(fabric.left, 2);
  EXPECT_EQ(fabric.left.load(), 2);
}

TEST(FabricServer, AProgramThatDoesNotReadDoesNotStopTheFabric) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  const Descriptor deaf = open_port(folder);
  const FabricClientId deaf_client = fabric.last_client.load();
  int delivered = 0;
  constexpr int kAttempts = 70'000;
  fabric.do_in_thread([&] {
    const auto message = pattern_of(64);
    for (int i = 0; i < kAttempts; ++i) {
      delivered += fabric.server.deliver(deaf_client, {}, message) ? 1 : 0;
    }
  });
  EXPECT_LT(delivered, kAttempts);
  const Descriptor other = open_port(folder);
  ASSERT_EQ(send_user_mad(other.number(), {}, pattern_of(256)), Transfer::kDone);
  EXPECT_EQ(receive_datagram(other.number()).message.size(), 256U);
  // What was kept arrives, in order and completely.
  for (int i = 0; i < delivered; ++i) {
    ASSERT_EQ(receive_datagram(deaf.number()).message.size(), 64U) << i;
  }
}

TEST(FabricServer, ASubnetManagerThatIsKilledIsNoticed) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  std::string message;
  const auto view = look_at_node(folder.place(), "h0", message);
  ASSERT_TRUE(view.ok()) << message;
  const std::string path = folder.place().sm_path(view->node, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::open(path.c_str(), O_NONBLOCK);
    for (;;) ::pause();
  }
  ASSERT_GT(child, 0);
  ServedFabric::await(fabric.sm_opened, 1);
  EXPECT_EQ(fabric.sm_closed.load(), 0);
  ::kill(child, SIGKILL);
  ServedFabric::await(fabric.sm_closed, 1);
  ::waitpid(child, nullptr, 0);
  const Descriptor again(::open(path.c_str(), O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(again.is_open());
  ServedFabric::await(fabric.sm_opened, 2);
}

TEST(FabricServer, OneProcessServesAFabric) {
  const FabricFolder folder;
  ServedFabric fabric(folder.place());
  std::string message;
  FabricServer second;
  const auto opened = second.open(folder.place(), message);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error(), Errc::kAddressInUse);
  EXPECT_NE(message.find("running already"), std::string::npos) << message;
  ASSERT_TRUE(look_at_node(folder.place(), "h0", message).ok());  // the first is intact
  fabric.end();
  EXPECT_TRUE(second.open(folder.place(), message).ok()) << message;
}

TEST(FabricServer, TheFilesOfAKilledFabricDoNotHinderTheNextOne) {
  const FabricFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ServedFabric fabric(folder.place());
    std::string message;
    (void)look_at_node(folder.place(), "h0", message);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(::access(folder.place().sm_path(5, 1).c_str(), F_OK), 0);
  std::string message;
  EXPECT_FALSE(look_at_node(folder.place(), "h0", message).ok());
  ServedFabric fabric(folder.place());
  EXPECT_NE(::access(folder.place().sm_path(5, 1).c_str(), F_OK), 0);
  EXPECT_TRUE(look_at_node(folder.place(), "h0", message).ok()) << message;
  fabric.end();
  EXPECT_NE(::access(folder.fabric().c_str(), F_OK), 0);
}

TEST(FabricServer, CommandsAreAnsweredInParts) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  std::string message;
  const auto commands = open_fabric_commands(folder.place(), message);
  ASSERT_TRUE(commands.ok()) << message;
  const std::string text(kCommandOctetsMax, 'x');
  const auto answer = command_fabric(commands->number(), text);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, "you said " + text);
}

TEST(FabricServer, StrangeMessagesAreIgnored) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  const Descriptor port = open_port(folder);
  const auto junk = pattern_of(100);
  for (const std::size_t octets : {1UL, 39UL, 40UL, 63UL, 64UL, 80UL}) {
    ASSERT_EQ(send_parts(port.number(), std::span(junk).first(octets), {}, -1), Transfer::kDone);
  }
  ASSERT_EQ(send_user_mad(port.number(), {}, pattern_of(256)), Transfer::kDone);
  EXPECT_EQ(receive_datagram(port.number()).message.size(), 256U);
  std::string message;
  const auto stranger = folder.place().connect(message);
  ASSERT_TRUE(stranger.ok()) << message;
  const Descriptor owned(*stranger);
  ASSERT_EQ(send_parts(*stranger, junk, {}, -1), Transfer::kDone);
  FabricAnswer answer;
  pollfd ready{.fd = *stranger, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&ready, 1, 10'000), 1);
  bool is_gone = false;
  ASSERT_TRUE(receive_message(*stranger, std::as_writable_bytes(std::span(&answer, 1)), is_gone));
  EXPECT_EQ(answer.error, EPROTO);
}

TEST(FabricServer, DescriptorsThatNobodyAskedForAreClosed) {
  const FabricFolder folder;
  const ServedFabric fabric(folder.place());
  const Descriptor port = open_port(folder);
  const std::size_t before = test::open_descriptor_count();
  const auto junk = pattern_of(80);
  const std::array<int, 3> several{0, 1, 2};
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(send_descriptors(port.number(), junk, several), Transfer::kDone);
  }
  ASSERT_EQ(send_user_mad(port.number(), {}, pattern_of(256)), Transfer::kDone);
  EXPECT_EQ(receive_datagram(port.number()).message.size(), 256U);
  EXPECT_EQ(test::open_descriptor_count(), before);
}

TEST(FabricPlace, NamesThatAreNoneAreRefused) {
  const std::vector<std::string> names = {
      "", ".", "../x", "a b", "relative/path", std::string(33, 'x')};
  for (const std::string& name : names) {
    std::string message;
    EXPECT_FALSE(FabricPlace::of(name, message).ok()) << name;
    EXPECT_FALSE(message.empty());
  }
  std::string message;
  EXPECT_EQ(FabricPlace::of("/somewhere/demo/", message)->folder(), "/somewhere/demo");
}

TEST(FabricPlace, AFolderThatOthersMayEnterIsRefused) {
  const FabricFolder folder;
  ASSERT_EQ(::mkdir(folder.fabric().c_str(), 0755), 0);
  FabricServer server;
  std::string message;
  EXPECT_FALSE(server.open(folder.place(), message).ok());
  EXPECT_NE(message.find("0700"), std::string::npos) << message;
}

TEST(FabricPage, AReaderGivesUpOnAWriterThatWasStopped) {
  auto page = std::make_unique<FabricPage>();
  EXPECT_FALSE(page->read().has_value());  // not initialised
  page->initialise();
  const auto state = test::adapter_state();
  page->write(state);
  ASSERT_TRUE(page->read().has_value());
  EXPECT_EQ(page->read()->ports[1].capabilities, state.ports[1].capabilities);
  auto* words = reinterpret_cast<std::uint64_t*>(page.get());
  ++words[1];  // the counter
  EXPECT_FALSE(page->read().has_value());
}

}  // namespace
}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host/fabric_server.h"

/// What the tests of a fabric's connections share. Nothing but tests includes this.
namespace verbatim::host::test {

/// A folder for the fabrics of one test, which is removed with everything in it.
class FabricFolder {
 public:
  FabricFolder() { path_ = ::mkdtemp(path_.data()); }
  FabricFolder(const FabricFolder&) = delete;
  FabricFolder& operator=(const FabricFolder&) = delete;
  ~FabricFolder() {
    std::error_code failed;
    std::filesystem::remove_all(path_, failed);
  }
  [[nodiscard]] std::string fabric() const { return path_ + "/fabric"; }
  [[nodiscard]] FabricPlace place() const {
    std::string message;
    return *FabricPlace::of(fabric(), message);
  }

 private:
  std::string path_ = "/tmp/fabric_testXXXXXX";
};

/// The state of an adapter with one active port.
inline FabricNodeState adapter_state() {
  FabricNodeState state;
  state.node_guid = 0x10;
  state.system_guid = 0x11;
  FabricPortState& port = state.ports[1];
  port.guid = 0x12;
  port.gid_prefix = 0xfe80'0000'0000'0000;
  port.rate_mbps = 100'000;
  port.lid = 7;
  port.sm_lid = 3;
  port.state = 4;
  port.physical_state = 5;
  port.capabilities = 0x0251'0868;
  port.pkey_count = 2;
  port.pkeys[0] = 0xffff;
  return state;
}

/// The process of a fabric as a thread: it has the node "h0", whose number is 5, returns each
/// datagram to its sender, and gives agents the numbers 0, 1, ... A class of 0xff is refused. The
/// one address that it knows is 127.64.0.1.
class ServedFabric {
 public:
  explicit ServedFabric(const FabricPlace& place) {
    std::string message;
    EXPECT_TRUE(server.open(place, message)) << message;
    thread_ = std::thread([this] { serve(); });
  }
  ServedFabric(const ServedFabric&) = delete;
  ServedFabric& operator=(const ServedFabric&) = delete;
  ~ServedFabric() { end(); }

  void end() {
    wants_end_.store(true);
    if (thread_.joinable()) thread_.join();
    server.close();
  }
  /// Calls a function in the thread of the fabric and waits for it.
  void do_in_thread(std::function<void()> work) {
    work_ = std::move(work);
    has_work_.store(true);
    while (has_work_.load()) ::usleep(1000);
  }
  /// Waits until so many of these have happened.
  static void await(const std::atomic<int>& what, int count) {
    while (what.load() < count) ::usleep(1000);
  }

  FabricServer server;
  std::atomic<int> left{0};
  std::atomic<int> asked{0};                    // whether a datagram may be sent
  std::atomic<int> send_error{0};               // the answer to that
  std::atomic<bool> swallows_datagrams{false};  // instead of returning them
  std::atomic<int> swallowed{0};
  std::atomic<int> sm_opened{0};
  std::atomic<int> sm_closed{0};
  std::atomic<FabricClientId> last_client{0};
  std::atomic<bool> holds_datagrams{false};  // true: it reads nothing from programs

 private:
  void serve() {
    while (!wants_end_.load()) {
      if (has_work_.load()) {
        work_();
        has_work_.store(false);
      }
      pollfd ready{.fd = server.descriptor(), .events = POLLIN, .revents = 0};
      (void)::poll(&ready, 1, 2);
      server.handle_ready();
      while (const auto event = server.poll_event()) {
        std::visit([&](const auto& what) { handle(event->client, what); }, event->what);
      }
    }
  }
  void handle(FabricClientId client, const FabricEvent::Attached& attached) {
    if (attached.node != "h0") {
      server.refuse(client, ENODEV, "there is no node '" + attached.node + "'; there is h0");
    } else {
      last_client.store(client);
      (void)server.accept(client, 5, state_);  // it may have left already
    }
  }
  void handle(FabricClientId client, const FabricEvent::Called& called) {
    FabricReply reply;
    const bool is_refused = called.request.management_class == 0xff;
    if (is_refused) reply.error = EPERM;
    if (called.request.kind == FabricCall::Kind::kFind) {
      reply.gid[15] = 7;
      if (called.request.address != 0x7f40'0001) reply.error = EHOSTUNREACH;
    }
    if (called.request.kind == FabricCall::Kind::kMaySend) {
      ++asked;
      reply.error = send_error.load();
    }
    if (called.request.kind == FabricCall::Kind::kRegister && !is_refused) reply.agent = agents_++;
    server.reply(client, called.call, reply);
  }
  void handle(FabricClientId client, const FabricEvent::Sent& sent) {
    while (holds_datagrams.load() && !wants_end_.load()) ::usleep(1000);
    if (swallows_datagrams.load()) {
      ++swallowed;
      return;
    }
    server.deliver(client, sent.header, sent.message);
  }
  void handle(FabricClientId client, const FabricEvent::Commanded& commanded) {
    server.answer(client, "you said ", false);
    server.answer(client, commanded.text, true);
  }
  void handle(FabricClientId, const FabricEvent::Claimed&) {}
  void handle(FabricClientId, const FabricEvent::Left&) { ++left; }
  void handle(FabricClientId, const FabricEvent::SmChanged& changed) {
    ++(changed.is_sm ? sm_opened : sm_closed);
  }

  std::thread thread_;
  std::atomic<bool> wants_end_{false};
  std::atomic<bool> has_work_{false};
  std::function<void()> work_;
  FabricNodeState state_ = adapter_state();
  std::uint32_t agents_ = 0;
};

}  // namespace verbatim::host::test

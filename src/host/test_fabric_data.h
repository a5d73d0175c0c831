// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "host/fabric_data_port.h"
#include "host/fabric_data_server_port.h"
#include "host/fabric_server.h"
#include "host/test_fabric.h"

/// What the tests of data ports share. Nothing but tests includes this.
namespace verbatim::host::test {

/// The process of a fabric with data ports, which the test drives step by step. It has the node
/// "h0", whose number is 5, and refuses slot 255.
class DataFabric {
 public:
  explicit DataFabric(const FabricPlace& place) : place_(place) {
    std::string message;
    EXPECT_TRUE(server.open(place, message)) << message;
  }

  /// Opens the data port of a process that is this one.
  FabricDataServerPort& attach(FabricDataPort& port, std::uint32_t slot = 0) {
    serve_while([&] {
      std::string message;
      EXPECT_TRUE(port.open(place_, "h0", {.port = 1, .slot = slot}, message)) << message;
    });
    return *ports.at(last_client);
  }
  /// Does its work until something has ended that another thread does.
  template <typename Work>
  void serve_while(Work&& work) {
    std::atomic<bool> has_ended{false};
    std::thread thread([&] {
      work();
      has_ended.store(true);
    });
    while (!has_ended.load()) serve(1);
    thread.join();
  }
  /// Waits for events, but not longer.
  void serve(int milliseconds) {
    pollfd ready{.fd = server.descriptor(), .events = POLLIN, .revents = 0};
    (void)::poll(&ready, 1, milliseconds);
    server.handle_ready();
    while (const auto event = server.poll_event()) {
      if (const auto* attached = std::get_if<FabricEvent::Attached>(&event->what)) {
        handle(event->client, *attached);
      } else if (std::holds_alternative<FabricEvent::Left>(event->what)) {
        ++left;
      }
    }
  }

  FabricServer server;
  std::map<FabricClientId, std::unique_ptr<FabricDataServerPort>> ports;
  FabricClientId last_client = 0;
  int left = 0;

 private:
  void handle(FabricClientId client, const FabricEvent::Attached& attached) {
    EXPECT_EQ(attached.node, "h0");
    EXPECT_EQ(attached.purpose, FabricHello::Purpose::kData);
    if (attached.slot == 255) return server.refuse(client, EADDRINUSE, "another process has it");
    auto port = std::make_unique<FabricDataServerPort>();
    EXPECT_TRUE(port->open());
    if (!server.accept_data(client, 5, adapter_state(), *port)) return;
    port->close_file();
    last_client = client;
    ports[client] = std::move(port);
  }

  FabricPlace place_;
};

inline std::vector<std::byte> packet_of(std::size_t octets, std::size_t number) {
  std::vector<std::byte> packet(octets);
  for (std::size_t i = 0; i < octets; ++i) packet[i] = static_cast<std::byte>(number * 31 + i);
  return packet;
}

/// False: no buffer is free.
inline bool post(FabricDataPort& port, std::span<const std::byte> packet) {
  const auto buffer = port.next_buffer();
  if (buffer.empty()) return false;
  std::ranges::copy(packet, buffer.begin());
  port.post(packet.size());
  return true;
}

inline bool is_readable(int descriptor, int milliseconds = 0) {
  pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, milliseconds) == 1;
}

}  // namespace verbatim::host::test

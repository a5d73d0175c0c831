// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/pointer.h"
#include "sim/cluster.h"
#include "tools/commands.h"
#include "tools/ladder.h"

namespace verbatim::tools {
namespace {

using memory::Access;
using transport::SendOpcode;

constexpr std::size_t kBufferOctets = 4096;
constexpr std::string_view kGreeting = "Hello from the other side of a bad network.";

/// Two hosts, one connection, and the three basic operations.
class Demo {
 public:
  explicit Demo(const DemoOptions& options)
      : ladder_(stdout, sim::ipv4_gid(10, 0, 0, 1), isatty(STDOUT_FILENO) != 0),
        cluster_(
            {.loss_per_mille = options.loss_percent * 10, .delay = std::chrono::microseconds(3)},
            options.seed, &ladder_) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      cluster_.add_endpoint({.slot = i, .first_key_index = 0x100 * (i + 1), .seed = i + 1});
      (void)host(i).create_cq(64);
      (void)host(i).create_qp({});
      buffers_[i] = host(i).allocate(kBufferOctets);
      keys_[i] = host(i).register_memory(
          buffers_[i], Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead);
    }
    sim::connect(host(0), 0, host(1), 0,
                 {.mtu = wire::PathMtu::k1024,
                  .psn_of_first = wire::Psn(0x100),
                  .psn_of_second = wire::Psn(0x900),
                  .timeout = 5});
  }

  int run() {
    std::printf(
        "Two hosts, 10.0.0.1 and 10.0.0.2, one reliable connection, MTU 1024. Every line is\n"
        "a RoCEv2 packet with a real ICRC; the network loses some of them.\n");
    const bool good = write() && read() && send();
    std::printf("\n%llu packets, %llu of them lost; %s\n",
                static_cast<unsigned long long>(ladder_.frame_count()),
                static_cast<unsigned long long>(ladder_.lost_count()),
                good ? "every octet arrived, once." : "and something went WRONG.");
    return good ? 0 : 1;
  }

 private:
  sim::Endpoint& host(std::size_t index) { return cluster_.endpoint(index); }

  bool write() {
    std::printf("\nRDMA WRITE of 3000 octets into the peer's memory:\n");
    for (std::size_t i = 0; i < 3000; ++i) {
      buffers_[0][i] = std::byte{static_cast<std::uint8_t>(i * 7)};
    }
    return post(SendOpcode::kWrite, 3000) && holds_same(3000);
  }

  bool read() {
    std::printf("\nRDMA READ of 2500 octets back out of it:\n");
    std::ranges::fill(buffers_[0], std::byte{0});
    return post(SendOpcode::kRead, 2500) && holds_same(2500);
  }

  bool send() {
    std::printf("\nSEND of a greeting into a posted receive:\n");
    std::memcpy(buffers_[0].data(), kGreeting.data(), kGreeting.size());
    const memory::Sge into{.address = host(1).address_of(buffers_[1]),
                           .octets = static_cast<std::uint32_t>(kBufferOctets),
                           .lkey = keys_[1]};
    const bool ready = host(1).qp(0).post_receive({.wr_id = 9, .list = {&into, 1}}).ok();
    if (!ready || !post(SendOpcode::kSend, static_cast<std::uint32_t>(kGreeting.size())))
      return false;
    transport::Completion received;
    if (host(1).cq(0).poll({&received, 1}) != 1 || received.octets != kGreeting.size())
      return false;
    std::printf("   10.0.0.2 received: \"%.*s\"\n", static_cast<int>(received.octets),
                pointer_as<const char>(buffers_[1].data()));
    return holds_same(kGreeting.size());
  }

  /// Posts one request and runs the simulation until it is complete.
  bool post(SendOpcode opcode, std::uint32_t octets) {
    const memory::Sge sge{
        .address = host(0).address_of(buffers_[0]), .octets = octets, .lkey = keys_[0]};
    transport::SendRequest request;
    request.opcode = opcode;
    request.flags = transport::SendFlags::kSignaled;
    request.list = {&sge, 1};
    request.remote_address = host(1).address_of(buffers_[1]);
    request.rkey = keys_[1];
    if (!host(0).qp(0).post_send(request)) return false;
    transport::Completion done;
    for (;;) {
      cluster_.transmit();
      if (host(0).cq(0).poll({&done, 1}) == 1) break;
      if (!cluster_.step()) return false;
    }
    return done.status == transport::WcStatus::kSuccess;
  }

  bool holds_same(std::size_t octets) {
    return std::ranges::equal(buffers_[0].first(octets), buffers_[1].first(octets));
  }

  Ladder ladder_;
  sim::Cluster cluster_;
  std::span<std::byte> buffers_[2];
  wire::MemoryKey keys_[2]{};
};

}  // namespace

int run_demo(const DemoOptions& options) { return Demo(options).run(); }

}  // namespace verbatim::tools

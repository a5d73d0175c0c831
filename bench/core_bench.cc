// SPDX-License-Identifier: Apache-2.0
// How fast is the protocol itself? Requester to responder and back in one thread, no I/O: every
// packet is built with its ICRC, verified, executed and acknowledged. Beside it, memcpy of the same
// octets.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rounds.h"
#include "sim/cluster.h"
#include "wire/headers/packet.h"

namespace {

using namespace verbatim;
using bench::Clock;
using bench::median;
using bench::seconds_since;

constexpr std::size_t kBurst = 64;  // frames that travel together, as a link would carry them
constexpr int kRounds = 7;

/// Two connected queue pairs and a wire that is an array.
class Loop {
 public:
  Loop(wire::PathMtu mtu, std::size_t buffer_octets) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const auto index = cluster_.add_endpoint({.slot = i, .first_key_index = 0x100 * (i + 1)});
      ends_[i] = &cluster_.endpoint(index);
      (void)ends_[i]->create_cq(4096);
      (void)ends_[i]->create_qp({.send_depth = 128,
                                 .receive_depth = 512,
                                 .window_packets = 256,
                                 .read_chunk_packets = 256});
      buffers_[i] = ends_[i]->allocate(buffer_octets);
      std::ranges::fill(buffers_[i], std::byte{1});
      keys_[i] = ends_[i]->register_memory(
          buffers_[i], memory::Access::kLocalWrite | memory::Access::kRemoteWrite);
    }
    sim::connect(*ends_[0], 0, *ends_[1], 0, {.mtu = mtu});
    frames_.resize(kBurst * kFrameOctets);
  }

  sim::Endpoint& end(std::size_t i) { return *ends_[i]; }
  std::span<std::byte> buffer(std::size_t i) { return buffers_[i]; }
  wire::MemoryKey key(std::size_t i) { return keys_[i]; }

  void post(transport::SendOpcode opcode, std::uint32_t octets) {
    const memory::Sge sge{
        .address = ends_[0]->address_of(buffers_[0]), .octets = octets, .lkey = keys_[0]};
    transport::SendRequest request;
    request.opcode = opcode;
    request.flags = transport::SendFlags::kSignaled;
    request.list = {&sge, 1};
    request.remote_address = ends_[1]->address_of(buffers_[1]);
    request.rkey = keys_[1];
    if (!ends_[0]->qp(0).post_send(request)) std::abort();
  }

  void post_receive() {
    const memory::Sge sge{
        .address = ends_[1]->address_of(buffers_[1]), .octets = 64, .lkey = keys_[1]};
    if (!ends_[1]->qp(0).post_receive({.wr_id = 1, .list = {&sge, 1}})) std::abort();
  }

  /// One burst each way.
  void exchange() {
    carry(0, 1);
    carry(1, 0);
  }

  std::size_t collect(std::size_t i) {
    transport::Completion completions[64];
    return ends_[i]->cq(0).poll(completions);
  }

 private:
  static constexpr std::size_t kFrameOctets = 4416;

  void carry(std::size_t from, std::size_t to) {
    std::size_t octets[kBurst];
    std::size_t count = 0;
    while (count < kBurst) {
      octets[count] = ends_[from]->qp(0).machine().poll_transmit(now_, frame(count)).octets;
      if (octets[count] == 0) break;
      ++count;
    }
    static constexpr std::array<std::byte, transport::kGrhOctets> kNoHeader{};
    const auto seed = ends_[to]->qp(0).machine().path();
    const auto arriving =
        wire::IcrcSeed::roce_v2(ends_[from]->address(), ends_[to]->address(), seed.source_port);
    for (std::size_t i = 0; i < count; ++i) {
      const auto packet_octets = frame(i).first(octets[i]);
      auto packet = wire::PacketView::parse(packet_octets);
      if (!packet || !wire::verify_icrc(arriving, packet_octets)) std::abort();
      ends_[to]->qp(0).machine().handle_packet(now_, {.packet = *packet,
                                                      .source = ends_[from]->address(),
                                                      .destination = ends_[to]->address(),
                                                      .network_header = kNoHeader});
    }
    now_ = now_ + std::chrono::microseconds(1);
  }

  std::span<std::byte> frame(std::size_t i) {
    return std::span(frames_).subspan(i * kFrameOctets, kFrameOctets);
  }

  sim::Cluster cluster_{{}, 1};  // its network and its loop are not used
  sim::Endpoint* ends_[2]{};
  std::span<std::byte> buffers_[2];
  wire::MemoryKey keys_[2]{};
  std::vector<std::byte> frames_;
  Instant now_{};
};

/// GB/s of 1 MiB WRITEs.
double write_rate(wire::PathMtu mtu, int messages) {
  constexpr std::uint32_t kOctets = 1U << 20;
  Loop loop(mtu, kOctets);
  int done = 0;
  int posted = 0;
  const auto start = Clock::now();
  while (done < messages) {
    while (posted < messages && posted - done < 2) {
      loop.post(transport::SendOpcode::kWrite, kOctets);
      ++posted;
    }
    loop.exchange();
    done += static_cast<int>(loop.collect(0));
  }
  return static_cast<double>(messages) * kOctets / seconds_since(start) / 1e9;
}

/// Millions of 64-octet SENDs per second.
double send_rate(int messages) {
  Loop loop(wire::PathMtu::k1024, 4096);
  int done = 0;
  int posted = 0;
  int received = 0;
  int receives = 0;
  const auto start = Clock::now();
  while (done < messages) {
    while (receives - received < 256) {
      loop.post_receive();
      ++receives;
    }
    while (posted < messages && posted - done < 64) {
      loop.post(transport::SendOpcode::kSend, 64);
      ++posted;
    }
    loop.exchange();
    done += static_cast<int>(loop.collect(0));
    received += static_cast<int>(loop.collect(1));
  }
  return static_cast<double>(messages) / seconds_since(start) / 1e6;
}

double memcpy_rate() {
  constexpr std::size_t kOctets = 1U << 20;
  std::vector<std::byte> from(kOctets, std::byte{1});
  std::vector<std::byte> to(kOctets);
  const auto start = Clock::now();
  constexpr int kCopies = 400;
  for (int i = 0; i < kCopies; ++i) {
    std::memcpy(to.data(), from.data(), kOctets);
    asm volatile("" : : "r"(to.data()) : "memory");
  }
  return static_cast<double>(kCopies) * kOctets / seconds_since(start) / 1e9;
}

}  // namespace

int main() {
  std::vector<double> copy, write4096, write1024, send;
  for (int round = 0; round < kRounds; ++round) {
    copy.push_back(memcpy_rate());
    write4096.push_back(write_rate(wire::PathMtu::k4096, 300));
    write1024.push_back(write_rate(wire::PathMtu::k1024, 150));
    send.push_back(send_rate(200'000));
  }
  const double memcpy_median = median(copy);
  std::printf(
      "Requester to responder and back, one thread, both ICRCs and both copies included\n"
      "(medians of %d rounds)\n\n",
      kRounds);
  std::printf("  %-34s %8.2f GB/s\n", "memcpy of 1 MiB", memcpy_median);
  std::printf("  %-34s %8.2f GB/s   %.2f of memcpy\n", "WRITE 1 MiB, MTU 4096", median(write4096),
              median(write4096) / memcpy_median);
  std::printf("  %-34s %8.2f GB/s   %.2f of memcpy\n", "WRITE 1 MiB, MTU 1024", median(write1024),
              median(write1024) / memcpy_median);
  std::printf("  %-34s %8.2f M/s\n", "SEND 64 octets", median(send));
  return 0;
}

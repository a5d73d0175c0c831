// SPDX-License-Identifier: Apache-2.0
#include "sim/goodput.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "base/prng.h"
#include "sim/cluster.h"
#include "transport/segmentation.h"

namespace verbatim::sim {
namespace {

using transport::SendOpcode;

constexpr std::uint32_t kDepth = 64;             // messages posted at once
constexpr std::uint32_t kWindowPackets = 480;    // the adapter's at an MTU of 1024
constexpr std::uint64_t kStepLimit = 5'000'000;  // a run that takes more has failed

/// Counts frames with data, in either direction.
class DataFrames : public Observer {
 public:
  void handle_frame(Instant, const NetworkFrame& frame, Fate) override {
    constexpr std::size_t kHeadersAlone = 64;
    if (frame.octets.size() > kHeadersAlone) ++count_;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  std::uint64_t count_ = 0;
};

/// One connection and the messages on it. The buffer of each end is divided into as many parts as
/// messages are posted at once.
class Transfer {
 public:
  Transfer(const GoodputOptions& options, Cluster& cluster)
      : options_(options), from_(add_end(cluster)), to_(add_end(cluster)) {
    Prng prng(options.seed);
    auto source = reads() ? to_.buffer : from_.buffer;
    for (std::byte& octet : source) octet = static_cast<std::byte>(prng.below(256));
    connect(*from_.endpoint, 0, *to_.endpoint, 0, {.mtu = options.mtu});
  }

  [[nodiscard]] bool is_over() const noexcept { return failed_ || done_ == options_.message_count; }
  [[nodiscard]] bool is_intact() const noexcept {
    return !failed_ && done_ == options_.message_count &&
           std::ranges::equal(from_.buffer.first(used_octets()), to_.buffer.first(used_octets()));
  }

  void post() {
    const bool receives = options_.opcode == SendOpcode::kSend;
    for (; receives && received_ < std::min(done_ + 2 * kDepth, options_.message_count);
         ++received_) {
      const auto sge = place(to_, received_);
      if (!to_.endpoint->qp(0).post_receive({.wr_id = 1, .list = {&sge, 1}})) return;
    }
    for (; posted_ < std::min(done_ + kDepth, options_.message_count); ++posted_) {
      const auto sge = place(from_, posted_);
      transport::SendRequest request;
      request.opcode = options_.opcode;
      request.flags = transport::SendFlags::kSignaled;
      request.list = {&sge, 1};
      request.remote_address = place(to_, posted_).address;
      request.rkey = to_.key;
      if (!from_.endpoint->qp(0).post_send(request)) return;
    }
  }

  void collect() {
    transport::Completion completions[kDepth];
    done_ += static_cast<std::uint32_t>(collect_from(from_, completions));
    (void)collect_from(to_, completions);
  }

 private:
  struct End {
    Endpoint* endpoint;
    std::span<std::byte> buffer;
    wire::MemoryKey key;
  };

  [[nodiscard]] bool reads() const noexcept { return options_.opcode == SendOpcode::kRead; }

  [[nodiscard]] std::size_t used_octets() const noexcept {
    return std::size_t{std::min(kDepth, options_.message_count)} * options_.message_octets;
  }

  [[nodiscard]] End add_end(Cluster& cluster) const {
    Endpoint& endpoint = cluster.endpoint(cluster.add_endpoint({}));
    (void)endpoint.create_cq(4 * kDepth, 4 * kDepth);
    (void)endpoint.create_qp({.send_depth = kDepth,
                              .receive_depth = 2 * kDepth,
                              .window_packets = kWindowPackets,
                              .read_chunk_packets = kWindowPackets / 4});
    const auto buffer = endpoint.allocate(std::size_t{kDepth} * options_.message_octets);
    return {&endpoint, buffer,
            endpoint.register_memory(buffer, memory::Access::kLocalWrite |
                                                 memory::Access::kRemoteWrite |
                                                 memory::Access::kRemoteRead)};
  }

  [[nodiscard]] memory::Sge place(const End& end, std::uint32_t message) const noexcept {
    const std::uint64_t offset = std::uint64_t{message % kDepth} * options_.message_octets;
    return {.address = end.endpoint->address_of(end.buffer) + offset,
            .octets = options_.message_octets,
            .lkey = end.key};
  }

  std::size_t collect_from(const End& end, std::span<transport::Completion> into) noexcept {
    const std::size_t count = end.endpoint->cq(0).poll(into);
    for (const auto& completion : into.first(count)) {
      failed_ = failed_ || completion.status != transport::WcStatus::kSuccess;
    }
    return count;
  }

  const GoodputOptions& options_;
  End from_;
  End to_;
  std::uint32_t received_ = 0;  // receives posted
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;
  bool failed_ = false;
};

}  // namespace

GoodputResult measure_goodput(const GoodputOptions& options) {
  DataFrames frames;
  Cluster cluster(options.faults, options.seed, &frames);
  Transfer transfer(options, cluster);
  for (std::uint64_t step = 0; step < kStepLimit && !transfer.is_over(); ++step) {
    transfer.post();
    cluster.transmit();
    if (!cluster.step()) break;
    transfer.collect();
  }
  const double seconds = std::chrono::duration<double>(cluster.now() - Instant{}).count();
  const double messages = options.message_count;
  const double packets =
      messages * transport::packet_count(options.message_octets, wire::octets_of(options.mtu));
  return {.is_intact = transfer.is_intact(),
          .octets_per_second = seconds > 0 ? messages * options.message_octets / seconds : 0,
          .frames_per_packet = static_cast<double>(frames.count()) / packets};
}

}  // namespace verbatim::sim

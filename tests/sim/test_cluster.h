// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/workload.h"

/// What the scenarios share: clusters of equal endpoints, buffers, and loops that let time pass.
namespace verbatim::sim {

using memory::Access;
using transport::Completion;
using transport::QpAttributes;
using transport::QpMask;
using transport::QpState;
using transport::QpType;
using transport::SendFlags;
using transport::SendOpcode;
using transport::SendRequest;
using transport::WcStatus;

inline constexpr std::size_t kSendCq = 0;
inline constexpr std::size_t kReceiveCq = 1;

inline constexpr Access kEverything = Access::kLocalWrite | Access::kRemoteWrite |
                                      Access::kRemoteRead | Access::kRemoteAtomic |
                                      Access::kBindWindow;

/// Loses, duplicates, damages and delays, but not so much that retries run out.
inline Faults bad_network() {
  return {.loss_per_mille = 40,
          .duplicate_per_mille = 30,
          .corrupt_per_mille = 10,
          .delay = std::chrono::microseconds(5),
          .jitter = std::chrono::microseconds(10)};
}

/// Queue pair numbers and keys of different endpoints differ; each has a queue for the completions
/// of sends and one for those of receives.
inline void add_endpoints(Cluster& cluster, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto index =
        cluster.add_endpoint({.slot = i, .first_key_index = 0x100 + i * 0x1000, .seed = i + 1});
    ASSERT_EQ(cluster.endpoint(index).create_cq(8192, 64), kSendCq);
    ASSERT_EQ(cluster.endpoint(index).create_cq(8192, 64), kReceiveCq);
  }
}

/// Registered memory of an endpoint.
struct Buffer {
  Buffer(Endpoint& endpoint, std::size_t count, Access access = Access::kLocalWrite)
      : octets(endpoint.allocate(count)),
        address(endpoint.address_of(octets)),
        key(endpoint.register_memory(octets, access)) {}
  [[nodiscard]] memory::Sge at(std::size_t offset, std::size_t count) const {
    return {.address = address + offset, .octets = static_cast<std::uint32_t>(count), .lkey = key};
  }

  std::span<std::byte> octets;
  std::uint64_t address;
  wire::MemoryKey key;
};

inline void fill_random(std::span<std::byte> buffer, Prng& prng) {
  for (std::byte& octet : buffer) octet = std::byte{static_cast<std::uint8_t>(prng.next())};
}

[[nodiscard]] inline std::vector<Completion> collect(Endpoint& endpoint, std::size_t cq) {
  std::vector<Completion> all;
  Completion some[16];
  while (const std::size_t count = endpoint.cq(cq).poll(some)) {
    all.insert(all.end(), some, some + count);
  }
  return all;
}

/// Runs until `done` returns true; false when that never happens.
template <typename Done>
[[nodiscard]] bool run_until(Cluster& cluster, Done&& done,
                             Instant no_later_than = Instant::never(),
                             std::uint64_t step_limit = 300'000) {
  for (std::uint64_t i = 0; i < step_limit; ++i) {
    cluster.transmit();
    if (done()) return true;
    if (cluster.now() >= no_later_than || !cluster.step(no_later_than)) return false;
  }
  return false;
}

/// Runs until no event is left.
inline void run_until_quiet(Cluster& cluster) {
  (void)run_until(cluster, [] { return false; });
}

/// Random requests on many connections at once, each direction compared with its model.
class Traffic {
 public:
  explicit Traffic(Cluster& cluster) : cluster_(cluster) {}

  void add(const Workload::Limits& limits, std::size_t from, std::size_t from_qp, std::size_t to,
           std::size_t to_qp, std::uint64_t seed) {
    workloads_.push_back(std::make_unique<Workload>(limits, cluster_.endpoint(from), from_qp,
                                                    cluster_.endpoint(to), to_qp, seed));
  }

  /// The first difference from a model, or nothing.
  [[nodiscard]] std::string run(std::uint64_t step_limit = 200'000) {
    for (std::uint64_t i = 0; i < step_limit && !is_over(); ++i) {
      for (auto& workload : workloads_) workload->post();
      cluster_.transmit();
      cluster_.step(cluster_.now() + std::chrono::microseconds(50));
      hand_out();
    }
    if (!is_over()) return "did not finish within the limit of steps";
    for (auto& workload : workloads_) workload->check_final();
    return complaint();
  }
  [[nodiscard]] bool any_connection_failed() const {
    return std::ranges::any_of(workloads_,
                               [](const auto& w) { return w->has_failed_connection(); });
  }

 private:
  [[nodiscard]] bool is_over() const {
    return !complaint().empty() ||
           std::ranges::all_of(workloads_, [](const auto& w) { return w->is_finished(); });
  }
  [[nodiscard]] std::string complaint() const {
    for (const auto& workload : workloads_) {
      if (!workload->complaint().empty()) return workload->complaint();
    }
    for (std::size_t i = 0; i < cluster_.endpoint_count(); ++i) {
      if (!cluster_.endpoint(i).guards_are_intact()) return "a guard zone was written";
    }
    return "";
  }
  void hand_out() {
    for (std::size_t i = 0; i < cluster_.endpoint_count(); ++i) {
      for (const Completion& completion : collect(cluster_.endpoint(i), kSendCq)) {
        for (auto& workload : workloads_) {
          if (workload->sender() == completion.qp) workload->handle_send_completion(completion);
        }
      }
      for (const Completion& completion : collect(cluster_.endpoint(i), kReceiveCq)) {
        for (auto& workload : workloads_) {
          if (workload->receiver() == completion.qp)
            workload->handle_receive_completion(completion);
        }
      }
    }
  }

  Cluster& cluster_;
  std::vector<std::unique_ptr<Workload>> workloads_;
};

}  // namespace verbatim::sim

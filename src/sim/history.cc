// SPDX-License-Identifier: Apache-2.0
#include "sim/history.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/hostile.h"

namespace verbatim::sim {
namespace {

using std::chrono::microseconds;

/// The state of one run.
class History {
 public:
  History(const HistoryOptions& options, Observer* observer)
      : options_(options), prng_(options.seed), cluster_(options.faults, prng_.next(), observer) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      cluster_.add_endpoint({.slot = side,
                             .first_key_index = 0x100 + side * 0x1000,
                             .seed = prng_.next(),
                             .polls = side == 0 ? options.first_polls : options.second_polls,
                             .shared = options.shared});
      (void)cluster_.endpoint(side).create_cq(4096, 64);
      (void)cluster_.endpoint(side).create_cq(4096, 64);
    }
    for (std::uint32_t pair = 0; pair < options.pair_count; ++pair) add_pair();
    if (options.hostile) {
      hostile_ = std::make_unique<Hostile>(cluster_, cluster_.endpoint(0), prng_.next());
    }
  }

  HistoryResult run() {
    HistoryResult result;
    std::uint64_t steps = 0;
    while (complaint_.empty() && !is_finished()) {
      if (++steps > options_.step_limit) {
        complaint_ = "not finished after " + std::to_string(steps) + " steps";
        break;
      }
      for (auto& workload : workloads_) workload->post();
      if (hostile_) hostile_->act();
      cluster_.transmit();
      collect();
      check_limits();
      // A workload without room, or that chose not to post, tries again a little later; later still
      // when no frame is sent.
      const auto frames = cluster_.frame_count();
      cluster_.step(cluster_.now() + patience_);
      collect();
      const bool moved = cluster_.frame_count() != frames || !cluster_.network().is_empty();
      patience_ = moved ? kShortPatience : std::min(patience_ * 2, kLongPatience);
    }
    drain();
    for (auto& workload : workloads_) {
      if (complaint_.empty()) workload->check_final();
      adopt_complaints();
      result.delivered_octets += workload->delivered_octets();
    }
    result.complaint = complaint_;
    result.trace = cluster_.trace();
    result.frames = cluster_.frame_count();
    result.duration = cluster_.now().since_start();
    result.every_request_done = true;
    for (const auto& workload : workloads_) {
      if (workload->has_failed_connection()) result.every_request_done = false;
    }
    return result;
  }

 private:
  void add_pair() {
    const Endpoint::QpSetup setup{.send_depth = options_.send_depth,
                                  .receive_depth = options_.receive_depth,
                                  .sge_limit = options_.workload.sge_limit,
                                  .inline_limit = options_.workload.inline_limit,
                                  .send_cq = 0,
                                  .receive_cq = 1,
                                  .window_packets = options_.window_packets,
                                  .read_chunk_packets = options_.read_chunk_packets};
    Endpoint& first = cluster_.endpoint(0);
    Endpoint& second = cluster_.endpoint(1);
    const std::size_t a = first.create_qp(setup);
    const std::size_t b = second.create_qp(setup);
    connect(first, a, second, b, options_.connection);
    workloads_.push_back(
        std::make_unique<Workload>(options_.workload, first, a, second, b, prng_.next()));
    workloads_.push_back(
        std::make_unique<Workload>(options_.workload, second, b, first, a, prng_.next()));
  }

  [[nodiscard]] bool is_finished() const {
    for (const auto& workload : workloads_) {
      if (!workload->is_finished()) return false;
    }
    return true;
  }

  /// Waits for late frames and timers; they must not have any effect.
  void drain() {
    for (int i = 0; i < 10'000 && complaint_.empty(); ++i) {
      cluster_.transmit();
      if (!cluster_.step()) break;
      collect();
      check_limits();
    }
  }

  void collect() {
    transport::Completion completions[16];
    for (std::size_t side = 0; side < 2; ++side) {
      Endpoint& endpoint = cluster_.endpoint(side);
      for (std::size_t cq = 0; cq < 2; ++cq) {
        while (const std::size_t count = endpoint.cq(cq).poll(completions)) {
          for (std::size_t i = 0; i < count; ++i) hand_out(side, cq == 0, completions[i]);
        }
      }
    }
    adopt_complaints();
  }

  void hand_out(std::size_t side, bool is_send, const transport::Completion& completion) {
    for (auto& workload : workloads_) {
      if (is_send && workload->sender() == completion.qp) {
        workload->handle_send_completion(completion);
      }
      if (!is_send && workload->receiver() == completion.qp) {
        workload->handle_receive_completion(completion);
      }
    }
    (void)side;  // queue pair numbers are unique in the cluster
  }

  void adopt_complaints() {
    for (const auto& workload : workloads_) {
      if (complaint_.empty()) complaint_ = workload->complaint();
    }
  }

  void check_limits() {
    for (std::size_t side = 0; side < 2; ++side) {
      Endpoint& endpoint = cluster_.endpoint(side);
      if (!endpoint.guards_are_intact()) complaint_ = "a guard zone was written";
      for (std::size_t i = 0; i < endpoint.qp_count(); ++i) {
        const transport::QueuePairMachine& qp = endpoint.qp(i).machine();
        // The last packet within the window may request a whole piece of a READ.
        if (qp.in_flight() > options_.window_packets - 1 + options_.read_chunk_packets) {
          complaint_ = "the window was exceeded";
        }
        const auto& responder = qp.responder_state();
        if (responder.replay_count > options_.connection.max_read_atomic) {
          complaint_ = "more READs and atomics remembered than agreed";
        }
      }
    }
  }

  HistoryOptions options_;
  Prng prng_;
  Cluster cluster_;
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::unique_ptr<Hostile> hostile_;
  static constexpr Duration kShortPatience = microseconds(5);
  static constexpr Duration kLongPatience = microseconds(20'000);
  Duration patience_ = kShortPatience;
  std::string complaint_;
};

}  // namespace

HistoryOptions HistoryOptions::random(std::uint64_t seed) {
  Prng prng(seed ^ 0x6f7074696f6e73);  // separate from the generator of the run
  HistoryOptions options;
  options.seed = seed;
  Faults& faults = options.faults;
  const auto severity = prng.below(4);
  if (severity >= 1) {
    faults.loss_per_mille = static_cast<unsigned>(prng.below(severity == 3 ? 301 : 60));
    faults.duplicate_per_mille = static_cast<unsigned>(prng.below(100));
    faults.corrupt_per_mille = static_cast<unsigned>(prng.below(40));
    faults.jitter = microseconds(prng.below(30));
  }
  faults.delay = microseconds(prng.between(1, 20));
  if (prng.one_in(4)) {
    faults.octets_per_second = prng.between(50, 2000) * 1'000'000;
    faults.buffer_octets = prng.between(20'000, 400'000);
  }
  Connection& connection = options.connection;
  connection.mtu = wire::PathMtu(static_cast<std::uint8_t>(prng.between(1, 5)));
  const auto psn = [&] {
    const auto near_wrap = wire::Psn::kMask - static_cast<std::uint32_t>(prng.below(40));
    return wire::Psn(prng.one_in(2) ? near_wrap : static_cast<std::uint32_t>(prng.next()));
  };
  connection.psn_of_first = psn();
  connection.psn_of_second = psn();
  connection.timeout = static_cast<std::uint8_t>(prng.between(6, 14));
  connection.max_read_atomic = static_cast<std::uint8_t>(prng.between(1, 16));
  connection.min_rnr_timer = static_cast<std::uint8_t>(prng.between(1, 12));
  options.pair_count = static_cast<std::uint32_t>(prng.between(1, 3));
  options.workload.request_count = static_cast<std::uint32_t>(prng.between(8, 32));
  options.workload.message_octets_max =
      prng.one_in(3) ? 64 : static_cast<std::uint32_t>(prng.between(500, 12'000));
  options.workload.sge_limit = static_cast<std::uint32_t>(prng.between(1, 6));
  options.workload.may_fail = severity >= 1 || faults.buffer_octets != 0;
  options.window_packets = static_cast<std::uint32_t>(prng.between(1, 96));
  options.read_chunk_packets = static_cast<std::uint32_t>(prng.between(1, 32));
  options.send_depth = static_cast<std::uint32_t>(prng.between(1, 24));
  options.receive_depth = static_cast<std::uint32_t>(prng.between(1, 24));
  options.hostile = prng.one_in(4);
  options.first_polls = prng.one_in(2);
  options.second_polls = prng.one_in(2);
  return options;
}

HistoryResult run_history(const HistoryOptions& options, Observer* observer) {
  return History(options, observer).run();
}

}  // namespace verbatim::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/prng.h"
#include "sim/endpoint.h"
#include "transport/queues/work.h"

namespace verbatim::sim {

/// A random stream of requests in one direction of one reliable connection, and a model of their
/// effects: the target's memory after every request in order, the result of each READ and atomic,
/// the contents of each receive, and which completions must come. It posts as many as fit, collects
/// completions, and reports the first difference from the model.
///
/// Whatever the network does, either everything happens as modelled, or the connection ends with
/// one error, and then everything before it is as modelled and everything after it is flushed.
class Workload {
 public:
  struct Limits {
    std::uint32_t request_count = 24;
    std::uint32_t message_octets_max = 6000;
    std::uint32_t sge_limit = 4;
    std::uint32_t inline_limit = 128;
    bool uses_shared_queue = false;
    bool may_fail = false;  // the network is bad enough for retries to run out
  };

  /// From queue pair `from_qp` of `from` to its peer, queue pair `to_qp` of `to`.
  Workload(const Limits& limits, Endpoint& from, std::size_t from_qp, Endpoint& to,
           std::size_t to_qp, std::uint64_t seed);

  /// Posts receives and requests, as many as fit and as the random choice allows.
  void post();
  void handle_send_completion(const transport::Completion& completion);
  void handle_receive_completion(const transport::Completion& completion);
  /// At the end, when no event is left.
  void check_final();

  [[nodiscard]] bool is_finished() const noexcept;
  [[nodiscard]] bool has_failed_connection() const noexcept {
    return sender_failed_ || receiver_failed_;
  }
  /// Empty: no difference so far.
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }
  [[nodiscard]] wire::QpNumber sender() const noexcept { return from_.number_of(from_qp_); }
  [[nodiscard]] wire::QpNumber receiver() const noexcept { return to_.number_of(to_qp_); }
  [[nodiscard]] std::uint64_t delivered_octets() const noexcept { return delivered_octets_; }

 private:
  struct Request {
    transport::SendRequest request;
    std::vector<memory::Sge> list;
    std::vector<std::byte> answer_expected;  // READ and atomics
    std::span<std::byte> answer_lands{};
  };
  struct Receive {                // the expected contents of the n-th receive
    std::vector<std::byte> data;  // empty for WRITE with immediate
    std::uint32_t octets = 0;
    bool with_immediate = false;
    bool with_invalidate = false;
    bool solicited = false;
    std::uint32_t imm_or_key = 0;
    bool is_write = false;
  };

  void complain(const std::string& what);
  void make_request(std::uint64_t id);
  void make_source(Request& request, std::uint32_t octets);
  void make_landing(Request& request, std::uint32_t octets);
  void make_send(Request& request);
  void make_write(Request& request);
  void make_read(Request& request);
  void make_atomic(Request& request);
  void make_atomic_write(Request& request);
  void make_flush(Request& request);
  void expect_receive(const Request& request, bool is_write);
  void fence_if_read(Request& request, std::size_t offset, std::size_t octets);
  [[nodiscard]] std::span<std::byte> model(std::size_t offset, std::size_t octets);
  [[nodiscard]] std::vector<std::byte> bytes_of(const Request& request) const;
  void post_receive(std::uint32_t number);

  Limits limits_;
  Endpoint& from_;
  std::size_t from_qp_;
  Endpoint& to_;
  std::size_t to_qp_;
  Prng prng_;

  std::span<std::byte> source_;  // the data that is sent; never changes
  wire::MemoryKey source_key_{};
  std::span<std::byte> answers_;  // results of READs and atomics, each at a place of its own
  wire::MemoryKey answers_key_{};
  std::size_t answers_used_ = 0;
  std::span<std::byte> target_;  // at the peer: for WRITEs, READs and atomics
  wire::MemoryKey target_key_{};
  std::span<std::byte> untouchable_;  // at the peer: registered without remote rights
  std::vector<std::byte> model_;      // the expected contents of target_
  std::vector<std::span<std::byte>> receive_buffers_;
  wire::MemoryKey receive_key_{};

  struct Range {
    std::size_t offset;
    std::size_t octets;
  };
  std::vector<Range> unfenced_reads_;

  std::vector<Request> requests_;
  std::vector<Receive> receives_expected_;
  std::uint32_t receives_posted_ = 0;
  std::uint32_t receives_seen_ = 0;
  std::uint32_t posted_ = 0;
  std::uint64_t next_completion_ = 0;  // the lowest wr_id that may complete next
  std::uint32_t completions_seen_ = 0;
  bool sender_failed_ = false;    // its queue pair has reported an error
  bool receiver_failed_ = false;  // the peer's queue pair has
  std::uint64_t delivered_octets_ = 0;
  std::string complaint_;
};

}  // namespace verbatim::sim

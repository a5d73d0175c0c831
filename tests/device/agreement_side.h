// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agreement_program.h"

namespace verbatim::testing {

/// What the two sides of a program tell each other, in shared memory.
struct Board {
  struct End {
    std::uint32_t number;
    std::uint64_t addresses[12];
    std::uint32_t keys[12];
    std::uint32_t window_keys[4];
  };
  End ends[Program::kSides];
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> generation;
  std::atomic<bool> is_given_up;  // an expected event did not happen
};

/// The device of a process, opened once for many programs.
struct OpenDevice {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_pd* foreign_pd = nullptr;
  ibv_gid_entry gid{};  // 127.0.0.1
  [[nodiscard]] bool open();

 private:
  [[nodiscard]] bool find_gid();
};

/// One side of a program: calls the verbs, and writes down everything that the specification lets a
/// program see. Its owner calls each step of both sides before the next step of either.
class Executor {
 public:
  Executor(const Program& program, int side, const OpenDevice& device, Board& board);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  void set_up();     // then the peer knows where everything is
  void get_ready();  // to receive
  void get_ready_to_send();
  void prepare(std::size_t round);  // windows, receives, whatever is armed
  void post(std::size_t round);
  void post_late(std::size_t round);
  void await(std::size_t round);
  void check(std::size_t round);
  void await_failure();
  void enter_error();
  void await_end();
  void check_end();

  [[nodiscard]] const std::string& trace() const noexcept { return trace_; }

 private:
  struct Memory {
    std::uint8_t* at = nullptr;
    ibv_mr* mr = nullptr;
  };
  static constexpr auto kPatience = std::chrono::seconds(30);  // ends a hang, nothing else

  template <typename... Values>
  void note(const char* format, Values... values);
  void demand(bool holds, const char* what);
  template <typename Condition>
  void await_that(Condition&& holds, const char* what);
  [[nodiscard]] Board::End& here() noexcept { return board_.ends[side_]; }
  [[nodiscard]] Board::End& there() noexcept { return board_.ends[1 - side_]; }
  [[nodiscard]] const Program::Side& plan() const noexcept { return program_.sides[side_]; }

  void make_memory();
  void make_queues();
  void bind(const Program::Bind& bind);
  void receive(const Program::Receive& receive);
  void send_chained(const std::vector<Program::Request>& requests, std::size_t from,
                    std::size_t to);
  void build(const std::vector<Program::Request>& requests, std::size_t from, std::size_t to);
  [[nodiscard]] std::vector<ibv_sge> list_of(const std::vector<Program::Slice>& slices) const;
  [[nodiscard]] std::uint32_t key_of(const Program::Target& target);
  [[nodiscard]] std::uint32_t invalidated_key(int window);
  void collect();
  void collect_events();
  void await_events();
  [[nodiscard]] ibv_qp_state state();
  [[nodiscard]] std::string text_of(const ibv_wc& wc, bool is_receive);
  void note_completions();
  void note_queue_pair(bool has_psns);
  void note_memory();
  void modify(ibv_qp_attr attr, int mask);

  const Program& program_;
  const int side_;
  const OpenDevice& device_;
  Board& board_;
  std::string trace_;
  std::vector<Memory> memory_;
  std::vector<ibv_mw*> windows_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_qp_ex* builder_ = nullptr;
  std::uint64_t sends_posted_ = 0;
  std::uint64_t receives_posted_ = 0;
  std::size_t sends_due_ = 0;  // completions, of all rounds so far
  std::size_t receives_due_ = 0;
  std::vector<ibv_wc> sends_;
  std::vector<ibv_wc> receives_;
  std::size_t sends_noted_ = 0;
  std::size_t receives_noted_ = 0;
  std::size_t events_due_ = 0;
  std::vector<std::string> events_;
};

template <typename... Values>
void Executor::note(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  trace_ += text;
  trace_ += '\n';
}

template <typename Condition>
void Executor::await_that(Condition&& holds, const char* what) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (board_.is_given_up) return;
    if (std::chrono::steady_clock::now() > end) {
      note_completions();
      note(
          "side %d waited too long for %s: %zu of %zu sends, %zu of %zu receives, %zu of %zu "
          "events",
          side_, what, sends_.size(), sends_due_, receives_.size(), receives_due_, events_.size(),
          events_due_);
      board_.is_given_up = true;
      return;
    }
    ::sched_yield();
  }
}

}  // namespace verbatim::testing

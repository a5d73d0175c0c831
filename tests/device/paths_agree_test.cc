// SPDX-License-Identifier: Apache-2.0
// The same programs of verbs calls on the packet path and on the direct path must see the same.
// VERBATIM_PROGRAMS=n runs that many; VERBATIM_SEED=n runs the one with that seed.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agreement_program.h"
#include "agreement_side.h"

namespace verbatim::testing {
namespace {

constexpr std::uint64_t kPrograms = 150;
constexpr int kPatienceMs = 120'000;  // ends a hang, nothing else

/// How the two processes of a pair reach each other.
struct Variant {
  const char* name;
  const char* path;    // VERBATIM_PATH
  const char* rehome;  // VERBATIM_REHOME
  const char* cma;     // VERBATIM_CMA
};
constexpr std::array kVariants{
    Variant{"packets", "packet", "auto", "1"},
    Variant{"directly", "direct", "1", "1"},
    Variant{"directly, by system calls", "direct", "0", "1"},
    Variant{"directly, by errands", "direct", "0", "0"},
};

bool write_all(int to, const void* from, std::size_t octets) {
  const auto* at = static_cast<const char*>(from);
  while (octets > 0) {
    const ssize_t done = ::write(to, at, octets);
    if (done <= 0) return false;
    at += done;
    octets -= static_cast<std::size_t>(done);
  }
  return true;
}

bool read_all(int from, void* to, std::size_t octets) {
  auto* at = static_cast<char*>(to);
  while (octets > 0) {
    pollfd readable{.fd = from, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, kPatienceMs) != 1) return false;
    const ssize_t done = ::read(from, at, octets);
    if (done <= 0) return false;
    at += done;
    octets -= static_cast<std::size_t>(done);
  }
  return true;
}

// ---- A process that runs programs ----

void meet(Board& board, std::uint32_t parties) {
  const std::uint32_t generation = board.generation;
  if (++board.arrived == parties) {
    board.arrived = 0;
    ++board.generation;
    return;
  }
  for (int spins = 0; board.generation == generation; ++spins) {
    spins < 200 ? static_cast<void>(::sched_yield()) : static_cast<void>(::usleep(20));
  }
}

std::string run_program(const Program& program, const std::vector<int>& sides,
                        const std::array<OpenDevice, 2>& devices, Board& board) {
  std::vector<std::unique_ptr<Executor>> executors;
  for (const int side : sides) {
    executors.push_back(
        std::make_unique<Executor>(program, side, devices[static_cast<std::size_t>(side)], board));
  }
  const auto step = [&](auto&& act) {
    for (auto& executor : executors) act(*executor);
    meet(board, program.is_in_one_process ? 1 : 2);
  };
  step([](Executor& side) { side.set_up(); });
  step([](Executor& side) { side.get_ready(); });
  for (std::size_t round = 0; round < program.rounds.size(); ++round) {
    step([&](Executor& side) { side.prepare(round); });
    step([&](Executor& side) { side.post(round); });
    step([&](Executor& side) { side.post_late(round); });
    step([&](Executor& side) { side.await(round); });
    const bool is_good =
        program.ending == Program::Ending::kQuiet || round + 1 < program.rounds.size();
    if (is_good) step([&](Executor& side) { side.check(round); });
  }
  step([](Executor& side) { side.await_failure(); });
  step([](Executor& side) { side.enter_error(); });
  step([](Executor& side) { side.await_end(); });
  step([](Executor& side) { side.check_end(); });
  std::string trace;
  for (auto& executor : executors) trace += executor->trace();
  return trace;
}

struct Order {
  std::uint64_t seed;
};

/// Reads seeds and writes traces. For programs in one process the first of the two runs both sides.
constexpr std::uint64_t kNoMore = ~std::uint64_t{0};

[[noreturn]] void work(int which, int orders, int results, Board& board, const Variant& variant) {
  ::setenv("VERBATIM_PATH", variant.path, 1);
  ::setenv("VERBATIM_REHOME", variant.rehome, 1);
  ::setenv("VERBATIM_CMA", variant.cma, 1);
  std::array<OpenDevice, 2> devices;
  for (OpenDevice& device : devices) {
    if (!device.open()) ::_exit(1);
  }
  Order order{};
  while (::read(orders, &order, sizeof order) == sizeof order && order.seed != kNoMore) {
    const Program program = make_program(order.seed);
    std::string trace;
    if (!program.is_in_one_process) {
      trace = run_program(program, {which}, devices, board);
    } else if (which == 0) {
      trace = run_program(program, {0, 1}, devices, board);
    }
    const std::size_t octets = trace.size();
    if (!write_all(results, &octets, sizeof octets) || !write_all(results, trace.data(), octets)) {
      ::_exit(2);
    }
    if (board.is_given_up) ::_exit(3);
  }
  ::_exit(0);
}

// ---- Pairs of them ----

class Workers {
 public:
  explicit Workers(const Variant& variant) {
    board_ = static_cast<Board*>(
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < 2; ++i) {
      int orders[2];
      int results[2];
      if (::pipe(orders) != 0 || ::pipe(results) != 0) std::abort();
      processes_[i] = ::fork();
      if (processes_[i] == 0) {
        ::close(orders[1]);
        ::close(results[0]);
        for (const int other : orders_) ::close(other);
        work(i, orders[0], results[1], *board_, variant);
      }
      ::close(orders[0]);
      ::close(results[1]);
      orders_[i] = orders[1];
      results_[i] = results[0];
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    begin(kNoMore);  // processes that began later hold the other ends of pipes, too
    for (int i = 0; i < 2; ++i) {
      ::close(orders_[i]);
      ::close(results_[i]);
      if (hangs_) ::kill(processes_[i], SIGKILL);
      ::waitpid(processes_[i], nullptr, 0);
    }
    ::munmap(board_, sizeof(Board));
  }

  void begin(std::uint64_t seed) {
    const Order order{.seed = seed};
    for (const int orders : orders_) hangs_ |= !write_all(orders, &order, sizeof order);
  }
  /// The traces of both; nothing when they cannot continue.
  std::string end() {
    std::string all;
    for (const int results : results_) {
      std::size_t octets = 0;
      std::string trace;
      if (read_all(results, &octets, sizeof octets)) {
        trace.resize(octets);
        hangs_ |= !read_all(results, trace.data(), octets);
      } else {
        hangs_ = true;
        trace = "a process has ended, or hangs\n";
      }
      all += trace;
    }
    return all;
  }
  [[nodiscard]] bool has_given_up() const noexcept { return hangs_ || board_->is_given_up; }

 private:
  pid_t processes_[2] = {};
  int orders_[2] = {-1, -1};
  int results_[2] = {-1, -1};
  Board* board_ = nullptr;
  bool hangs_ = false;
};

// ---- Comparing ----

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// The lines around the first difference.
std::string difference(const std::string& one, const std::string& other) {
  const auto ours = lines_of(one);
  const auto theirs = lines_of(other);
  std::size_t i = 0;
  while (i < ours.size() && i < theirs.size() && ours[i] == theirs[i]) ++i;
  std::size_t from = i;
  while (from > 0 && ours[from - 1].starts_with("  ")) --from;
  std::string text;
  for (std::size_t at = from == 0 ? 0 : from - 1; at < i; ++at) text += "  " + ours[at] + "\n";
  for (std::size_t at = i; at < std::min(i + 8, ours.size()); ++at) text += "- " + ours[at] + "\n";
  for (std::size_t at = i; at < std::min(i + 8, theirs.size()); ++at) {
    text += "+ " + theirs[at] + "\n";
  }
  return text;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

TEST(Paths, AgreeOnEveryProgram) {
  const std::uint64_t only = from_environment("VERBATIM_SEED", 0);
  const std::uint64_t first = only != 0 ? only : 1;
  const std::uint64_t count = only != 0 ? 1 : from_environment("VERBATIM_PROGRAMS", kPrograms);
  std::vector<std::unique_ptr<Workers>> workers;
  for (const Variant& variant : kVariants) workers.push_back(std::make_unique<Workers>(variant));
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    std::string expected;
    bool has_failed = false;
    for (std::size_t i = 0; i < kVariants.size(); ++i) {
      workers[i]->begin(seed);
      const std::string found = workers[i]->end();
      if (i == 0) expected = found;
      if (only != 0 && std::getenv("VERBATIM_TRACE") != nullptr) std::puts(found.c_str());
      if (found != expected || workers[i]->has_given_up()) {
        ADD_FAILURE() << (has_failed ? "" : to_text(make_program(seed))) << kVariants[0].name
                      << " (-) and " << kVariants[i].name << " (+) differ:\n"
                      << difference(expected, found) << "VERBATIM_SEED=" << seed
                      << " runs only this one";
        has_failed = true;
      }
      if (workers[i]->has_given_up()) {
        workers[i].reset();
        workers[i] = std::make_unique<Workers>(kVariants[i]);
      }
    }
    failures += has_failed ? 1 : 0;
  }
}

}  // namespace
}  // namespace verbatim::testing

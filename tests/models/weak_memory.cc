// SPDX-License-Identifier: Apache-2.0
#include "models/weak_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <unordered_set>

namespace verbatim::models {
namespace {

using Kind = Instruction::Kind;
using State = std::string;  // memory, registers, then one octet per instruction: a Stage

/// How far an instruction is. A membarrier that is under way has kReached and a bit per thread.
enum Stage : std::uint8_t {
  kTodo,
  kDone,
  kSkipped,
  kLoaded,     // a read-modify-write that has yet to store
  kGuessPass,  // a branch that was guessed
  kGuessFail,
  kReached = 0x40,
};

bool acquires(Order order) { return order == Order::kAcquire || order == Order::kAcquireRelease; }
bool releases(Order order) { return order == Order::kRelease || order == Order::kAcquireRelease; }
bool passes(Test test, std::uint8_t value, std::uint8_t expected) {
  switch (test) {
    case Test::kAlways:
      return true;
    case Test::kEqual:
      return value == expected;
    case Test::kNotEqual:
      return value != expected;
  }
  return false;
}

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "weak_memory: %s\n", why);
  std::abort();
}

/// Walks through all states that a program can reach.
class Explorer {
 public:
  Explorer(const std::vector<std::uint8_t>& initial,
           const std::vector<std::vector<Instruction>>& threads, std::size_t register_count)
      : threads_(threads), memory_count_(initial.size()), register_count_(register_count) {
    std::size_t at = memory_count_ + register_count_;
    for (const auto& code : threads_) {
      stages_at_.push_back(at);
      at += code.size();
    }
    State first(at, static_cast<char>(kTodo));
    for (std::size_t i = 0; i < memory_count_; ++i) first[i] = static_cast<char>(initial[i]);
    for (std::size_t i = 0; i < register_count_; ++i) {
      first[memory_count_ + i] = static_cast<char>(Outcome::kNothing);
    }
    reach(std::move(first));
  }

  void run(const std::function<bool(const Outcome&)>& seen) {
    while (!open_.empty()) {
      const State state = std::move(open_.back());
      open_.pop_back();
      successors_ = 0;
      for (std::size_t t = 0; t < threads_.size(); ++t) step_thread(state, t);
      if (successors_ == 0 && !finish(state, seen)) return;
    }
  }

 private:
  [[nodiscard]] std::uint8_t stage(const State& s, std::size_t t, std::size_t k) const {
    return static_cast<std::uint8_t>(s[stages_at_[t] + k]);
  }
  void set_stage(State& s, std::size_t t, std::size_t k, unsigned stage) const {
    s[stages_at_[t] + k] = static_cast<char>(stage);
  }
  static bool is_over(std::uint8_t stage) { return stage == kDone || stage == kSkipped; }
  [[nodiscard]] std::optional<std::uint8_t> evaluate(const State& s, const Value& value) const {
    if (!value.has_reg) return value.number;
    const auto held = static_cast<std::uint8_t>(s[memory_count_ + value.reg]);
    if (held == Outcome::kNothing) return std::nullopt;
    return static_cast<std::uint8_t>(held + value.number);
  }
  /// Which cell of memory it goes to, once that is known.
  [[nodiscard]] std::optional<std::size_t> address(const State& s, const Instruction& in) const {
    const auto index = evaluate(s, in.index);
    if (!index) return std::nullopt;
    return std::size_t{in.var.index} + *index % in.var.count;
  }
  [[nodiscard]] bool may_overlap(const State& s, const Instruction& a, const Instruction& b) const {
    if (a.var.index != b.var.index) return false;
    const auto one = address(s, a);
    const auto other = address(s, b);
    return !one || !other || *one == *other;
  }

  /// Whether an earlier instruction keeps the access `k` waiting. A load that only waits for a
  /// store of its own thread to the same place may be answered by it: then `forwarder` says which.
  [[nodiscard]] bool is_held_up(const State& s, std::size_t t, std::size_t k, bool stores,
                                std::optional<std::size_t>& forwarder) const {
    const auto& code = threads_[t];
    const Instruction& later = code[k];
    for (std::size_t i = k; i-- > 0;) {
      const std::uint8_t at = stage(s, t, i);
      if (is_over(at)) continue;
      const Instruction& earlier = code[i];
      switch (earlier.kind) {
        case Kind::kFence:
        case Kind::kMembarrier:
          return true;
        case Kind::kBranch:
          if (at == kTodo || stores) return true;
          continue;
        case Kind::kLoad:
        case Kind::kStore:
        case Kind::kExchange:
          break;
      }
      if (at == kTodo && earlier.kind != Kind::kStore && acquires(earlier.order)) return true;
      if (stores && releases(later.order)) return true;
      if (stores && !address(s, earlier)) return true;
      // await() is a loop: what follows depends on its end.
      if (stores && at == kTodo && earlier.waits) return true;
      if (!may_overlap(s, earlier, later)) continue;
      const bool forwards = !stores && later.kind == Kind::kLoad && earlier.kind == Kind::kStore &&
                            address(s, earlier) && evaluate(s, earlier.value);
      if (!forwards && !forwarder) return true;
      if (!forwarder) forwarder = i;
    }
    return false;
  }

  void step_thread(const State& s, std::size_t t) {
    const auto& code = threads_[t];
    for (std::size_t k = 0; k < code.size(); ++k) {
      const std::uint8_t at = stage(s, t, k);
      if (is_over(at)) continue;
      switch (code[k].kind) {
        case Kind::kFence:
          break;
        case Kind::kBranch:
          if (at == kTodo) {  // decided ones are never seen here
            guess(s, t, k);
            return;  // nothing behind it is known yet
          }
          break;
        case Kind::kMembarrier:
          if ((at & kReached) != 0) interrupt_others(s, t, k);
          break;
        case Kind::kLoad:
          step_load(s, t, k);
          break;
        case Kind::kStore:
          step_store(s, t, k);
          break;
        case Kind::kExchange:
          at == kLoaded ? step_store(s, t, k) : step_load(s, t, k);
          break;
      }
    }
  }

  void step_load(const State& s, std::size_t t, std::size_t k) {
    const Instruction& in = threads_[t][k];
    const auto where = address(s, in);
    const auto expected = evaluate(s, in.expected);
    std::optional<std::size_t> forwarder;
    if (!where || !expected || is_held_up(s, t, k, false, forwarder)) return;
    const std::uint8_t value = forwarder ? *evaluate(s, threads_[t][*forwarder].value)
                                         : static_cast<std::uint8_t>(s[*where]);
    const bool passed = passes(in.test, value, *expected);
    if (in.waits && !passed) return;  // another round
    State next = s;
    next[memory_count_ + in.into.index] = static_cast<char>(value);
    set_stage(next, t, k, in.kind == Kind::kExchange && passed ? kLoaded : kDone);
    reach(std::move(next));
  }

  void step_store(const State& s, std::size_t t, std::size_t k) {
    const Instruction& in = threads_[t][k];
    const auto where = address(s, in);
    const auto value = evaluate(s, in.value);
    std::optional<std::size_t> forwarder;
    if (!where || !value || is_held_up(s, t, k, true, forwarder)) return;
    if (is_reserved(s, *where, t, k)) return;
    State next = s;
    next[*where] = static_cast<char>(*value);
    set_stage(next, t, k, kDone);
    reach(std::move(next));
  }

  /// Whether another thread has done the load of a read-modify-write there and will store. A store
  /// between the two would make that thread repeat its load; that is the run in which it loads
  /// later.
  [[nodiscard]] bool is_reserved(const State& s, std::size_t where, std::size_t but_thread,
                                 std::size_t but) const {
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      for (std::size_t k = 0; k < threads_[t].size(); ++k) {
        if (t == but_thread && k == but) continue;
        if (stage(s, t, k) == kLoaded && threads_[t][k].kind == Kind::kExchange &&
            address(s, threads_[t][k]) == where) {
          return true;
        }
      }
    }
    return false;
  }

  void guess(const State& s, std::size_t t, std::size_t k) {
    const std::size_t before = successors_;
    for (const Stage guessed : {kGuessPass, kGuessFail}) {
      State next = s;
      set_stage(next, t, k, guessed);
      if (guessed == kGuessFail) skip(next, t, k);
      reach(std::move(next));
    }
    successors_ = before;  // a guess is no progress: a thread that can only guess is stuck
  }
  void skip(State& s, std::size_t t, std::size_t branch) const {
    for (std::size_t k = branch + 1; k < threads_[t][branch].target; ++k) {
      set_stage(s, t, k, kSkipped);
    }
  }

  /// The fence of a membarrier in another thread falls behind all that is performed without a gap.
  /// What was loaded early beyond that is loaded again; a store cannot be taken back, so the point
  /// cannot lie before one.
  void interrupt_others(const State& s, std::size_t t, std::size_t k) {
    const std::uint8_t reached = stage(s, t, k);
    for (std::size_t other = 0; other < threads_.size(); ++other) {
      const auto bit = static_cast<std::uint8_t>(1U << other);
      if (other == t || (reached & bit) != 0) continue;
      State next = s;
      if (!roll_back(next, other)) continue;
      set_stage(next, t, k, reached | bit);
      reach(std::move(next));
    }
  }
  bool roll_back(State& s, std::size_t t) const {
    const auto& code = threads_[t];
    std::size_t point = 0;
    while (point < code.size() && is_over(stage(s, t, point))) ++point;
    for (std::size_t k = point; k < code.size(); ++k) {
      const std::uint8_t at = stage(s, t, k);
      if (at == kTodo) continue;
      if (at == kDone && has_stored(s, code[k])) return false;
      if ((at & kReached) != 0) continue;  // it has performed all before it, and nothing behind it
      if (code[k].kind == Kind::kLoad || code[k].kind == Kind::kExchange) {
        s[memory_count_ + code[k].into.index] = static_cast<char>(Outcome::kNothing);
      }
      set_stage(s, t, k, kTodo);
    }
    return true;
  }

  [[nodiscard]] bool has_stored(const State& s, const Instruction& in) const {
    if (in.kind != Kind::kExchange) return in.kind == Kind::kStore;
    return passes(in.test, static_cast<std::uint8_t>(s[memory_count_ + in.into.index]),
                  *evaluate(s, in.expected));
  }

  /// Does all that no other thread can notice. False when a guess was wrong.
  [[nodiscard]] bool run_local_steps(State& s) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t t = 0; t < threads_.size(); ++t) {
        const auto verdict = settle_thread(s, t);
        if (!verdict) return false;
        changed = changed || *verdict;
      }
    }
    return true;
  }
  [[nodiscard]] std::optional<bool> settle_thread(State& s, std::size_t t) const {
    const auto& code = threads_[t];
    bool all_over = true;
    for (std::size_t k = 0; k < code.size(); ++k) {
      const std::uint8_t at = stage(s, t, k);
      if (is_over(at)) continue;
      if (code[k].kind == Kind::kBranch) {
        const auto left = evaluate(s, code[k].value);
        const auto right = evaluate(s, code[k].expected);
        if (left && right) {
          const bool passed = passes(code[k].test, *left, *right);
          if (at == (passed ? kGuessFail : kGuessPass)) return std::nullopt;
          set_stage(s, t, k, kDone);
          if (!passed && at == kTodo) skip(s, t, k);
          return true;
        }
        if (at == kTodo) return false;
      } else if (code[k].kind == Kind::kFence && all_over) {
        set_stage(s, t, k, kDone);
        return true;
      } else if (code[k].kind == Kind::kMembarrier && all_over) {
        const unsigned all_threads = kReached | ((1U << threads_.size()) - 1U);
        const unsigned now = at | kReached | (1U << t) | finished_threads(s);
        if (now == at && now != all_threads) return false;
        set_stage(s, t, k, now == all_threads ? unsigned{kDone} : now);
        return true;
      }
      all_over = false;
    }
    return false;
  }
  [[nodiscard]] unsigned finished_threads(const State& s) const {
    unsigned bits = 0;
    for (std::size_t t = 0; t < threads_.size(); ++t) bits |= is_finished(s, t) ? 1U << t : 0U;
    return bits;
  }
  [[nodiscard]] bool is_finished(const State& s, std::size_t t) const {
    for (std::size_t k = 0; k < threads_[t].size(); ++k) {
      if (!is_over(stage(s, t, k))) return false;
    }
    return true;
  }

  void reach(State&& state) {
    ++successors_;
    if (!run_local_steps(state)) return;
    const auto [place, is_new] = seen_.insert(std::move(state));
    if (is_new) open_.push_back(*place);
    if (seen_.size() > kStateLimit) give_up("the program has too many states");
  }

  /// False when enough was seen.
  bool finish(const State& s, const std::function<bool(const Outcome&)>& seen) {
    Outcome outcome;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      for (std::size_t k = 0; k < threads_[t].size(); ++k) {
        const std::uint8_t at = stage(s, t, k);
        // Not an end. A read-modify-write that has loaded may begin again, and the state behind a
        // guess is also reached by a thread that waits.
        if (at == kLoaded || at == kGuessPass || at == kGuessFail) return true;
      }
      outcome.stuck = outcome.stuck || !is_finished(s, t);
    }
    outcome.memory.assign(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(memory_count_));
    outcome.registers.assign(
        s.begin() + static_cast<std::ptrdiff_t>(memory_count_),
        s.begin() + static_cast<std::ptrdiff_t>(memory_count_ + register_count_));
    const State key = s.substr(0, memory_count_ + register_count_) + (outcome.stuck ? 'S' : 'F');
    return !ends_.insert(key).second || seen(outcome);
  }

  static constexpr std::size_t kStateLimit = 20'000'000;

  const std::vector<std::vector<Instruction>>& threads_;
  std::size_t memory_count_;
  std::size_t register_count_;
  std::vector<std::size_t> stages_at_;  // per thread: where its stages begin in a state
  std::unordered_set<State> seen_;
  std::vector<State> open_;
  std::set<State> ends_;
  std::size_t successors_ = 0;  // of the state at hand
};

}  // namespace

Reg Thread::add(Instruction instruction) {
  instruction.into = Reg{*registers_};
  if (instruction.kind == Kind::kLoad || instruction.kind == Kind::kExchange) ++*registers_;
  code_.push_back(instruction);
  return instruction.into;
}

Reg Thread::load_at(Var array, Value index, Order order) {
  return add({.kind = Kind::kLoad, .order = order, .var = array, .index = index});
}

void Thread::store_at(Var array, Value index, Value value, Order order) {
  add({.kind = Kind::kStore, .order = order, .var = array, .index = index, .value = value});
}

Reg Thread::await(Var from, Test test, Value expected, Order order) {
  return add({.kind = Kind::kLoad,
              .order = order,
              .var = from,
              .test = test,
              .expected = expected,
              .waits = true});
}

Reg Thread::await_exchange(Var at, Value expected, Value desired, Order order) {
  return add({.kind = Kind::kExchange,
              .order = order,
              .var = at,
              .value = desired,
              .test = Test::kEqual,
              .expected = expected,
              .waits = true});
}

Reg Thread::exchange(Var at, Value value, Order order) {
  return add({.kind = Kind::kExchange, .order = order, .var = at, .value = value});
}

Reg Thread::compare_exchange_at(Var array, Value index, Value expected, Value desired,
                                Order order) {
  return add({.kind = Kind::kExchange,
              .order = order,
              .var = array,
              .index = index,
              .value = desired,
              .test = Test::kEqual,
              .expected = expected});
}

void Thread::fence() { add({.kind = Kind::kFence}); }
void Thread::membarrier() { add({.kind = Kind::kMembarrier}); }

void Thread::when(Reg reg, Test test, Value value, const std::function<void()>& body) {
  const std::size_t branch = code_.size();
  add({.kind = Kind::kBranch, .value = reg, .test = test, .expected = value});
  body();
  code_[branch].target = code_.size();
}

Var Program::array(int count, int initial) {
  const Var made{.index = static_cast<std::uint8_t>(initial_.size()),
                 .count = static_cast<std::uint8_t>(count)};
  initial_.insert(initial_.end(), static_cast<std::size_t>(count),
                  static_cast<std::uint8_t>(initial));
  return made;
}

void Program::thread(const std::function<void(Thread&)>& body) {
  Thread thread;
  thread.registers_ = &registers_;
  body(thread);
  threads_.push_back(std::move(thread.code_));
}

void Program::explore(const std::function<bool(const Outcome&)>& seen) const {
  Explorer(initial_, threads_, registers_).run(seen);
}

bool Program::can_end(const std::function<bool(const Outcome&)>& bad) const {
  bool found = false;
  bool ended = false;
  explore([&](const Outcome& outcome) {
    ended = ended || !outcome.stuck;
    found = !outcome.stuck && bad(outcome);
    return !found;
  });
  if (!ended) give_up("the program never ends, which proves nothing");
  return found;
}

bool Program::can_get_stuck() const {
  bool found = false;
  explore([&](const Outcome& outcome) {
    found = outcome.stuck;
    return !found;
  });
  return found;
}

}  // namespace verbatim::models

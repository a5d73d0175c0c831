// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// An exhaustive checker for small programs on a processor with a weak memory model, in the manner
/// of Armv8: one memory, and threads that perform their accesses out of order.
///
/// - An access may be performed before an earlier one of its thread, unless one of them is a fence,
///   the earlier is an acquire, the later is a release, or both go to one variable. A load may be
///   answered by an earlier store of its thread that is not performed yet.
/// - A load may be performed before a branch on which it depends is decided; a store may not, nor
///   before a value that it needs.
/// - An acquire does not wait for an earlier release (the weaker `ldapr`, not `ldar`).
/// - A read-modify-write is a load and a store with no other store between; later accesses wait for
///   the load only, if it is an acquire.
/// - membarrier() is a fence in its own thread and, at one point of the program, in every other:
///   accesses before that point have been performed, and accesses after it are performed again.
///
/// Programs have no loops but await(), the last round of one. Values are small.
namespace verbatim::models {

enum class Order : std::uint8_t { kRelaxed, kAcquire, kRelease, kAcquireRelease };

struct Var {
  std::uint8_t index = 0;
  std::uint8_t count = 1;  // of an array
};
struct Reg {
  std::uint8_t index = 0;
};

/// A number, or what a register holds plus a number.
struct Value {
  constexpr Value(int is) noexcept : number(static_cast<std::uint8_t>(is)) {}  // NOLINT
  constexpr Value(Reg from, int plus = 0) noexcept                             // NOLINT
      : number(static_cast<std::uint8_t>(plus)), reg(from.index), has_reg(true) {}
  std::uint8_t number = 0;
  std::uint8_t reg = 0;
  bool has_reg = false;
};

enum class Test : std::uint8_t { kAlways, kEqual, kNotEqual };

struct Instruction {
  enum class Kind : std::uint8_t { kLoad, kStore, kExchange, kFence, kMembarrier, kBranch };
  Kind kind = Kind::kFence;
  Order order = Order::kRelaxed;
  Var var{};
  Value index = 0;            // into an array
  Value value = 0;            // stored; of a branch: compared
  Test test = Test::kAlways;  // await and compare-and-swap: of the old value; a branch: to go on
  Value expected = 0;
  Reg into{};
  std::size_t target = 0;  // a branch whose test fails goes on there
  bool waits = false;      // until the test passes
};

/// One thread of a program, written down in order.
class Thread {
 public:
  Reg load(Var from, Order order = Order::kRelaxed) { return load_at(from, 0, order); }
  Reg load_at(Var array, Value index, Order order = Order::kRelaxed);
  void store(Var to, Value value, Order order = Order::kRelaxed) { store_at(to, 0, value, order); }
  void store_at(Var array, Value index, Value value, Order order = Order::kRelaxed);
  /// Loads until the value passes; only the last load counts.
  Reg await(Var from, Test test, Value expected, Order order = Order::kRelaxed);
  /// Both return what was there.
  Reg exchange(Var at, Value value, Order order);
  Reg compare_exchange(Var at, Value expected, Value desired, Order order) {
    return compare_exchange_at(at, 0, expected, desired, order);
  }
  Reg compare_exchange_at(Var array, Value index, Value expected, Value desired, Order order);
  /// Tries until it succeeds; only the last try counts.
  Reg await_exchange(Var at, Value expected, Value desired, Order order);
  void fence();
  void membarrier();
  /// `body` writes what happens if the test passes.
  void when(Reg reg, Test test, Value value, const std::function<void()>& body);

 private:
  friend class Program;
  Reg add(Instruction instruction);
  std::vector<Instruction> code_;
  std::uint8_t* registers_ = nullptr;  // the program's count
};

/// How one run of a program ended.
class Outcome {
 public:
  static constexpr std::uint8_t kNothing = 0xff;  // a register that nothing was loaded into
  [[nodiscard]] int operator[](Reg reg) const { return registers[reg.index]; }
  [[nodiscard]] int operator[](Var var) const { return memory[var.index]; }
  std::vector<std::uint8_t> memory;
  std::vector<std::uint8_t> registers;
  bool stuck = false;  // a thread waits for a value that never comes
};

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Var var(int initial = 0) { return array(1, initial); }
  Var array(int count, int initial = 0);
  void thread(const std::function<void(Thread&)>& body);

  /// Calls `seen` with every way in which the program can end, each once, until it returns false.
  void explore(const std::function<bool(const Outcome&)>& seen) const;
  /// Whether it can end in a way that `bad` says.
  [[nodiscard]] bool can_end(const std::function<bool(const Outcome&)>& bad) const;
  [[nodiscard]] bool can_get_stuck() const;

 private:
  std::vector<std::uint8_t> initial_;
  std::vector<std::vector<Instruction>> threads_;
  std::uint8_t registers_ = 0;
};

}  // namespace verbatim::models

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "agreement_program.h"
#include "base/prng.h"

namespace verbatim::testing {

/// Which octets the requests of a round use, so that the outcome of the round is defined.
class Uses {
 public:
  struct Use {
    int side = 0;
    Program::Slice slice{};
    bool writes = false;
    int flow = -1;             // the side whose requests use it; -1: it has no order
    std::uint32_t order = 0;   // of the request in its flow
    bool is_remote = false;    // at the responder
    bool is_answered = false;  // READ and atomics: finished only when the answer has arrived
    bool is_atomic = false;
    bool stays = false;         // beyond the round
    bool is_undefined = false;  // from now on: the contents are unknown
  };
  /// A request of `flow` waits for all READs and atomics before `order`.
  void fence(int flow, std::uint32_t order) noexcept { fenced_[flow] = order; }
  [[nodiscard]] bool allows(const Use& next) const noexcept;
  void add(const Use& use) { uses_.push_back(use); }
  /// From the next round on any request may use it again.
  void let_go(int side, const Program::Slice& slice) noexcept;
  void end_round();

 private:
  std::vector<Use> uses_;
  std::uint32_t fenced_[Program::kSides] = {};
};

/// Writes programs; see Program.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) noexcept : prng_(seed) { program_.seed = seed; }
  [[nodiscard]] Program make();

 private:
  using Slice = Program::Slice;
  using Request = Program::Request;
  /// Every side has these first, so that a request that must fail always has a region for it.
  enum : int { kMain, kLarge, kPrivate, kReadOnly, kForeign, kMarkers, kOthers };
  enum class Failure : std::uint8_t {
    kWrongKey,
    kBeyondRegion,
    kRegionDenies,
    kOtherDomain,
    kUnboundWindow,
    kQueuePairDenies,
    kInvalidatesNothing,
    kTooLong,
    kBadReceive,
    kWrongLocalKey,
    kBeyondLocalRegion,
    kReadOnlyLanding,
    kLocalInvalidate,
    kCount,
  };
  struct Window {
    bool is_bound = false;
    Slice slice{};
    unsigned access = 0;
  };
  /// What a side has posted, and what has happened to it.
  struct Standing {
    std::vector<Program::Receive> receives;  // posted, and not used yet
    std::vector<Window> windows;
    Program::Arm armed{};
  };
  /// What a side received in the round.
  struct Arrivals {
    std::uint32_t receives = 0;
    bool solicited = false;
    bool lost = false;
  };

  void choose_options();
  void choose_regions(Program::Side& side);
  void add_round(bool is_one_way);
  void add_failing_round();
  void add_last_requests();
  [[nodiscard]] std::string add_failure(Failure failure, int side, Program::Round& round);

  void change_windows(int side, Program::Turn& turn);
  void add_spare_receive(int side, Program::Turn& turn);
  void arm(int side, Program::Turn& turn);
  void add_requests(int side, Program::Round& round, std::uint64_t count);
  void add_marker(int side, Program::Turn& turn);
  void close_turn(int side, Program::Turn& turn);
  [[nodiscard]] std::optional<Request> make_request(int side, Program::Round& round);
  [[nodiscard]] bool lose(int side, Request& request);
  void take_receive(int side, Program::Round& round, Request& request);
  void invalidate_some(int peer, Request& request);
  [[nodiscard]] bool pick_target(int side, Request& request);
  [[nodiscard]] bool pick_local(int side, Request& request);
  [[nodiscard]] ibv_wr_opcode pick_opcode(int side);
  [[nodiscard]] std::uint32_t pick_octets();
  [[nodiscard]] std::optional<Slice> pick_slice(Uses::Use use, std::uint32_t octets,
                                                unsigned access);
  [[nodiscard]] std::optional<std::vector<Slice>> pick_list(const Uses::Use& use,
                                                            std::uint32_t octets, unsigned access);
  [[nodiscard]] Program::Receive make_receive(int side, std::uint32_t octets);
  [[nodiscard]] Uses::Use use_by(int flow, ibv_wr_opcode opcode, bool is_remote) const noexcept;
  void mark_undefined(int side, const std::vector<Slice>& list);
  void count_completions(int side, Program::Turn& turn);
  [[nodiscard]] std::uint32_t mtu_octets() const noexcept {
    return 128U << static_cast<unsigned>(program_.mtu);
  }

  Prng prng_;
  Program program_;
  Uses uses_;
  Standing standing_[Program::kSides];
  Arrivals arrivals_[Program::kSides];
  std::uint32_t orders_[Program::kSides] = {};
  std::uint32_t octets_left_ = 0;  // of this round
  bool allows_late_ = true;
  bool allows_losses_ = true;
};

[[nodiscard]] bool takes_receive(ibv_wr_opcode opcode) noexcept;
[[nodiscard]] bool is_rdma(ibv_wr_opcode opcode) noexcept;  // has a target
[[nodiscard]] bool is_atomic(ibv_wr_opcode opcode) noexcept;
[[nodiscard]] bool is_answered(ibv_wr_opcode opcode) noexcept;
/// The right that a request needs at its target.
[[nodiscard]] unsigned right_of(ibv_wr_opcode opcode) noexcept;

}  // namespace verbatim::testing

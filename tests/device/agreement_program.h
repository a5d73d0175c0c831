// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::testing {

/// A program of verbs calls for two connected queue pairs whose outcome the specification defines:
/// on either path, completions, memory and events must be the same. Every
/// choice comes from the seed.
///
/// Both sides go through the same rounds. In a round each side first changes its windows and posts
/// receives, then both post requests at the same time, then more receives; when all has completed
/// the next round begins. What two requests of a round may do to the same octets is ordered by the
/// specification (IBA Vol 1, 10.8.3.3), or they do not touch the same octets.
struct Program {
  static constexpr int kSides = 2;
  static constexpr std::uint32_t kSgeLimit = 6;
  static constexpr std::uint32_t kDepth = 64;

  enum class Home : std::uint8_t {
    kHeap,    // begins and ends within pages
    kPages,   // private, whole pages
    kShared,  // a mapping that is shared already
  };
  struct Region {
    Home home{};
    unsigned access = 0;
    std::uint32_t octets = 0;
    bool is_foreign = false;  // of another protection domain
  };
  /// Octets of a region. One with a wrong key has a key that does not exist.
  struct Slice {
    int region = 0;
    std::uint32_t offset = 0;
    std::uint32_t octets = 0;
    bool has_wrong_key = false;
  };
  struct Receive {
    std::vector<Slice> list;
    [[nodiscard]] std::uint64_t octets() const noexcept;
  };
  /// The peer's memory that a request is about, by the key of a region or of a window.
  struct Target {
    int region = 0;
    int window = -1;  // none: the region's own key
    std::int64_t offset = 0;
    bool has_wrong_key = false;
  };
  struct Request {
    ibv_wr_opcode opcode = IBV_WR_SEND;
    unsigned flags = 0;
    std::vector<Slice> local{};
    Target target{};
    std::uint32_t octets = 0;
    std::uint32_t immediate = 0;
    int invalidates = 0;  // a window of the peer's; -1: a key that does not exist
    std::uint64_t compare_or_add = 0;
    std::uint64_t swap = 0;
    bool begins_call = false;  // else it is chained to the one before
  };
  /// A window is bound, or a bound one invalidated.
  struct Bind {
    int window = 0;
    bool invalidates = false;
    Slice slice{};
    unsigned access = 0;
  };
  enum class Arm : std::uint8_t { kNo, kAny, kSolicited };
  struct Turn {  // of one side in one round
    std::vector<Bind> binds;
    std::vector<Receive> early;
    std::vector<Receive> late;  // posted when the peer has sent already
    std::vector<Request> requests;
    Arm arms{};                    // its completion queue of receives, before anything comes
    std::uint32_t limit = 0;       // of the shared receive queue; 0: none
    std::uint32_t sends_done = 0;  // completions to wait for
    std::uint32_t receives_done = 0;
    bool sends_marker = false;  // unreliable only: the peer waits for it
    bool expects_channel_event = false;
    bool expects_limit_event = false;
  };
  struct Round {
    Turn turns[kSides];
  };
  /// The properties of a side.
  struct Side {
    std::vector<Region> regions;
    std::vector<ibv_mw_type> windows;
    unsigned access = 0;  // of the queue pair
    bool has_shared_receives = false;
    bool has_one_completion_queue = false;
    bool signals_all = false;
    bool has_builder = false;  // posts with ibv_wr_*
  };
  /// Octets whose value is not defined at the end.
  struct Undefined {
    int side = 0;
    Slice slice{};
  };
  enum class Ending : std::uint8_t {
    kQuiet,
    kFailure,    // the last round has a request that fails
    kPeerGone,   // side 1 is in error before side 0 sends
    kNoReceive,  // side 1 never posts the receive
  };

  std::uint64_t seed = 0;
  ibv_qp_type type = IBV_QPT_RC;
  bool is_in_one_process = false;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t read_depth = 1;
  std::uint32_t inline_octets = 0;
  std::uint32_t first_psn[kSides] = {};
  bool is_late = false;  // side 1 is ready to send only after the first round
  Side sides[kSides];
  std::vector<Round> rounds;
  Ending ending{};
  int failing = 0;             // the side whose request fails
  bool fails_peer = false;     // and the peer's queue pair with it
  bool fails_receive = false;  // with a completion; else an event tells
  std::vector<Undefined> undefined;
  std::string failure;  // as text

  [[nodiscard]] bool is_reliable() const noexcept { return type == IBV_QPT_RC; }
};

[[nodiscard]] Program make_program(std::uint64_t seed);
[[nodiscard]] std::string to_text(const Program& program);

}  // namespace verbatim::testing

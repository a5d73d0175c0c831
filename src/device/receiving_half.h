// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "base/occupancy.h"
#include "base/time.h"
#include "device/queue_pair_setup.h"
#include "device/visited_half.h"
#include "direct/half.h"
#include "transport/queue_pair_machine.h"

namespace verbatim::device {

class Adapter;

/// The receiving half of a queue pair, as peers of this host use it: the blocks of the segment that
/// it lies in, the record that admits a requester, and the visits of that requester. Only connected
/// types (RC, UC) have a record; requests for the others come in packets alone.
///
/// Before the owner changes or takes away something that a requester uses, it calls bar();
/// afterwards it calls reopen().
///
/// Locks: each group of functions says which ones are held. "The queue pair's" means as
/// QueuePair::hold() takes it: before there is a requester of the direct path, it takes none.
class ReceivingHalf final : public VisitedHalf {
 public:
  /// How long the owner waits for a requester that is inside. A requester that stays longer is
  /// treated as stopped.
  static constexpr Duration kLeavingPatience = std::chrono::milliseconds(100);

  /// The adapter and the setup outlive the half.
  ReceivingHalf(Adapter& adapter, const QueuePairSetup& setup) noexcept
      : adapter_(adapter), setup_(setup) {}

  // ---- From its blocks to its end: the adapter's lock. No thread posts yet, or any more. ----

  /// Takes the blocks and attaches to the completion queue; puts the results into `parts`.
  /// kNoMemory when something runs out.
  [[nodiscard]] Status build(transport::QueuePairMachine::Parts& parts) VB_REQUIRES(adapter_role);
  /// From now on requesters find the record of this number, for connected types.
  void publish(wire::QpNumber number) VB_REQUIRES(adapter_role);
  /// The machine that works on the blocks. It outlives release().
  void set_machine(transport::QueuePairMachine& machine) noexcept { machine_ = &machine; }
  /// From now on no requester enters. Returns when none is inside.
  void end() VB_REQUIRES(adapter_role);
  /// Gives back what build() took.
  void release() VB_REQUIRES(adapter_role);

  // ---- Its record ----

  /// Whether there is a record. From publish() on it does not change: without a lock.
  [[nodiscard]] bool exists() const noexcept { return half_.exists(); }
  /// The adapter's lock, except for Half::take_waiting(): a thread that posts a receive has the
  /// queue pair's lock, or the adapter's.
  [[nodiscard]] direct::Half& half() noexcept override { return half_; }
  /// Whether requests come in packets. A packet for a queue pair whose peer executes its requests
  /// directly, or has not sent a request yet, does not come from the peer. The adapter's lock.
  [[nodiscard]] bool takes_packets() noexcept { return !half_.exists() || half_.admits_packets(); }

  // ---- Its states: the locks of the adapter and of the queue pair ----

  /// Whether a requester has marked the half as failed, or was about to.
  [[nodiscard]] bool has_failed() const noexcept;
  /// A new life begins, with this requester. Without a visitor requests come in packets.
  void begin(const direct::Half::Ends& ends, direct::Visitor visitor) noexcept;

  /// Whether a change of these attributes must not happen while a requester is inside.
  [[nodiscard]] bool is_disturbed_by(transport::QpMask mask,
                                     const transport::QpAttributes& attributes) const noexcept;
  /// Whether the half goes on after it was barred.
  enum class Then : std::uint8_t { kGoesOn, kEnds };
  /// No requester is inside when this returns. A requester that is stopped inside is locked out,
  /// unless the half goes on: then nothing is taken away.
  void bar(Then then) noexcept VB_REQUIRES(adapter_role);
  /// Opens the half if the machine takes requests, and closes it otherwise. Returns which.
  bool reopen() noexcept;

  /// Drops the completions of receives that the program has not polled.
  void discard_completions() noexcept VB_REQUIRES(adapter_role);

  // ---- For Visitors: the adapter's lock ----

  // The first two also for halves of queue pairs whose lock the thread does not have.
  [[nodiscard]] std::set<memory::DomainId> domains() const VB_REQUIRES(adapter_role) override;
  void note_stray() VB_REQUIRES(adapter_role) override;
  /// From bar(), so with the locks that bar() needs.
  void leave_requester_behind() VB_REQUIRES(adapter_role) override;

 private:
  /// A shared receive that a stray has claimed, if the stray was locked out.
  struct LeftBehind {
    transport::SharedReceiveRing shared;
    std::uint32_t claimant = 0;  // 0: it was not locked out
    std::optional<std::uint32_t> cell{};
    std::uint64_t wr_id = 0;
    std::vector<memory::Sge> list{};

    void remember(const transport::SharedReceiveRing& queue, std::uint32_t who,
                  const transport::ResponderState& state);
    void put_back();
  };
  [[nodiscard]] direct::Half::Parts parts() const noexcept;

  Adapter& adapter_;
  const QueuePairSetup& setup_;
  transport::QueuePairMachine* machine_ = nullptr;
  direct::Half half_;
  std::span<std::byte> state_block_;    // the responder's state
  std::span<std::byte> receive_block_;  // the receive queue; empty with a shared one
  std::span<std::byte> lane_block_;     // the completions of receives
  std::optional<transport::CompletionPort> port_;
  bool uses_shared_ = false;
  Occupancy::Snapshot stray_visit_ = 0;      // the visit that was noted last
  std::shared_ptr<LeftBehind> left_behind_;  // by that visit
};

}  // namespace verbatim::device

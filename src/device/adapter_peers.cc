// SPDX-License-Identifier: Apache-2.0
// What an adapter has to do with the other processes of this host; the rest is in adapter.cc.
#include <algorithm>

#include "device/adapter.h"
#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/queue_pair.h"

namespace verbatim::device {
namespace {

// How long a peer that is in the middle of an access is waited for.
constexpr Duration kLeavingPatience = std::chrono::milliseconds(100);

}  // namespace

bool Adapter::is_own_address(const wire::Gid& gid) const noexcept {
  const std::lock_guard lock(port_mutex_);
  return std::any_of(port_.gids.begin(), port_.gids.end(),
                     [&](const GidEntry& entry) { return entry.gid == gid; });
}

direct::HalfRecord& Adapter::half_record(wire::QpNumber number) const noexcept {
  return half_records_[static_cast<std::uint32_t>(number) % host::kNumbersPerSlot];
}

direct::QueuePairRecord& Adapter::queue_pair_record(wire::QpNumber number) const noexcept {
  return queue_pair_records_[static_cast<std::uint32_t>(number) % host::kNumbersPerSlot];
}

direct::Target::Own Adapter::as_target() const noexcept {
  return {.segment = std::bit_cast<std::byte*>(header_),
          .bell = engine_->bell(),
          .has_peer_calls = has_peer_calls_};
}

bool Adapter::wait_for_peers() noexcept {
  bool all_left = true;
  for (QueuePair* qp : queue_pairs_) {
    if (qp == nullptr || !qp->half().exists() || !qp->half().is_claimed_directly()) continue;
    all_left = qp->half().wait_until_left(kLeavingPatience) && all_left;
  }
  return all_left;
}

void Adapter::take_bells() noexcept {
  if (abandoned_) return;
  bells_.take([&](std::uint32_t index) {
    QueuePair* qp = queue_pairs_[index];
    if (qp == nullptr) return;
    {
      const auto held = qp->hold();
      qp->handle_bell();
    }
    list_ready(*qp);
  });
}

/// Another process of this host wants something done in our memory, or has done it for us.
void Adapter::handle_saying(std::span<std::byte> saying, int connection) {
  direct::Errand errand;
  if (!errand.parse(saying)) return;
  const auto octets = saying.subspan(sizeof errand);
  const std::lock_guard lock(mutex_);
  if (errand.kind == direct::Errand::Kind::kReply) {
    QueuePair* qp = find(errand.requester);
    if (qp == nullptr) return;
    {
      const auto held = qp->hold();
      qp->handle_reply(errand, octets);
    }
    serve(*qp);
    return;
  }
  std::array<std::byte, direct::Errand::kOctetsMax> bounce;
  std::ranges::copy(octets, bounce.begin());
  direct::Target target(nullptr, as_target(),
                        {.number = errand.requester, .dest_qp = errand.target}, &now);
  errand.answer = direct::Answer::kSilence;
  if (slot_of(errand.target) == slot_.number() && target.stand_in() &&
      !guarded([&] { target.execute(errand, bounce); })) {
    target.leave();
    errand.answer = direct::Answer::kOperationError;
  }
  errand.kind = direct::Errand::Kind::kReply;
  // A requester that does not listen has itself to blame; it notices by its timeout.
  (void)host::say(connection, std::as_bytes(std::span(&errand, 1)),
                  std::span(bounce).first(errand.payload_octets()));
}

void Adapter::handle_news(const HostPeers::News& news) noexcept {
  for (QueuePair* qp : queue_pairs_) {
    if (qp == nullptr) continue;
    for (const std::uint32_t slot : news.guests_gone) qp->handle_death(slot);
    if (news.has_deaths && qp->way() != QueuePair::Way::kPackets) list_ready(*qp);
  }
}

/// A caller need not wait for a bell to go on with what waits for a receive.
void Adapter::look_after_waiting() noexcept {
  if (waiting_.empty()) return;
  std::erase_if(waiting_, [&](QueuePair* qp) {
    const auto held = qp->hold();
    if (qp->waits_for_receive() && !qp->finds_receive()) return false;
    list_ready(*qp);
    return true;
  });
}

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#include "device/peer_service.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "base/pointer.h"
#include "device/adapter_work.h"
#include "device/clock.h"
#include "device/engine.h"
#include "device/fault_guard.h"
#include "device/queue_pair.h"
#include "device/region_homes.h"
#include "direct/errand.h"
#include "host/peer_calls.h"

namespace verbatim::device {

Status PeerService::open(int epoll) noexcept {
  const std::uint32_t slot = parts_.slot.number();
  if (!admission_.admits_peers) {
    return peers_.open(slot, epoll,
                       {.segment = parts_.segment.descriptor(), .admits_peers = false});
  }
  peers_.set_listener([this](std::span<const std::byte> saying, int connection) {
    std::vector<std::byte> copy(saying.begin(), saying.end());
    handle_saying(copy, connection);
  });
  // Peers that attach get the arena with the rest, so it is there before anything moves.
  prepare_process_rehoming();
  return peers_.open(slot, epoll,
                     {.segment = parts_.segment.descriptor(),
                      .bell = parts_.engine.bell().number(),
                      .arena = process_rehoming().arena().descriptor(),
                      .lends_memory = admission_.has_peer_calls && host::may_lend_memory()});
}

direct::Target::Own PeerService::as_target() const noexcept {
  return {.segment = pointer_as<std::byte>(&parts_.layout.header()),
          .bell = &parts_.engine.bell(),
          .has_peer_calls = admission_.has_peer_calls};
}

void PeerService::serve() {
  parts_.visitors.note_direct_use();  // before a process gets in
  const HostPeers::News news = peers_.serve();
  if (!news.has_deaths && news.guests_gone.empty()) return;
  const std::lock_guard lock(parts_.lock);
  if (news.has_deaths) {
    parts_.queue_pairs.for_each([&](QueuePair& qp) {
      if (qp.requester() != nullptr) parts_.progress.list(qp);
    });
  }
  parts_.visitors.look_if_any(now());
}

void PeerService::take_bells() noexcept {
  parts_.layout.bells().take([&](std::uint32_t index) {
    QueuePair* qp = parts_.queue_pairs.at(index);
    if (qp == nullptr) return;
    {
      const auto held = qp->hold();
      qp->handle_bell();
    }
    parts_.progress.list(*qp);
  });
}

/// Another process of this host wants something done in our memory, or has done it for us.
void PeerService::handle_saying(std::span<std::byte> saying, int connection) {
  direct::Errand errand;
  if (!errand.parse(saying)) return;
  const auto octets = saying.subspan(sizeof errand);
  const std::lock_guard lock(parts_.lock);
  if (errand.kind == direct::Errand::Kind::kReply) {
    QueuePair* qp = parts_.queue_pairs.find(errand.requester);
    if (qp == nullptr) return;
    {
      const auto held = qp->hold();
      if (auto* requester = qp->requester()) requester->handle_reply(errand, octets);
    }
    parts_.progress.serve(*qp, now());
    return;
  }
  std::array<std::byte, direct::Errand::kOctetsMax> bounce;
  std::ranges::copy(octets, bounce.begin());
  direct::Target target(nullptr, as_target(),
                        {.number = errand.requester, .dest_qp = errand.target}, &now);
  errand.answer = direct::Answer::kSilence;
  void* fault_at = nullptr;
  if (slot_of(errand.target) == parts_.slot.number() && target.stand_in() &&
      !guarded([&] { direct::execute(errand, bounce, target); }, &fault_at)) {
    ++parts_.layout.adapter().counters.memory_faults;
    const direct::Answer answer = target.handle_fault(fault_at);  // our queue pair fails, too
    target.visit().leave();
    const bool was_there = answer != direct::Answer::kDone;
    errand.answer = was_there ? answer : direct::Answer::kOperationError;
  }
  errand.kind = direct::Errand::Kind::kReply;
  // A requester that does not take the answer notices by its timeout.
  (void)host::send_message(connection, std::as_bytes(std::span(&errand, 1)),
                           std::span(bounce).first(errand.payload_octets()));
}

}  // namespace verbatim::device

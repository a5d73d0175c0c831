// SPDX-License-Identifier: Apache-2.0
#include "device/peer_service.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "base/pointer.h"
#include "device/clock.h"
#include "device/region_homes.h"
#include "device/slot_of.h"
#include "direct/errand.h"
#include "host/peer_calls.h"

namespace verbatim::device {

Status PeerService::open(int epoll, const host::OwnDescriptor& bell) noexcept {
  bell_ = &bell;
  const std::uint32_t slot = parts_.slot.number();
  // Peers get the arena when they attach, so it exists before any memory moves.
  prepare_process_rehoming();
  if (!admission_.admits_peers) {
    return peers_.open(slot, epoll,
                       {.segment = parts_.segment.descriptor(), .admits_peers = false});
  }
  peers_.set_handler([this](std::span<const std::byte> message, int connection) {
    handle_message(message, connection);
  });
  return peers_.open(slot, epoll,
                     {.segment = parts_.segment.descriptor(),
                      .bell = bell.number(),
                      .arena = process_rehoming().arena().descriptor(),
                      .lends_memory = admission_.has_peer_calls && host::may_lend_memory()});
}

direct::Target::Own PeerService::as_target() const noexcept {
  return {.segment = pointer_as<std::byte>(&parts_.layout.header()),
          .bell = bell_,
          .has_peer_calls = admission_.has_peer_calls};
}

void PeerService::serve() {
  parts_.visitors.note_direct_use();  // before a process is admitted
  const HostPeers::News news = peers_.serve();
  if (!news.has_deaths && news.attached_gone.empty()) return;
  const host::AdapterGuard lock(parts_.lock);
  if (news.has_deaths) parts_.events.handle_deaths();
  parts_.visitors.look_if_any(now());
}

void PeerService::take_bells() noexcept {
  parts_.layout.bells().take([&](std::uint32_t place) {
    assume_adapter_role();
    parts_.events.handle_bell(place);
  });
}

/// A peer asks for an errand in the memory of this process, or replies to an errand.
void PeerService::handle_message(std::span<const std::byte> message, int connection) {
  direct::Errand errand;
  if (!errand.parse(message)) return;
  const auto octets = message.subspan(sizeof errand);
  const host::AdapterGuard lock(parts_.lock);
  if (errand.kind == direct::Errand::Kind::kReply) {
    parts_.events.handle_reply(errand, octets);
    return;
  }
  std::array<std::byte, direct::Errand::kOctetsMax> bounce;
  std::ranges::copy(octets, bounce.begin());
  direct::Target target(nullptr, as_target(),
                        {.number = errand.requester, .dest_qp = errand.target}, &now);
  errand.answer = direct::Answer::kSilence;
  void* fault_at = nullptr;
  if (slot_of(errand.target) == parts_.slot.number() && target.stand_in() &&
      !parts_.memory_work.run([&] { direct::execute(errand, bounce, target); }, &fault_at)) {
    ++parts_.layout.adapter().counters.memory_faults;
    const direct::Answer answer = target.handle_fault(fault_at);  // the queue pair here fails, too
    target.visit().leave();
    const bool is_refused = answer != direct::Answer::kDone;
    errand.answer = is_refused ? answer : direct::Answer::kOperationError;
  }
  errand.kind = direct::Errand::Kind::kReply;
  // A requester that does not get the reply notices by its timeout.
  (void)host::send_message(connection, std::as_bytes(std::span(&errand, 1)),
                           std::span(bounce).first(errand.payload_octets()));
}

}  // namespace verbatim::device

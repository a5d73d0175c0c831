// SPDX-License-Identifier: Apache-2.0
// How a responder judges and executes requests; what it answers is in rc_responder_answers.cc.
#include "transport/rc_responder.h"

#include <array>
#include <atomic>
#include <cstring>

#include "memory/atomics.h"
#include "memory/window.h"
#include "transport/segmentation.h"

namespace verbatim::transport {

using memory::Access;
using wire::OpcodeInfo;
using wire::Operation;
using wire::PacketView;
using wire::Psn;

namespace {

/// The families that the checks tell apart.
enum class Family : std::uint8_t { kSend, kWrite, kRead, kAtomic, kFlush, kAtomicWrite, kResponse };

constexpr Family classify(Operation operation) noexcept {
  switch (operation) {
    case Operation::kSendFirst:
    case Operation::kSendMiddle:
    case Operation::kSendLast:
    case Operation::kSendLastImm:
    case Operation::kSendOnly:
    case Operation::kSendOnlyImm:
    case Operation::kSendLastInvalidate:
    case Operation::kSendOnlyInvalidate:
      return Family::kSend;
    case Operation::kWriteFirst:
    case Operation::kWriteMiddle:
    case Operation::kWriteLast:
    case Operation::kWriteLastImm:
    case Operation::kWriteOnly:
    case Operation::kWriteOnlyImm:
      return Family::kWrite;
    case Operation::kReadRequest:
      return Family::kRead;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return Family::kAtomic;
    case Operation::kFlush:
      return Family::kFlush;
    case Operation::kAtomicWrite:
      return Family::kAtomicWrite;
    case Operation::kReadResponseFirst:
    case Operation::kReadResponseMiddle:
    case Operation::kReadResponseLast:
    case Operation::kReadResponseOnly:
    case Operation::kAcknowledge:
    case Operation::kAtomicAcknowledge:
      return Family::kResponse;
  }
  return Family::kResponse;
}

/// Asked many times for each packet.
constexpr auto kFamilies = [] {
  std::array<Family, 32> families{};
  for (std::size_t i = 0; i < families.size(); ++i) families[i] = classify(Operation(i));
  return families;
}();

Family family_of(Operation operation) noexcept {
  return kFamilies[static_cast<std::size_t>(operation)];
}

bool is_remembered(Family family) noexcept {
  return family != Family::kSend && family != Family::kWrite;
}

/// Selectivity and placement as annex A19 defines them; every other value is reserved.
bool is_defined(const wire::Feth& feth) noexcept {
  constexpr unsigned kPlacements = wire::Feth::kGlobalVisibility | wire::Feth::kPersistence;
  return feth.selectivity <= wire::Feth::kWholeRegion && feth.placement != 0 &&
         (feth.placement & ~kPlacements) == 0;
}

Access flush_rights(const wire::Feth& feth) noexcept {
  Access need = Access::kNone;
  if ((feth.placement & wire::Feth::kGlobalVisibility) != 0) need = need | Access::kFlushGlobal;
  if ((feth.placement & wire::Feth::kPersistence) != 0) need = need | Access::kFlushPersistent;
  return need;
}

}  // namespace

[[gnu::flatten]] void RcResponder::handle_request(const PacketView& packet,
                                                  SharedReceiveQueue named) noexcept {
  if (state_->failed) return;
  const std::int32_t ahead = packet.psn().distance_from(state_->expected_psn);
  if (ahead < 0) {
    ++counters_.duplicates;
    answer_duplicate(packet);
    return;
  }
  if (ahead > 0) {
    ++counters_.out_of_sequence;
    if (!state_->nak_sent) {
      owe(wire::Syndrome::nak(wire::Syndrome::Nak::kSequence), state_->expected_psn);
      state_->nak_sent = true;
    }
    return;
  }
  Judgement judgement{Verdict::kInvalidRequest, Reason::kOutOfOrderOpcode};
  if (transport_ != wire::Transport::kXrc || use_named(packet, named)) judgement = judge(packet);
  if (judgement.accepted()) judgement = execute(packet);
  if (!judgement.accepted()) {
    refuse(packet, judgement);
    return;
  }
  count(packet);
  note_accepted();
  // What is remembered is answered by its own response.
  const bool wants_ack =
      packet.bth().ack_request() && !is_remembered(family_of(packet.operation()));
  if (wants_ack) owe(wire::Syndrome::ack(), packet.psn());
}

void RcResponder::count(const PacketView& packet) noexcept {
  ++counters_.requests;
  if (packet.info().ends_message) ++counters_.messages;
  const bool asks = family_of(packet.operation()) == Family::kRead;
  counters_.octets += asks ? packet.reth().dma_octets : packet.payload().size();
}

void RcResponder::note_accepted() noexcept {
  forget_ancient();
  const bool owes_nak = state_->answer_owed && state_->answer.kind() != wire::Syndrome::Kind::kAck;
  if (owes_nak) state_->answer_owed = false;  // it came after all
  state_->nak_sent = false;
}

/// XRC: a message stays with the shared receive queue that its first packet names (annex A14).
bool RcResponder::use_named(const PacketView& packet, SharedReceiveQueue named) noexcept {
  const wire::SrqNumber number = packet.xrceth().srq;
  const bool continues = state_->inbound != Inbound::kNone;
  if (continues && number != state_->shared_number) return false;
  // A queue that has gone since the message began took the receive with it.
  if (continues && !named.exists()) state_->receive_taken = false;
  state_->shared_number = number;
  landing_.use_shared(named);
  return true;
}

// ---- The checks ----

RcResponder::Judgement RcResponder::judge(const PacketView& packet) noexcept {
  if (const auto no = check_opcode_sequence(packet); !no.accepted()) return no;
  if (const auto no = check_enabled(packet); !no.accepted()) return no;
  if (const auto no = check_resources(packet); !no.accepted()) return no;
  if (const auto no = check_lengths(packet); !no.accepted()) return no;
  return check_key(packet);
}

/// Middle and Last only continue a message of their own kind; everything else begins one
/// (9.7.4.1.2).
RcResponder::Judgement RcResponder::check_opcode_sequence(const PacketView& packet) const noexcept {
  const Family family = family_of(packet.operation());
  Inbound needed = Inbound::kNone;
  if (!packet.info().starts_message) {
    needed = family == Family::kSend ? Inbound::kSend : Inbound::kWrite;
  }
  if (state_->inbound == needed) return {};
  return {Verdict::kInvalidRequest, Reason::kOutOfOrderOpcode};
}

RcResponder::Judgement RcResponder::check_enabled(const PacketView& packet) const noexcept {
  Access need = Access::kNone;
  switch (family_of(packet.operation())) {
    case Family::kWrite:
    case Family::kAtomicWrite:
      need = Access::kRemoteWrite;
      break;
    case Family::kRead:
      need = Access::kRemoteRead;
      break;
    case Family::kAtomic:
      need = Access::kRemoteAtomic;
      break;
    case Family::kSend:
    case Family::kFlush:  // the region's rights decide
    case Family::kResponse:
      break;
  }
  if (allows(state_->access, need)) return {};
  return {Verdict::kInvalidRequest, Reason::kOperationNotEnabled};
}

/// A receive for what consumes one, a place to remember for what is remembered (9.7.4.1.5).
RcResponder::Judgement RcResponder::check_resources(const PacketView& packet) noexcept {
  const Family family = family_of(packet.operation());
  const bool takes_receive = family == Family::kSend || packet.info().has(OpcodeInfo::kImmDt);
  if (takes_receive && transport_ == wire::Transport::kXrc && !landing_.has_shared()) {
    return {Verdict::kInvalidRequest, Reason::kUnknownSharedQueue};
  }
  if (takes_receive && !landing_.take_receive()) return {Verdict::kNotReady, Reason::kNoReceive};
  if (!is_remembered(family)) return {};
  if (state_->replay_limit == 0) return {Verdict::kInvalidRequest, Reason::kTooManyReads};
  if (state_->replay_count < state_->replay_limit) return {};
  // A peer that keeps the limit has the oldest answer when it asks for one more.
  if (replay_at(0).answered) return {};
  return {Verdict::kInvalidRequest, Reason::kTooManyReads};
}

RcResponder::Judgement RcResponder::check_lengths(const PacketView& packet) const noexcept {
  const Judgement wrong{Verdict::kInvalidRequest, Reason::kBadPacketLength};
  const std::size_t octets = packet.payload().size();
  switch (packet.info().payload) {
    case wire::PayloadRule::kExactlyMtu:
      if (octets != state_->path_mtu) return wrong;
      break;
    case wire::PayloadRule::kOneToMtu:
      if (octets == 0 || octets > state_->path_mtu) return wrong;
      break;
    case wire::PayloadRule::kUpToMtu:
      if (octets > state_->path_mtu) return wrong;
      break;
    case wire::PayloadRule::kEight:
      if (octets != 8 || packet.reth().dma_octets != 8) return wrong;
      if (packet.reth().address % 8 != 0) return {Verdict::kInvalidRequest, Reason::kMisaligned};
      return {};
    case wire::PayloadRule::kNone:
      break;
  }
  switch (family_of(packet.operation())) {
    case Family::kSend: {
      const std::uint64_t total = std::uint64_t{state_->arrived} + octets;
      if (total > kMaxMessageOctets || total > landing_.receive_octets()) {
        return {Verdict::kTooLong, Reason::kMessageTooLong};
      }
      return {};
    }
    case Family::kWrite: {
      const bool starts = packet.info().starts_message;
      const std::uint64_t due = starts ? packet.reth().dma_octets : state_->write_octets;
      const std::uint64_t total = (starts ? 0 : std::uint64_t{state_->arrived}) + octets;
      if (due > kMaxMessageOctets) return wrong;
      const bool ends = packet.info().ends_message;
      return (ends ? total == due : total < due) ? Judgement{} : wrong;
    }
    case Family::kRead:
      return packet.reth().dma_octets > kMaxMessageOctets ? wrong : Judgement{};
    case Family::kAtomic:
      if (packet.atomic_eth().address % 8 == 0) return {};
      return {Verdict::kInvalidRequest, Reason::kMisaligned};
    case Family::kFlush:
      if (is_defined(packet.feth())) return {};
      return {Verdict::kInvalidRequest, Reason::kReservedValue};
    case Family::kAtomicWrite:
    case Family::kResponse:
      return {};
  }
  return {};
}

RcResponder::Judgement RcResponder::check_key(const PacketView& packet) noexcept {
  const auto judge_grant = [](const auto& grant) -> Judgement {
    if (grant.ok()) return {};
    return {Verdict::kAccessRefused, reason_of(grant.error())};
  };
  const auto want = [&](wire::MemoryKey key, std::uint64_t address, std::uint64_t octets,
                        Access need) {
    return memory::KeyTable::Want{.key = key,
                                  .domain = state_->domain,
                                  .qp = state_->number,
                                  .address = address,
                                  .octets = octets,
                                  .need = need};
  };
  const memory::KeyTable& keys = landing_.keys();
  switch (family_of(packet.operation())) {
    case Family::kWrite:
      if (!packet.info().starts_message) return {};
      return judge_grant(landing_.begin_write(packet.reth()));
    case Family::kRead: {
      const wire::Reth reth = packet.reth();
      return judge_grant(
          keys.check_remote(want(reth.rkey, reth.address, reth.dma_octets, Access::kRemoteRead)));
    }
    case Family::kAtomic: {
      const wire::AtomicEth eth = packet.atomic_eth();
      const auto place = find_eight(eth.rkey, eth.address, Access::kRemoteAtomic);
      return place ? Judgement{} : place.error();
    }
    case Family::kAtomicWrite: {
      const wire::Reth reth = packet.reth();
      const auto place = find_eight(reth.rkey, reth.address, Access::kRemoteWrite);
      return place ? Judgement{} : place.error();
    }
    case Family::kFlush: {
      const wire::Reth reth = packet.reth();
      const auto wanted =
          want(reth.rkey, reth.address, reth.dma_octets, flush_rights(packet.feth()));
      const bool whole = packet.feth().selectivity == wire::Feth::kWholeRegion;
      return judge_grant(whole ? keys.check_whole(wanted) : keys.check_remote(wanted));
    }
    case Family::kSend:
    case Family::kResponse:
      return {};
  }
  return {};
}

// ---- Executing ----

RcResponder::Judgement RcResponder::execute(const PacketView& packet) noexcept {
  Judgement judgement;
  std::uint32_t sequence_numbers = 1;
  switch (family_of(packet.operation())) {
    case Family::kSend:
      judgement = execute_send(packet);
      break;
    case Family::kWrite:
      judgement = execute_write(packet);
      break;
    case Family::kRead:
      sequence_numbers = packet_count(packet.reth().dma_octets, state_->path_mtu);
      execute_read(packet);
      break;
    case Family::kAtomic:
      judgement = execute_atomic(packet);
      break;
    case Family::kFlush:
      execute_flush(packet);
      break;
    case Family::kAtomicWrite:
      judgement = execute_atomic_write(packet);
      break;
    case Family::kResponse:
      break;
  }
  if (judgement.accepted()) state_->expected_psn = state_->expected_psn + sequence_numbers;
  return judgement;
}

RcResponder::Judgement RcResponder::execute_send(const PacketView& packet) noexcept {
  state_->inbound = Inbound::kSend;
  if (auto placed = landing_.scatter(packet.payload()); !placed) {
    return {Verdict::kPlacementFailed, reason_of(placed.error())};
  }
  state_->arrived += static_cast<std::uint32_t>(packet.payload().size());
  if (!packet.info().ends_message) return {};
  return finish_receive(packet, WcOpcode::kReceive);
}

RcResponder::Judgement RcResponder::execute_write(const PacketView& packet) noexcept {
  state_->inbound = Inbound::kWrite;
  if (auto written = landing_.write(packet.payload()); !written) {
    return {Verdict::kAccessRefused, reason_of(written.error())};
  }
  state_->arrived += static_cast<std::uint32_t>(packet.payload().size());
  if (!packet.info().ends_message) return {};
  if (packet.info().has(OpcodeInfo::kImmDt)) {
    return finish_receive(packet, WcOpcode::kReceiveWithImm);
  }
  ++state_->msn;
  landing_.abandon_message();
  return {};
}

/// The last packet of a message that a receive was taken for.
RcResponder::Judgement RcResponder::finish_receive(const PacketView& packet,
                                                   WcOpcode opcode) noexcept {
  Completion completion{
      .opcode = opcode, .solicited = packet.bth().solicited(), .octets = state_->arrived};
  if (packet.info().has(OpcodeInfo::kImmDt)) {
    completion.flags = completion.flags | WcFlags::kWithImm;
    completion.imm_or_key = static_cast<std::uint32_t>(packet.imm_dt().immediate);
  }
  if (packet.info().has(OpcodeInfo::kIeth)) {
    // The data is in place; then the key goes, then the program hears of it (9.4.1.1.3).
    const wire::MemoryKey key = packet.ieth().rkey;
    const auto refused =
        memory::invalidate(landing_.keys(), {.domain = state_->domain, .qp = state_->number}, key);
    if (refused != memory::BindRefusal::kNone) {
      return {Verdict::kInvalidateRefused, reason_of(refused)};
    }
    completion.flags = completion.flags | WcFlags::kWithInvalidate;
    completion.imm_or_key = static_cast<std::uint32_t>(key);
  }
  ++state_->msn;
  const bool placed = landing_.complete_receive(completion);
  landing_.abandon_message();
  if (!placed) return {Verdict::kOverrun, Reason::kCompletionOverrun};
  return {};
}

void RcResponder::execute_read(const PacketView& packet) noexcept {
  const wire::Reth reth = packet.reth();
  ++state_->msn;
  ReplayEntry& entry = remember(ReplayEntry::Kind::kRead, packet.psn());
  entry.packets = packet_count(reth.dma_octets, state_->path_mtu);
  entry.address = reth.address;
  entry.rkey = reth.rkey;
  entry.octets = reth.dma_octets;
}

/// Where an 8-octet operation goes. Asked again when it is executed: another thread may have taken
/// the key away since it was judged.
Expected<std::byte*, RcResponder::Judgement> RcResponder::find_eight(wire::MemoryKey key,
                                                                     std::uint64_t address,
                                                                     Access need) const noexcept {
  auto grant = landing_.keys().check_remote({.key = key,
                                             .domain = state_->domain,
                                             .qp = state_->number,
                                             .address = address,
                                             .octets = 8,
                                             .need = need});
  if (!grant) return Judgement{Verdict::kAccessRefused, reason_of(grant.error())};
  // Keys may call the octets by other addresses than their own.
  if (!memory::is_aligned_for_atomics(grant->local())) {
    return Judgement{Verdict::kInvalidRequest, Reason::kMisaligned};
  }
  return grant->local();
}

RcResponder::Judgement RcResponder::execute_atomic(const PacketView& packet) noexcept {
  const wire::AtomicEth eth = packet.atomic_eth();
  const auto place = find_eight(eth.rkey, eth.address, Access::kRemoteAtomic);
  if (!place) return place.error();
  // First the memory, which may be gone: nothing is owed for what was not done.
  const std::uint64_t original = packet.operation() == Operation::kCompareSwap
                                     ? memory::compare_swap(*place, eth.compare, eth.swap_or_add)
                                     : memory::fetch_add(*place, eth.swap_or_add);
  ++state_->msn;
  remember(ReplayEntry::Kind::kAtomic, packet.psn()).original = original;
  return {};
}

/// Earlier WRITEs are in memory already; they become visible before the number that the answer
/// carries (annex A19). A fence would do as well, but the thread sanitizer knows none.
void RcResponder::execute_flush(const PacketView& packet) noexcept {
  (void)std::atomic_ref(state_->msn).fetch_add(1, std::memory_order_seq_cst);
  (void)remember(ReplayEntry::Kind::kFlush, packet.psn());
}

RcResponder::Judgement RcResponder::execute_atomic_write(const PacketView& packet) noexcept {
  const wire::Reth reth = packet.reth();
  const auto place = find_eight(reth.rkey, reth.address, Access::kRemoteWrite);
  if (!place) return place.error();
  std::uint64_t value;
  std::memcpy(&value, packet.payload().data(), sizeof value);
  memory::store_eight(*place, value);
  ++state_->msn;
  (void)remember(ReplayEntry::Kind::kAtomicWrite, packet.psn());
  return {};
}

}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/landing.h"

#include <algorithm>
#include <cstring>

#include "base/fence.h"
#include "transport/rules/request_rules.h"

namespace verbatim::transport {

bool Landing::take_shared() noexcept {
  const auto claim = shared_.claim(claimant());
  if (claim.entry == nullptr) return false;
  state_->shared_cell = claim.cell;
  state_->shared_wr_id = claim.entry->wr_id;
  return true;
}

std::uint64_t Landing::receive_octets() const noexcept { return memory::total_octets(list()); }

BasicStatus<memory::Refusal> Landing::scatter(std::span<const std::byte> payload) noexcept {
  const memory::LocalAccess access{
      .table = &keys_, .domain = list_domain(), .need = memory::Access::kLocalWrite};
  const std::byte* from = payload.data();
  memory::SgeCursor cursor = state_->scatter;
  auto placed =
      memory::walk(list(), cursor, payload.size(), access, [&](std::span<std::byte> piece) {
        std::memcpy(piece.data(), from, piece.size());
        from += piece.size();
      });
  state_->scatter = cursor;
  return placed;
}

std::span<std::byte> Landing::receive_run() const noexcept {
  if (!state_->receive_taken) return {};
  const auto elements = list();
  const memory::SgeCursor cursor = state_->scatter;
  if (cursor.index >= elements.size()) return {};
  const memory::Sge& sge = elements[cursor.index];
  if (cursor.offset >= sge.octets) return {};
  const std::uint64_t octets =
      std::min<std::uint64_t>(sge.octets - cursor.offset, kMaxMessageOctets - state_->arrived);
  auto grant = keys_.check_local({.key = sge.lkey,
                                  .domain = shared_.exists() ? shared_.domain() : state_->domain,
                                  .qp = {},
                                  .address = sge.address + cursor.offset,
                                  .octets = octets,
                                  .need = memory::Access::kLocalWrite});
  if (!grant) return {};
  return {grant->local(), octets};
}

void Landing::skip(std::uint32_t octets) noexcept {
  const auto elements = list();
  if (state_->scatter.index >= elements.size()) return;
  const memory::Sge& sge = elements[state_->scatter.index];
  state_->scatter.offset += octets;
  if (state_->scatter.offset >= sge.octets) {
    state_->scatter = {.index = state_->scatter.index + 1, .offset = 0};
  }
}

std::span<std::byte> Landing::write_run(std::uint64_t octets) const noexcept {
  const std::uint64_t due = state_->write_octets;
  if (due <= state_->arrived) return {};
  octets = std::min(octets, due - state_->arrived - 1);
  if (octets == 0) return {};
  auto grant = keys_.check_remote(next_of_write(octets));
  if (!grant) return {};
  return {grant->local(), octets};
}

memory::KeyTable::Want Landing::next_of_write(std::uint64_t octets) const noexcept {
  const Request request{.kind = RequestKind::kWrite,
                        .key = state_->write_key,
                        .address = state_->write_address,
                        .octets = state_->write_octets};
  return want_of(*state_, request, state_->arrived, octets);
}

void Landing::begin_write(const Request& request) noexcept {
  state_->write_address = request.address;
  state_->write_key = request.key;
  state_->write_octets = static_cast<std::uint32_t>(request.octets);
}

BasicStatus<memory::Refusal> Landing::write(std::span<const std::byte> payload) noexcept {
  if (payload.empty()) return Ok{};
  // Checked again for every packet: the key may have become invalid since the first.
  auto grant = keys_.check_remote(next_of_write(payload.size()));
  if (!grant) return grant.error();
  std::memcpy(grant->local(), payload.data(), payload.size());
  return Ok{};
}

void Landing::recover() noexcept {
  port_.recover();
  const bool is_out = state_->receive_taken && port_.published() != state_->published_before;
  if (is_out) state_->receive_taken = false;
  if (!shared_.exists()) {
    if (is_out) queue_.finish_pop(port_.published());
  } else if (!state_->receive_taken) {
    shared_.put_back(claimant());  // claimed, but no message has taken it
  } else if (!shared_.is_claimed_by(claimant(), state_->shared_cell)) {
    state_->shared_cell = kCellReleased;  // another claimant may have it by now
  }
}

void Landing::leave_behind(std::uint32_t claimant) noexcept {
  const std::uint32_t cell = state_->shared_cell;
  recover();
  if (shared_.exists() && shared_.is_claimed_by(claimant, cell)) state_->receive_taken = false;
  abandon_message();
}

void Landing::abandon_message() noexcept {
  state_->inbound = Inbound::kNone;
  state_->arrived = 0;
  state_->scatter = {};
}

void Landing::flush() noexcept {
  recover();
  const Completion flushed{.status = WcStatus::kFlushed, .opcode = WcOpcode::kReceive};
  // A message that had begun ends; its receive completes like the others.
  if (state_->receive_taken) (void)complete_receive(flushed);  // a full queue has overrun already
  if (shared_.exists() || !queue_.exists()) return;
  for (std::uint32_t left = queue_.depth() + 1; left > 0 && queue_.front() != nullptr; --left) {
    state_->receive_taken = true;
    (void)complete_receive(flushed);  // as above
  }
}

void Landing::clear() noexcept {
  recover();
  // No message will complete a receive that was taken from the shared queue: it is put back.
  if (state_->receive_taken && shared_.exists() && state_->shared_cell != kCellReleased) {
    shared_.put_back(claimant(), state_->shared_cell);
  }
  state_->receive_taken = false;
  if (queue_.exists()) queue_.clear(port_.published());
  abandon_message();
}

}  // namespace verbatim::transport

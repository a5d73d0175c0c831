// SPDX-License-Identifier: Apache-2.0
// The short way from a work request to the peer's memory, in one function that the compiler sees as
// a whole. It is for the requests that programs post most. Each step may give up; the long way
// (requester.cc, target.cc) then executes the request from its beginning and finds the error.
#pragma once

#include "base/careful_copy.h"
#include "base/pointer.h"
#include "direct/requester.h"
#include "transport/segmentation.h"

namespace verbatim::direct {

// ---- In the half of the peer ----

inline std::byte* Target::recall(const transport::ShortRequest& request,
                                 memory::Access need) noexcept {
  return keys_.recall({.key = request.rkey,
                       .domain = state().domain,
                       .qp = {},
                       .address = request.remote_address,
                       .octets = request.piece.octets,
                       .need = need},
                      known_target_, [this](memory::KnownRegion& known, std::uint64_t address) {
                        memory_.map(known, address);
                      });
}

inline bool Target::write_short(const transport::ShortRequest& request,
                                const std::byte* from) noexcept {
  if (!allows(state().access, memory::Access::kRemoteWrite)) [[unlikely]]
    return false;
  std::byte* const to = recall(request, memory::Access::kRemoteWrite);
  if (to == nullptr || !careful_copy(to, from, request.piece.octets)) [[unlikely]]
    return false;
  ++state().msn;
  return true;
}

inline bool Target::read_short(const transport::ShortRequest& request, std::byte* to) noexcept {
  if (!allows(state().access, memory::Access::kRemoteRead) || state().replay_limit == 0)
      [[unlikely]]
    return false;
  const std::byte* const from = recall(request, memory::Access::kRemoteRead);
  if (from == nullptr) [[unlikely]]
    return false;
  begin_reading();
  if (!careful_copy(to, from, request.piece.octets)) [[unlikely]]
    return false;
  end_reading();
  ++state().msn;
  return true;
}

inline bool Target::send_short(const transport::ShortRequest& request,
                               const std::byte* from) noexcept {
  const std::uint32_t octets = request.piece.octets;
  if (!landing_.take_receive()) return false;
  const auto list = landing_.list();
  if (list.empty()) [[unlikely]]
    return false;
  const memory::Sge sge = list.front();  // read once
  if (sge.octets < octets) [[unlikely]]
    return false;
  std::byte* const to = keys_.recall(
      {.key = sge.lkey,
       .domain = landing_.list_domain(),
       .qp = {},
       .address = sge.address,
       .octets = octets,
       .need = memory::Access::kLocalWrite},
      known_receive_,
      [this](memory::KnownRegion& known, std::uint64_t address) { memory_.map(known, address); });
  if (to == nullptr || !careful_copy(to, from, octets)) [[unlikely]]
    return false;
  // The octets may have gone to memory that is no longer the receive's. Then the receive does not
  // complete.
  if (visit_.is_given_up()) [[unlikely]]
    return false;
  ++state().msn;
  transport::Completion completion{
      .opcode = transport::WcOpcode::kReceive,
      .solicited = has(request.flags, transport::SendFlags::kSolicited),
      .octets = octets};
  return publish_receive(completion) == Answer::kDone;
}

// ---- In the requester ----

inline bool Requester::execute_short(transport::ShortRequest& request) noexcept {
  using transport::SendFlags;
  using transport::SendOpcode;
  const std::uint32_t octets = request.piece.octets;
  const bool reads = request.opcode == SendOpcode::kRead;
  const bool is_inline = has(request.flags, SendFlags::kInline);
  if (octets == 0 || octets > kShortOctets || (reads && !may_read_short(is_inline))) [[unlikely]]
    return false;
  std::byte* local = nullptr;
  if (is_inline) {
    if (octets > queue_->limits().inline_limit) return false;
    local = pointer_as<std::byte>(static_cast<std::uintptr_t>(request.piece.address));
  } else {
    local = keys_.recall({.key = request.piece.lkey,
                          .domain = config_.domain,
                          .qp = {},
                          .address = request.piece.address,
                          .octets = octets,
                          .need = reads ? memory::Access::kLocalWrite : memory::Access::kNone},
                         known_source_, [](memory::KnownRegion& known, std::uint64_t) {
                           known.map(
                               pointer_as<std::byte>(static_cast<std::uintptr_t>(known.copy.local)),
                               0, known.copy.octets);
                         });
    if (local == nullptr) [[unlikely]]
      return false;
  }
  const bool is_done = request.opcode == SendOpcode::kWrite  ? target_.write_short(request, local)
                       : request.opcode == SendOpcode::kSend ? target_.send_short(request, local)
                                                             : target_.read_short(request, local);
  if (!is_done) return false;
  if (target_.visit().is_given_up() && !target_.counts_late(request)) [[unlikely]]
    return false;
  const std::uint32_t packets =
      octets <= config_.path_mtu ? 1 : transport::packet_count(octets, config_.path_mtu);
  target_.advance(packets);
  next_psn_ = next_psn_ + packets;
  config_.traffic->count_message(octets);
  if (config_.signal_all) request.flags = request.flags | SendFlags::kSignaled;
  if (!has(request.flags, SendFlags::kSignaled)) return true;
  const auto opcode = request.opcode == SendOpcode::kWrite  ? transport::WcOpcode::kWrite
                      : request.opcode == SendOpcode::kSend ? transport::WcOpcode::kSend
                                                            : transport::WcOpcode::kRead;
  transport::Completion completion{
      .wr_id = request.wr_id, .opcode = opcode, .octets = octets, .qp = config_.number};
  if (port_.keeps_time()) [[unlikely]]
    completion.timestamp = transport::stamp_of(clock_());
  if (!port_.publish(completion)) [[unlikely]]
    lose_completion();
  return true;
}

template <typename Requests>
[[gnu::always_inline]] inline void Requester::run_short(Requests& requests) noexcept {
  transport::ShortRequest request;
  if (!is_clear() || !requests.peek(request)) return;
  const auto find_room = [this]() noexcept { return port_.room(queue_->limits().depth); };
  std::uint32_t room = find_room();
  if (target_.visit().enter()) [[likely]] {
    std::uint32_t turn = 0;
    while ((room > 0 || (room = find_room()) > 0) && execute_short(request)) {
      requests.pop();
      if (has(request.flags, transport::SendFlags::kSignaled)) --room;
      turn += request.piece.octets;
      if (turn >= kTurnOctets || failed_ || !requests.peek(request)) break;
    }
  }
  target_.visit().leave();
}

}  // namespace verbatim::direct

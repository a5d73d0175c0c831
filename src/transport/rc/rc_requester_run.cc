// SPDX-License-Identifier: Apache-2.0
// How a requester writes many packets of one message at once. Packets with other headers or
// lengths, and packets that span two pieces of memory, are written one by one (rc_requester.cc).
#include <algorithm>

#include "transport/rc/rc_requester.h"
#include "transport/send_side.h"

namespace verbatim::transport {

using wire::Operation;

/// A train costs the system nearly the same whatever its length. So a message that the window
/// interrupts does not continue with a short train while acknowledgements are expected, which open
/// the window further: one is requested with every quarter of the window.
bool RcRequester::waits_for_a_train(const SendEntry& entry, const TrainRoom& room) const noexcept {
  const std::uint32_t in_use = in_flight();
  const std::uint32_t left = window_.packets() - in_use;
  const std::uint64_t mtu = config_.path_mtu;
  const bool is_started = entry.stage == SendStage::kStarted;
  const std::uint64_t sent = is_started ? cursor_packet_ * mtu : 0;
  if (entry.octets - sent <= left * mtu) return false;  // the rest fits into the window
  if (room.packets_max == 1 || in_use == 0 || is_answered(entry.opcode)) return false;
  const std::size_t each = wire::PacketRun::octets_for(mtu);
  const bool continues = room.packet_octets == each && room.packets_left > 0;
  const std::uint32_t train = continues ? room.packets_left : room.packets_of(each);
  return left < std::min(train, window_.ack_period());
}

/// A program may post one READ for each that has completed. Then every request, and every answer,
/// would be sent alone. So while enough READs are in flight, the next ones wait until there are
/// enough for a train, or until answers have arrived.
bool RcRequester::waits_for_company() noexcept {
  constexpr std::uint32_t kEnough = 16;
  constexpr std::uint32_t kTrain = 16;
  if (reads_in_flight_ < kEnough) return false;
  if (queue_->tail() - cursor_ >= kTrain) released_ = queue_->tail();
  return static_cast<std::int32_t>(released_ - cursor_) <= 0;
}

/// How many packets from the next one on consist of a BTH and a full payload.
std::uint32_t RcRequester::alike_packets(const SendEntry& entry) const noexcept {
  const bool is_write = entry.opcode == SendOpcode::kWrite || entry.opcode == SendOpcode::kWriteImm;
  const bool is_bare = entry.opcode == SendOpcode::kWrite || entry.opcode == SendOpcode::kSend;
  if (is_write && cursor_packet_ == 0) return 0;  // it has a RETH
  const std::uint32_t full = entry.octets / config_.path_mtu;
  const std::uint32_t end = is_bare ? full : std::min(full, entry.packets - 1);
  return end > cursor_packet_ ? end - cursor_packet_ : 0;
}

/// Zero packets when the next one must be written alone.
TrainPart RcRequester::send_run(SendEntry& entry, const TrainRoom& room) noexcept {
  const bool is_plain = config_.transport == wire::Transport::kRc && !entry.is_inline;
  if (room.packets_max == 1 || !is_plain || entry.packets < 2) return {};
  const std::uint32_t mtu = config_.path_mtu;
  const std::size_t each = wire::PacketRun::octets_for(mtu);
  const bool continues = room.packet_octets == each && room.packets_left > 0;
  std::uint32_t count = std::min(alike_packets(entry), window_.packets() - in_flight());
  count = std::min(count, continues ? room.packets_left : room.packets_of(each));
  count = static_cast<std::uint32_t>(std::min<std::size_t>(count, room.frame.size() / each));
  // Either all of them are sent for the first time, or none.
  const auto again = sent_psn_.distance_from(entry.first_psn + cursor_packet_);
  if (again > 0) count = std::min(count, static_cast<std::uint32_t>(again));

  const auto list = queue_->list_of(entry);
  const std::uint32_t offset = cursor_packet_ * mtu;
  if (entry.walk_at != offset) {
    entry.walk = memory::cursor_at(list, offset);
    entry.walk_at = offset;
  }
  if (entry.walk.index >= list.size()) return {};
  const memory::Sge& sge = list[entry.walk.index];
  count = std::min(count, (sge.octets - entry.walk.offset) / mtu);
  if (count < 2) return {};
  const auto grant = keys_.check_local({.key = sge.lkey,
                                        .domain = config_.domain,
                                        .qp = {},
                                        .address = sge.address + entry.walk.offset,
                                        .octets = std::uint64_t{count} * mtu,
                                        .need = memory::Access::kNone});
  if (!grant) return {};  // send_message_packet() finds the packet that fails

  const std::uint16_t identification = continues ? room.identification : std::uint16_t{0};
  wire::PacketRun run(room.frame, mtu, path_.seed, identification);
  write_run(entry, count, grant->local(), run);
  entry.walk.offset += count * mtu;
  if (entry.walk.offset == sge.octets) entry.walk = {.index = entry.walk.index + 1, .offset = 0};
  entry.walk_at = offset + count * mtu;
  advance_cursor(count, entry);
  return {.octets = run.octets(), .packets = count, .identification = identification};
}

void RcRequester::write_run(SendEntry& entry, std::uint32_t count, const std::byte* payload,
                            wire::PacketRun& run) noexcept {
  const auto shape_of = [&](std::uint32_t index) {
    return wire::opcode_of(
        config_.transport,
        message_packet(entry.opcode, entry.octets, config_.path_mtu, index).operation);
  };
  const std::uint32_t mtu = config_.path_mtu;
  const std::uint32_t last = entry.packets - 1;
  const std::uint32_t end = cursor_packet_ + count;
  const std::uint32_t period = window_.ack_period();
  const std::uint32_t in_use = in_flight();
  // The packet that fills the window, counted from the next one.
  const std::uint32_t closing = window_.packets() - 1 - in_use;
  std::uint32_t to_ack = period - 1 - cursor_packet_ % period;
  wire::Bth bth{.opcode = shape_of(cursor_packet_),
                .migrated = true,
                .pkey = path_.pkey,
                .dest_qp = config_.dest_qp,
                .psn = entry.first_psn + cursor_packet_};
  run.begin(bth.front());
  for (std::uint32_t index = cursor_packet_; index < end; ++index) {
    const bool is_last = index == last;
    if (is_last || index == 1) {
      bth.opcode = shape_of(index);
      bth.solicited = is_last && has(entry.flags, SendFlags::kSolicited);
      run.begin(bth.front());
    }
    bth.ack_request = is_last || to_ack == 0 || index - cursor_packet_ == closing;
    run.append(bth.back(), payload);
    to_ack = to_ack == 0 ? period - 1 : to_ack - 1;
    bth.psn = bth.psn + 1;
    payload += mtu;
  }
}

}  // namespace verbatim::transport

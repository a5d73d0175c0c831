// SPDX-License-Identifier: Apache-2.0
#include "transport/unreliable/unreliable_sender.h"

#include "transport/send_side.h"

namespace verbatim::transport {

void UnreliableSender::start(const Config& config, const Path& path) noexcept {
  reconfigure(config, path);
  next_psn_ = config.first_psn;
  cursor_packet_ = 0;
  counters_ = {};
  paused_ = failed_ = false;
}

void UnreliableSender::reconfigure(const Config& config, const Path& path) noexcept {
  config_ = config;
  path_ = path;
  rate_.limit(config.rate);
}

std::size_t UnreliableSender::poll_transmit(Instant now, std::span<std::byte> frame,
                                            std::uint16_t ipv4_identification,
                                            const Path** to) noexcept {
  while (!failed_ && !queue_->is_empty() && rate_.may_send(now)) {
    SendEntry& entry = queue_->at(queue_->head());
    if (paused_ && cursor_packet_ == 0) return 0;
    if (entry.is_flawed()) {
      complete(entry, entry.failure, entry.reason);
      return 0;
    }
    if (is_local(entry.opcode)) {
      const auto outcome =
          run_local(*queue_, entry, keys_, {.domain = config_.domain, .qp = config_.number});
      complete(entry, outcome.status, outcome.reason);
      continue;
    }
    const bool is_datagram = config_.transport == wire::Transport::kUd;
    if (is_datagram) {
      sent_to_ = queue_->path_of(entry);
      if (entry.octets > config_.path_mtu) {
        complete(entry, WcStatus::kLocalLength, Reason::kMessageTooLong);
        return 0;
      }
    }
    *to = is_datagram ? &sent_to_ : &path_;
    const MessagePacket part =
        message_packet(entry.opcode, entry.octets, config_.path_mtu, cursor_packet_);
    auto headers = headers_of(entry, part);
    wire::PacketBuilder builder(frame, headers, part.octets,
                                {.seed = &(*to)->seed, .ipv4_identification = ipv4_identification});
    auto gathered =
        gather(*queue_, entry, part, {.table = &keys_, .domain = config_.domain}, builder);
    if (!gathered) {
      complete(entry, WcStatus::kLocalProtection, reason_of(gathered.error()));
      return 0;
    }
    const std::size_t octets = builder.finish();
    next_psn_ = next_psn_ + 1;
    ++counters_.packets_sent;
    ++cursor_packet_;
    if (part.is_last) complete(entry, WcStatus::kSuccess, Reason::kNone);
    rate_.handle_sent(now, octets);
    return octets;
  }
  return 0;
}

std::optional<UnreliableSender::Destination> UnreliableSender::next_destination(
    Instant now) const noexcept {
  if (failed_ || queue_->is_empty() || !rate_.may_send(now)) return std::nullopt;
  if (paused_ && cursor_packet_ == 0) return std::nullopt;
  const SendEntry& entry = queue_->at(queue_->head());
  if (is_local(entry.opcode) || entry.is_flawed()) return std::nullopt;
  if (config_.transport != wire::Transport::kUd) {
    return Destination{.path = &path_, .number = config_.dest_qp};
  }
  return Destination{.path = &queue_->path_of(entry), .number = entry.remote_qp};
}

Instant UnreliableSender::next_timeout() const noexcept {
  const bool waits = !failed_ && !queue_->is_empty() && !(paused_ && cursor_packet_ == 0);
  return waits ? rate_.next_opportunity() : Instant::never();
}

wire::PacketHeaders UnreliableSender::headers_of(const SendEntry& entry,
                                                 const MessagePacket& part) const noexcept {
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(config_.transport, part.operation);
  headers.bth.solicited = part.is_last && has(entry.flags, SendFlags::kSolicited);
  headers.bth.migrated = true;
  headers.bth.psn = next_psn_;
  headers.reth = {.address = entry.remote_address, .rkey = entry.rkey, .dma_octets = entry.octets};
  headers.imm_dt.immediate = entry.immediate;
  headers.bth.pkey = path_.pkey;  // the queue pair's own, also of a datagram
  if (config_.transport != wire::Transport::kUd) {
    headers.bth.dest_qp = config_.dest_qp;
    return headers;
  }
  // A controlled Q_Key (bit 31) stands for the queue pair's own (10.2.5).
  const bool own_key = (static_cast<std::uint32_t>(entry.remote_qkey) & 0x8000'0000U) != 0;
  headers.bth.dest_qp = entry.remote_qp;
  headers.deth = {.qkey = own_key ? config_.qkey : entry.remote_qkey, .source_qp = config_.number};
  return headers;
}

/// Completes the head entry; a failure stops the queue.
void UnreliableSender::complete(const SendEntry& entry, WcStatus status, Reason reason) noexcept {
  const bool succeeded = status == WcStatus::kSuccess;
  if (!succeeded || has(entry.flags, SendFlags::kSignaled)) {
    // The lane had a place when the request was accepted.
    const bool placed = port_.publish(completion_of(entry, status, reason, config_.number));
    VB_ASSERT(placed);
  }
  if (succeeded) {
    ++counters_.messages;
    counters_.octets += entry.octets;
  }
  failed_ = !succeeded;
  cursor_packet_ = 0;
  queue_->remove_head();
}

void UnreliableSender::handle_memory_fault() noexcept {
  if (queue_->is_empty()) return;
  complete(queue_->at(queue_->head()), WcStatus::kLocalProtection, Reason::kMemoryGone);
}

void UnreliableSender::flush() noexcept {
  while (!queue_->is_empty()) {
    complete(queue_->at(queue_->head()), WcStatus::kFlushed, Reason::kNone);
  }
}

}  // namespace verbatim::transport

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "memory/key_table.h"
#include "transport/path.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/send_queue.h"
#include "transport/rc/rate_policy.h"
#include "transport/segmentation.h"
#include "wire/headers/packet.h"

namespace verbatim::transport {

/// The sending side of unreliable connections and of datagrams (IBA Vol 1, 9.8): every packet is
/// sent once, and a request is complete when its last packet has been written. UD requests have
/// their own destination and fit into one packet.
///
/// No I/O, no clock, no allocation. Its owner posts into the SendQueue and drains poll_transmit().
/// When has_failed(), the failed request has been completed and the queue pair goes to SQE.
/// Thread: the one that holds the queue pair's lock.
class UnreliableSender {
 public:
  struct Config {
    wire::QpNumber number{};
    wire::QpNumber dest_qp{};                          // UC
    wire::Transport transport = wire::Transport::kUc;  // or kUd
    memory::DomainId domain = memory::DomainId::kNone;
    wire::QKey qkey{};  // UD: for requests that use the queue pair's own Q_Key
    wire::Psn first_psn{};
    std::uint32_t path_mtu = 1024;
    RatePolicy::Limit rate{};
  };

  UnreliableSender() noexcept = default;
  UnreliableSender(SendQueue* queue, CompletionPort port, memory::KeyTable keys) noexcept
      : queue_(queue), port_(port), keys_(keys) {}

  void start(const Config& config, const Path& path) noexcept;
  /// New attributes of a queue pair that continues; the sequence numbers continue, too.
  void reconfigure(const Config& config, const Path& path) noexcept;
  void use_pkey(wire::PKey pkey) noexcept { path_.pkey = pkey; }
  /// While paused (SQD), no request is started; a started one finishes.
  void pause(bool paused) noexcept { paused_ = paused; }
  [[nodiscard]] bool is_drained() const noexcept { return cursor_packet_ == 0; }

  /// Writes the next packet into `frame`; 0 when there is none. `to` is where it goes, valid until
  /// the next call of anything here.
  [[nodiscard]] std::size_t poll_transmit(Instant now, std::span<std::byte> frame,
                                          std::uint16_t ipv4_identification,
                                          const Path** to) noexcept;

  /// Where the next packet goes; nothing when none may leave now.
  struct Destination {
    const Path* path = nullptr;  // valid until the next call of anything here
    wire::QpNumber number{};
  };
  [[nodiscard]] std::optional<Destination> next_destination(Instant now) const noexcept;
  /// That destination has no room: nothing leaves before `until`.
  void hold_until(Instant until) noexcept { rate_.hold_until(until); }

  /// When the rate allows the next packet, if there is one to send.
  [[nodiscard]] Instant next_timeout() const noexcept;

  void flush() noexcept;
  /// The owner has caught a fault while this read a program's memory: the present request fails.
  void handle_memory_fault() noexcept;
  [[nodiscard]] bool has_failed() const noexcept { return failed_; }
  /// SQE to RTS: clears the failure.
  void resume() noexcept { failed_ = false; }
  [[nodiscard]] wire::Psn next_psn() const noexcept { return next_psn_; }
  struct Counters {
    std::uint64_t messages = 0;  // done
    std::uint64_t octets = 0;    // of these
    std::uint64_t packets_sent = 0;
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  void complete(const SendEntry& entry, WcStatus status, Reason reason) noexcept;
  [[nodiscard]] wire::PacketHeaders headers_of(const SendEntry& entry,
                                               const MessagePacket& part) const noexcept;

  SendQueue* queue_ = nullptr;
  CompletionPort port_;
  memory::KeyTable keys_;
  Config config_{};
  Path path_{};
  Path sent_to_{};  // UD: the path of the last packet, whose entry may be gone
  RatePolicy rate_;
  wire::Psn next_psn_{};
  std::uint32_t cursor_packet_ = 0;  // index of the next packet of the head entry
  Counters counters_;
  bool paused_ = false;
  bool failed_ = false;
};

}  // namespace verbatim::transport

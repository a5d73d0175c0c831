// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/time.h"
#include "link/burst.h"
#include "link/packet_burst.h"

namespace verbatim::link {

/// How packets leave an adapter and arrive at it (docs/decisions/0026). UDP sockets are one link, a
/// simulated network is another; faults and captures are links around a link (WrappingLink).
///
/// Sending: write next_frame(), with the identification that the frame names, then commit() it. The
/// packets collect in a burst, which leaves with flush(), or when it is full. Receiving: receive()
/// takes some of the packets that have arrived. Both must also be called when next_due() has come.
///
/// The functions per packet are not virtual: they work on the burst, which is plain data. There is
/// one virtual call for each burst that leaves or arrives.
///
/// A link reads no clock: the owner passes the time. A link that is closed has no room for frames,
/// sends nothing and receives nothing. One thread at a time.
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  // ---- Per packet ----

  /// Room for the next packet to send, at least kFrameOctets long; empty when closed.
  ///
  /// Several packets of equal length may be written at once, one behind the other: as many as the
  /// open train still takes, where it has packets of this length, else as many as a train takes,
  /// with identifications from 0 on.
  [[nodiscard]] Frame next_frame() noexcept {
    return burst_ != nullptr ? burst_->next_frame() : Frame{};
  }
  void commit(Instant now, const Outgoing& to, const Written& written) noexcept {
    VB_ASSERT(burst_ != nullptr);
    burst_->commit(to, written);
    if (burst_->is_full()) flush(now);
  }
  /// One packet, written with the identification that next_frame() names.
  void commit(Instant now, const Outgoing& to, std::size_t octets) noexcept {
    commit(now, to, {.octets = octets, .identification = next_frame().identification});
  }
  /// Sends the committed packets, and those that the link itself has held back until now.
  void flush(Instant now) noexcept {
    if (burst_ == nullptr) return;
    send(now, *burst_);
    burst_->clear();
  }
  /// Whether packets are committed and not yet flushed.
  [[nodiscard]] bool has_packets_to_send() const noexcept {
    return burst_ != nullptr && !burst_->is_empty();
  }
  [[nodiscard]] Load load_to_send() const noexcept {
    return burst_ != nullptr ? burst_->load() : Load{};
  }

  /// Whether packets must wait: the link has no room for another burst. It looks for room in
  /// receive() and flush(), and next_due() says when one of them is to be called for that.
  [[nodiscard]] bool is_held() const noexcept { return *is_held_; }

  /// Whether packets leave in trains.
  [[nodiscard]] bool uses_trains() const noexcept {
    return burst_ != nullptr && burst_->uses_trains();
  }

  // ---- Per burst ----

  /// Sends the packets of a burst, which may be empty, and notes in it which have left. It may
  /// change the packets. A packet that cannot leave is lost and counted.
  virtual void send(Instant now, Burst& burst) noexcept = 0;

  /// Takes some of the packets that have arrived, without waiting. The result is valid until the
  /// next call.
  enum class Look : std::uint8_t { kAtAllAddresses, kAtTheLastAddress };
  [[nodiscard]] virtual std::span<const Incoming> receive(Instant now, Look look) noexcept = 0;
  [[nodiscard]] std::span<const Incoming> receive(Instant now) noexcept {
    return receive(now, Look::kAtAllAddresses);
  }

  /// To be called before a thread waits for descriptors(). False: packets are there already, and
  /// the descriptors need not be readable.
  [[nodiscard]] virtual bool prepare_to_wait() noexcept { return true; }
  /// When flush() and receive() must be called although no packet is committed and none arrives.
  [[nodiscard]] virtual Instant next_due() const noexcept { return Instant::never(); }
  /// Descriptors that are readable when packets have arrived after prepare_to_wait().
  [[nodiscard]] virtual std::span<const int> descriptors() const noexcept = 0;
  /// The packets that have passed through the link so far, as the network sees them.
  [[nodiscard]] virtual const LinkCounters& counters() const noexcept = 0;

  // ---- Rarely ----

  /// For a packet in `octets` that another process has forwarded: whether it arrives now. It may
  /// have been changed. The packet is a burst of its own.
  [[nodiscard]] virtual bool admit_forwarded(Instant /*now*/, const Incoming& /*incoming*/,
                                             std::span<std::byte> /*octets*/) noexcept {
    return true;
  }
  /// From now on incoming packets say which traffic class and hop limit they had. Without this call
  /// they may carry the most likely values instead.
  virtual void tell_headers() noexcept = 0;
  /// From now on nothing is sent or received. Packets that are committed and not flushed are lost.
  virtual void close() noexcept = 0;

 protected:
  /// Sets the burst that frames are written into, which the derived class owns. Null: the link is
  /// closed.
  void write_to(Burst* burst) noexcept { burst_ = burst; }
  [[nodiscard]] bool is_open() const noexcept { return burst_ != nullptr; }
  void hold(bool is_held) noexcept { own_hold_ = is_held; }
  /// The link is held when the inner one is.
  void follow_hold_of(const Link& inner) noexcept { is_held_ = inner.is_held_; }

 private:
  bool own_hold_ = false;
  const bool* is_held_ = &own_hold_;
  Burst* burst_ = nullptr;  // owned by the derived class
};

}  // namespace verbatim::link

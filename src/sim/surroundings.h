// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "base/time.h"
#include "loop/dispatch.h"
#include "loop/packet_counters.h"
#include "sim/mailboxes.h"
#include "wire/cm/cm_ids.h"

namespace verbatim::sim {

/// The device around the loop of an endpoint: what loop::Dispatch and loop::Progress call
/// `Outside`. The memory of an endpoint never disappears, no thread is cancelled, receivers always
/// have room, and queue pair 1 drops its packets.
class Surroundings {
 public:
  Surroundings(const Mailboxes::Owner& owner, Mailboxes& mailboxes)
      : owner_(owner), mailboxes_(mailboxes) {
    mailboxes.open(owner);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  [[nodiscard]] loop::PacketCounters& counters() noexcept { return counters_; }
  template <typename Work>
  [[nodiscard]] bool guarded(Work&& work) noexcept {
    work();
    return true;
  }
  void expect_faults() noexcept {}

  // ---- For Dispatch ----

  void forward(std::uint32_t slot, const link::Incoming& incoming) {
    ++counters_.forwarded;
    mailboxes_.put({.address = owner_.address, .slot = slot}, incoming);
  }
  [[nodiscard]] bool is_own_address(const wire::Gid& gid) const noexcept {
    return gid == owner_.address;
  }
  void handle_management(const link::Incoming&, const wire::PacketView&, const wire::IcrcSeed&,
                         loop::ArrivedBy) noexcept {}
  void handle_first_data(wire::CommId) noexcept {}
  void handle_key_violation(transport::KeyViolation, const transport::Arrival&) noexcept {}

  // ---- For Progress ----

  struct Uncancelled {};
  struct Room {
    struct Receiver {
      wire::Gid gid{};
      std::uint32_t slot = 0;
      friend bool operator==(const Receiver&, const Receiver&) = default;
    };
    static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
    static constexpr Duration kNextLook = std::chrono::microseconds(50);
    static constexpr std::size_t charge(const link::Load& load) noexcept { return load.octets; }
  };
  [[nodiscard]] Room::Receiver receiver_at(const wire::Gid& gid,
                                           std::uint32_t slot) const noexcept {
    return {.gid = gid, .slot = slot};
  }
  [[nodiscard]] std::size_t room_at(const Room::Receiver&, Instant) const noexcept {
    return Room::kUnlimited;
  }
  struct Forwarded {
    link::Incoming incoming{};
    std::span<std::byte> octets{};  // the packet's, in the same place
  };
  /// The octets are valid until the next call.
  [[nodiscard]] std::optional<Forwarded> take_forwarded() {
    auto frame = mailboxes_.take(owner_);
    if (!frame) return std::nullopt;
    forwarded_ = std::move(*frame);
    return Forwarded{.incoming = {.source = forwarded_.source,
                                  .destination = forwarded_.destination,
                                  .source_port = forwarded_.source_port,
                                  .traffic_class = forwarded_.traffic_class,
                                  .hop_limit = forwarded_.hop_limit,
                                  .octets = forwarded_.octets},
                     .octets = forwarded_.octets};
  }
  void note_deadline(Instant at) noexcept { deadline_ = std::min(deadline_, at); }
  void note_kept_answers(Instant at) noexcept { note_deadline(at); }
  void note_caller(Instant) noexcept {}
  [[nodiscard]] Instant next_chore() const noexcept { return Instant::never(); }
  void do_chores(Instant) noexcept {}

  // ---- For the endpoint ----

  /// Whether another endpoint has forwarded a packet.
  [[nodiscard]] bool has_forwarded() const noexcept { return mailboxes_.has_any(owner_); }
  /// The earliest deadline that the loop has noted, and that was not passed yet.
  [[nodiscard]] Instant deadline() const noexcept { return deadline_; }
  void pass_deadline(Instant now) noexcept {
    if (deadline_ <= now) deadline_ = Instant::never();
  }

 private:
  Mailboxes::Owner owner_;
  Mailboxes& mailboxes_;
  loop::PacketCounters counters_;
  NetworkFrame forwarded_;
  Instant deadline_ = Instant::never();
};

}  // namespace verbatim::sim

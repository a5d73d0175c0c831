// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "base/prng.h"
#include "base/time.h"
#include "fabric/mads/mad_port.h"
#include "fabric/management_packet.h"
#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"

/// Datagrams and two ports that exchange them, for the tests of this folder. Nothing but tests
/// includes this.
namespace verbatim::fabric::test {

using Octets = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr auto kVendor = wire::MgmtClass{0x32};
constexpr std::array<std::uint8_t, 3> kOui{0x00, 0x14, 0x05};
constexpr auto kGetMulti = wire::MadMethod{0x14};
constexpr auto kGetTable = wire::MadMethod{0x12};
constexpr auto kGetTableResp = wire::MadMethod{0x92};
constexpr ClientId kClient{7};

struct Header {
  wire::MgmtClass mgmt_class = wire::MgmtClass::kPerformance;
  wire::MadMethod method = wire::MadMethod::kGet;
  std::uint64_t transaction = 0x11;
  std::uint8_t class_version = 1;
};

/// One datagram, zero behind the header but for the OUI of a vendor class.
inline Octets datagram(const Header& header) {
  Octets octets(wire::Mad::kSize);
  wire::Mad{.header = {.mgmt_class = header.mgmt_class,
                       .class_version = header.class_version,
                       .method = header.method,
                       .transaction = wire::TransactionId{header.transaction}}}
      .emit(std::span<std::byte, wire::Mad::kSize>(octets));
  if (wire::has_oui(header.mgmt_class)) {
    for (std::size_t i = 0; i < kOui.size(); ++i) octets[37 + i] = std::byte{kOui[i]};
  }
  return octets;
}

/// A message whose data of `data_octets` depends on their number and place.
inline Octets message(const Header& header, std::size_t data_octets) {
  Octets octets = datagram(header);
  wire::Rmpp{}.emit(std::span<std::byte, wire::Mad::kSize>(octets));
  const std::size_t headers = wire::header_octets_of(header.mgmt_class);
  octets.resize(headers);
  octets.resize(headers + data_octets);
  for (std::size_t i = 0; i < data_octets; ++i) {
    octets[headers + i] = static_cast<std::byte>((i * 31 + i / 200 + data_octets) & 0xff);
  }
  return octets;
}

inline std::span<const std::byte> data_of(const UserMad& mad) {
  const auto mgmt_class = wire::MgmtClass{std::to_integer<std::uint8_t>(mad.octets[1])};
  return std::span(mad.octets).subspan(wire::header_octets_of(mgmt_class));
}
inline std::uint64_t transaction_of(const UserMad& mad) {
  return load_be_at<std::uint64_t>(mad.octets.data() + 8);
}
inline wire::MadView view_of(const ManagementPacket& packet) { return packet.view().value(); }

inline UserMad to(wire::Lid lid, AgentId agent, Octets octets, milliseconds timeout = {},
                  std::uint32_t retries = 0) {
  return {.agent = agent,
          .timeout = timeout,
          .retries = retries,
          .address = {.lid = lid, .qpn = wire::QpNumber::kGsi, .qkey = wire::QKey::kGsi},
          .octets = std::move(octets)};
}

inline Registration claim(wire::MgmtClass mgmt_class, std::initializer_list<unsigned> methods,
                          RmppMode rmpp = RmppMode::kNone) {
  const bool is_subnet = mgmt_class == wire::MgmtClass::kSubnetLidRouted ||
                         mgmt_class == wire::MgmtClass::kSubnetDirectedRoute;
  Registration registration{.qpn = is_subnet ? wire::QpNumber::kSmi : wire::QpNumber::kGsi,
                            .mgmt_class = mgmt_class,
                            .class_version = 1,
                            .rmpp = rmpp};
  if (wire::has_oui(mgmt_class)) registration.oui = kOui;
  for (const unsigned method : methods) registration.methods.set(method);
  return registration;
}

/// What the pipe between the two ports does to packets.
struct PipeFaults {
  std::uint32_t loss_per_mille = 0;
  std::uint32_t copies_per_mille = 0;
  Duration delay = std::chrono::microseconds(5);
  Duration jitter{0};  // more than 0: packets overtake each other
};

/// Two ports, LIDs 1 and 2, with a pipe between them under virtual time.
class PairOfPorts {
 public:
  static constexpr wire::Lid kLids[2] = {wire::Lid{1}, wire::Lid{2}};

  explicit PairOfPorts(PipeFaults faults = {}, std::uint64_t seed = 1)
      : faults_(faults), prng_(seed) {
    for (std::size_t side = 0; side < 2; ++side) {
      ports_[side].set_identity({.base_lid = kLids[side]});
    }
  }

  [[nodiscard]] MadPort& port(std::size_t side) { return ports_[side]; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::uint64_t carried() const { return carried_; }
  void set_faults(PipeFaults faults) { faults_ = faults; }

  AgentId agent(std::size_t side, const Registration& registration, ClientId client = kClient) {
    return ports_[side].register_agent(client, registration).value();
  }
  Status post(std::size_t side, UserMad mad, ClientId client = kClient) {
    return ports_[side].post_send(now_, client, std::move(mad));
  }

  /// The next message for a program of this side; empty when nothing is left to happen, or at
  /// `patience`.
  std::optional<Delivery> next(std::size_t side, Duration patience = std::chrono::hours(1)) {
    const Instant end = now_ + patience;
    while (true) {
      drain();
      if (!inboxes_[side].empty()) {
        Delivery delivery = std::move(inboxes_[side].front());
        inboxes_[side].pop_front();
        return delivery;
      }
      if (!step(end)) return std::nullopt;
    }
  }
  /// Until nothing is left to happen.
  void run() {
    do {
      drain();
    } while (step(Instant::never()));
  }

 private:
  struct Flight {
    Instant at;
    std::size_t side;
    ManagementPacket packet;
  };
  void drain() {
    for (std::size_t side = 0; side < 2; ++side) {
      while (const auto packet = ports_[side].poll_transmit(now_)) carry(1 - side, *packet);
      while (auto delivery = ports_[side].poll_delivery()) {
        inboxes_[side].push_back(std::move(*delivery));
      }
    }
  }
  void carry(std::size_t side, const ManagementPacket& packet) {
    ++carried_;
    const int copies = prng_.per_mille(faults_.copies_per_mille) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (prng_.per_mille(faults_.loss_per_mille)) continue;
      const auto jitter = prng_.below(static_cast<std::uint64_t>(faults_.jitter.count()) + 1);
      const Instant at = now_ + faults_.delay + Duration(static_cast<std::int64_t>(jitter));
      auto place = flights_.end();
      while (place != flights_.begin() && std::prev(place)->at > at) --place;
      flights_.insert(place, {at, side, packet});
    }
  }
  bool step(Instant end) {
    Instant next = Instant::never();
    if (!flights_.empty()) next = flights_.front().at;
    for (MadPort& port : ports_) next = std::min(next, port.next_timeout().value_or(next));
    if (next == Instant::never() || next > end) return false;
    now_ = next;
    while (!flights_.empty() && flights_.front().at <= now_) {
      const Flight flight = flights_.front();
      flights_.pop_front();
      (void)ports_[flight.side].handle_packet(now_, flight.packet);  // its counters say what it did
    }
    for (MadPort& port : ports_) port.handle_timeout(now_);
    return true;
  }

  PipeFaults faults_;
  Prng prng_;
  Instant now_{};
  std::array<MadPort, 2> ports_{};
  std::array<std::deque<Delivery>, 2> inboxes_{};
  std::deque<Flight> flights_{};  // by time
  std::uint64_t carried_ = 0;
};

}  // namespace verbatim::fabric::test

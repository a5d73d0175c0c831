// SPDX-License-Identifier: Apache-2.0
#include "connect/subnet_client.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/byte_order.h"
#include "host/fabric_choice.h"
#include "host/fabric_client.h"
#include "host/fabric_transfer.h"
#include "wire/management/sa_header.h"

namespace verbatim::connect {
namespace {

using host::Transfer;
using host::UserMadHeader;

constexpr int kMessagesPerTurn = 64;

/// Whether a call has reached the fabric, and it has agreed.
Expected<host::FabricReply> call(int descriptor, const host::FabricCall& call) {
  auto reply = host::call_fabric(descriptor, call);
  if (!reply) return reply.error();
  if (reply->error == EHOSTUNREACH) return Errc::kNoSuchObject;
  if (reply->error != 0) return Errc::kNotSupported;
  return *reply;
}

}  // namespace

Expected<SubnetClient> SubnetClient::open(const device::FabricPort& port) {
  std::string unsaid;  // the error becomes that of an event
  const auto choice = host::FabricChoice::read(unsaid);
  if (!choice) return choice.error();
  auto connection = host::open_fabric_port(choice->place, port.node, port.number, unsaid);
  if (!connection) return connection.error();
  host::FabricCall registration;
  registration.kind = host::FabricCall::Kind::kRegister;
  registration.management_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnetAdministration);
  registration.class_version = wire::SaHeader::kClassVersion;
  registration.qpn = 1;
  const auto agent = call(connection->number(), registration);
  if (!agent) return agent.error();
  host::FabricCall keeping;
  keeping.kind = host::FabricCall::Kind::kServeConnections;
  if (auto kept = call(connection->number(), keeping); !kept) return kept.error();
  SubnetClient client;
  client.connection_ = host::OwnDescriptor(connection->release());
  client.agent_ = agent->agent;
  return client;
}

Expected<wire::Gid> SubnetClient::find_node(int descriptor, std::uint32_t address) {
  host::FabricCall finding;
  finding.kind = host::FabricCall::Kind::kFind;
  finding.address = address;
  const auto found = call(descriptor, finding);
  if (!found) return found.error();
  return wire::Gid{.octets = found->gid};
}

Expected<SubnetToken> SubnetClient::post(Instant now, const device::FabricPort& port,
                                         std::span<const std::byte, wire::Mad::kSize> octets,
                                         Duration patience) {
  if (outstanding_.size() >= kOutstandingMax) return Errc::kNoMemory;
  patience = std::clamp(patience, Duration(0), kPatienceMax);
  const SubnetToken token{next_token_++};
  outstanding_.push_back({.token = token, .deadline = now + patience + kGrace});
  if (port.sm_lid == wire::Lid::kReserved || has_ended()) {
    give_up(token);
    return token;
  }
  const auto attempt = std::chrono::ceil<std::chrono::milliseconds>(patience / kAttempts).count();
  UserMadHeader header;
  header.agent = agent_;
  header.timeout_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(attempt, 1));
  header.retries = kAttempts - 1;
  header.qpn_be = htonl(static_cast<std::uint32_t>(wire::QpNumber::kGsi));
  header.qkey_be = htonl(static_cast<std::uint32_t>(wire::QKey::kGsi));
  header.lid_be = htons(static_cast<std::uint16_t>(port.sm_lid));
  header.service_level = static_cast<std::uint8_t>(port.sm_level);
  std::array<std::byte, wire::Mad::kSize> message;
  std::ranges::copy(octets, message.begin());
  store_be<std::uint64_t, 8>(std::span(message), static_cast<std::uint64_t>(token));
  // Where the fabric takes nothing now, the request ends by its own time.
  if (host::send_user_mad(connection_.number(), header, message) == Transfer::kGone) give_up_all();
  return token;
}

bool SubnetClient::forget(SubnetToken token) noexcept {
  return std::erase_if(outstanding_, [&](const Outstanding& each) { return each.token == token; }) >
         0;
}

void SubnetClient::give_up(SubnetToken token) {
  if (forget(token)) answers_.push_back({.token = token});
}

void SubnetClient::give_up_all() {
  for (const Outstanding& each : std::exchange(outstanding_, {})) {
    answers_.push_back({.token = each.token});
  }
}

void SubnetClient::receive() {
  if (!connection_.is_open() || has_ended_) return;
  std::array<std::byte, sizeof(UserMadHeader) + wire::Mad::kSize> room;
  for (int count = 0; count < kMessagesPerTurn; ++count) {
    bool is_gone = !connection_.is_still_own();
    const auto arrived =
        is_gone ? std::nullopt : host::receive_message(connection_.number(), room, is_gone);
    if (is_gone) {
      has_ended_ = true;
      return give_up_all();
    }
    if (!arrived) return;
    take(std::span(room).first(std::min(arrived->octets, room.size())));
  }
}

/// The upper half of the transaction is that of the agent.
void SubnetClient::take(std::span<const std::byte> message) {
  host::FabricDeparture departure;
  if (message.size() == sizeof departure) {
    std::memcpy(static_cast<void*>(&departure), message.data(), sizeof departure);
    if (departure.magic == departure.kMagic) departures_.push_back(departure);
    return;
  }
  UserMadHeader header;
  if (message.size() < sizeof header + wire::MadHeader::kSize) return;
  std::memcpy(static_cast<void*>(&header), message.data(), sizeof header);
  message = message.subspan(sizeof header);
  const SubnetToken token{load_be<std::uint32_t, 12>(message.first<wire::MadHeader::kSize>())};
  if (header.status != 0) return give_up(token);
  if (message.size() != wire::Mad::kSize || !forget(token)) return;
  SubnetAnswer answer{.token = token, .is_answered = true};
  std::ranges::copy(message, answer.octets.begin());
  answers_.push_back(answer);
}

void SubnetClient::handle_timeout(Instant now) {
  std::erase_if(outstanding_, [&](const Outstanding& each) {
    const bool is_over = each.deadline <= now;
    if (is_over) answers_.push_back({.token = each.token});
    return is_over;
  });
}

Instant SubnetClient::next_timeout() const noexcept {
  Instant earliest = Instant::never();
  for (const Outstanding& each : outstanding_) earliest = std::min(earliest, each.deadline);
  return earliest;
}

std::optional<host::FabricDeparture> SubnetClient::poll_departure() {
  if (departures_.empty()) return std::nullopt;
  const host::FabricDeparture departure = departures_.front();
  departures_.pop_front();
  return departure;
}

std::optional<SubnetAnswer> SubnetClient::poll_answer() {
  if (answers_.empty()) return std::nullopt;
  std::optional<SubnetAnswer> answer = answers_.front();
  answers_.pop_front();
  return answer;
}

}  // namespace verbatim::connect

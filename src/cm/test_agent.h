// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cm/agent.h"
#include "wire/cm/cm_message.h"

namespace verbatim::cm::test {

using namespace std::chrono_literals;

inline wire::Gid gid(std::uint8_t last) {
  wire::Gid made;
  made.octets[10] = made.octets[11] = 0xff;
  made.octets[12] = 10;
  made.octets[15] = last;
  return made;
}

inline constexpr std::uint8_t kSlot = 0x2a;
inline constexpr wire::Guid kOurGuid{0x1111};
inline constexpr wire::Guid kPeerGuid{0x2222};
inline constexpr wire::ServiceId kService{0x1061234};
inline constexpr wire::CommId kPeerId{0x77001122};
inline constexpr wire::QpNumber kOurQp{0x11};
inline constexpr wire::QpNumber kPeerQp{0x21};
inline const Address kAddress{.local = gid(1), .remote = gid(2)};  // from the agent's side

/// An agent, the time, and a peer that sends what the test wants: every message of the agent is
/// recorded, and none is answered automatically.
class Bench {
 public:
  explicit Bench(Agent::Config config = {.slot = kSlot, .ca_guid = kOurGuid, .seed = 1})
      : agent(config) {}

  Agent agent;
  Instant now = Instant::at(1s);

  void pass(Duration time) {
    now = now + time;
    agent.handle_timeout(now);
  }
  /// Goes to the next deadline. False when there is none.
  bool pass_to_deadline() {
    const auto next = agent.next_timeout();
    if (!next) return false;
    now = std::max(now, *next);
    agent.handle_timeout(now);
    return true;
  }

  Verdict receive(const wire::CmMessage& message, const Address& from = kAddress) {
    std::array<std::byte, wire::Mad::kSize> octets;
    wire::emit(message, octets);
    return agent.handle_mad(now, from, octets);
  }

  /// All messages sent since the last call, oldest first.
  std::vector<wire::CmMessage> sent() {
    std::vector<wire::CmMessage> messages;
    while (const auto datagram = agent.poll_transmit()) {
      last_address = datagram->address;
      const auto mad = wire::MadView::parse(datagram->octets);
      EXPECT_TRUE(mad);
      const auto message = wire::parse_cm_message(*mad);
      EXPECT_TRUE(message);
      messages.push_back(*message);
    }
    return messages;
  }
  /// The one message sent since the last call, which must be a `Message`.
  template <typename Message>
  Message sent_one() {
    const auto messages = sent();
    EXPECT_EQ(messages.size(), 1U);
    if (messages.size() != 1 || !std::holds_alternative<Message>(messages[0])) {
      ADD_FAILURE() << "not the message: "
                    << (messages.empty() ? "none" : name_of(wire::attribute_of(messages[0])));
      return {};
    }
    return std::get<Message>(messages[0]);
  }
  bool sent_nothing() { return sent().empty(); }

  std::vector<AgentEvent> events() {
    std::vector<AgentEvent> all;
    while (auto event = agent.poll_event()) all.push_back(std::move(*event));
    return all;
  }
  AgentEvent one_event(AgentEventKind kind) {
    const auto all = events();
    EXPECT_EQ(all.size(), 1U) << "waiting for: " << name_of(kind);
    if (all.size() != 1) return {};
    EXPECT_STREQ(name_of(all[0].kind), name_of(kind));
    return all[0];
  }
  bool no_event() { return events().empty(); }

  // The usual ways into each state.

  static ConnectRequest connect_request() {
    return {.address = kAddress,
            .service_id = kService,
            .qpn = kOurQp,
            .starting_psn = wire::Psn(0x100),
            .responder_resources = 4,
            .initiator_depth = 3};
  }
  /// The REQ of a peer; its addresses are exchanged.
  static wire::CmReq peer_req() {
    return {.transaction = wire::TransactionId{0xabcd},
            .local_comm_id = kPeerId,
            .service_id = kService,
            .local_ca_guid = kPeerGuid,
            .local_qpn = kPeerQp,
            .responder_resources = 5,
            .initiator_depth = 6,
            .remote_cm_response_timeout = 20,
            .local_cm_response_timeout = 18,
            .starting_psn = wire::Psn(0x200),
            .retry_count = 7,
            .rnr_retry_count = 6,
            .max_cm_retries = 15,
            .path_mtu = wire::PathMtu::k1024,
            .primary = {.local_lid = wire::Lid::kPermissive,
                        .remote_lid = wire::Lid::kPermissive,
                        .local_gid = kAddress.remote,
                        .remote_gid = kAddress.local,
                        .flow_label = 0x12345,
                        .traffic_class = 0x68,
                        .hop_limit = 64,
                        .local_ack_timeout = 17}};
  }
  static wire::CmRep peer_rep(const wire::CmReq& req) {
    return {.transaction = req.transaction,
            .local_comm_id = kPeerId,
            .remote_comm_id = req.local_comm_id,
            .local_qpn = kPeerQp,
            .starting_psn = wire::Psn(0x200),
            .responder_resources = 2,
            .initiator_depth = 1,
            .target_ack_delay = 15,
            .rnr_retry_count = 5,
            .local_ca_guid = kPeerGuid};
  }
  static AcceptRequest accept_request() {
    return {.qpn = kOurQp,
            .starting_psn = wire::Psn(0x100),
            .responder_resources = 6,
            .initiator_depth = 5};
  }
  template <typename Message>
  static Message from_peer(wire::CommId id) {
    return {.local_comm_id = kPeerId, .remote_comm_id = id};
  }
  static wire::CmDreq peer_dreq(wire::CommId id) {
    return {.transaction = wire::TransactionId{0xdddd},
            .local_comm_id = kPeerId,
            .remote_comm_id = id,
            .remote_qpn = kOurQp};
  }

  ListenerId listen(std::uint32_t backlog = 16) {
    const auto listener = agent.listen({.service_id = kService, .backlog = backlog});
    EXPECT_TRUE(listener);
    return *listener;
  }
  wire::CommId to_req_sent() {
    const auto id = agent.connect(now, connect_request());
    EXPECT_TRUE(id);
    return *id;
  }
  wire::CommId to_rep_received() {
    const auto id = to_req_sent();
    EXPECT_EQ(receive(peer_rep(sent_one<wire::CmReq>())), Verdict::kHandled);
    one_event(AgentEventKind::kReply);
    return id;
  }
  wire::CommId to_active_established() {
    const auto id = to_rep_received();
    EXPECT_TRUE(agent.establish(now, id));
    sent_one<wire::CmRtu>();
    return id;
  }
  wire::CommId to_req_received() {
    if (!agent.listens_for(kService, kAddress.local)) listen();
    EXPECT_EQ(receive(peer_req()), Verdict::kHandled);
    return one_event(AgentEventKind::kConnectRequest).id;
  }
  wire::CommId to_rep_sent() {
    const auto id = to_req_received();
    EXPECT_TRUE(agent.accept(now, id, accept_request()));
    sent_one<wire::CmRep>();
    return id;
  }
  wire::CommId to_passive_established() {
    const auto id = to_rep_sent();
    EXPECT_EQ(receive(from_peer<wire::CmRtu>(id)), Verdict::kHandled);
    one_event(AgentEventKind::kEstablished);
    return id;
  }
  wire::CommId to_dreq_sent() {
    const auto id = to_active_established();
    EXPECT_TRUE(agent.disconnect(now, id));
    sent_one<wire::CmDreq>();
    return id;
  }
  wire::CommId to_timewait() {
    const auto id = to_dreq_sent();
    EXPECT_EQ(receive(from_peer<wire::CmDrep>(id)), Verdict::kHandled);
    one_event(AgentEventKind::kDisconnected);
    return id;
  }

  /// Lets all deadlines pass and ignores the messages.
  void let_all_expire() {
    for (int steps = 0; steps < 1000 && pass_to_deadline(); ++steps) (void)sent();
    (void)events();
    (void)sent();
  }

  Address last_address{};  // of the last datagram that was sent
};

}  // namespace verbatim::cm::test

// SPDX-License-Identifier: Apache-2.0
// Exchanges between two Linux machines (tests/golden/rxe_capture.json), with Verbatim's agent in
// place of one of them: given the messages of the other machine and the commands of the user, it
// sends the same messages. Only identifiers that each end chooses itself are translated.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cm/agent.h"
#include "wire/cm/cm_message.h"
#include "wire/headers/packet.h"
#include "wire/headers/test_octets.h"

namespace verbatim::cm {
namespace {

using nlohmann::json;
using wire::CmMessage;
using wire::CommId;
using wire::TransactionId;

struct Captured {
  std::string name{};
  bool is_from_client = false;
  CmMessage message{};
};

std::vector<Captured> load_exchange() {
  std::ifstream stream(VB_TESTDATA "/golden/rxe_capture.json");
  const json parsed = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(parsed.is_discarded()) << "rxe_capture.json is missing or no JSON";
  std::vector<Captured> all;
  for (const json& packet : parsed["cm_exchange"]) {
    const auto octets = wire::test::hex(packet["udp_payload_hex"].get<std::string>());
    const auto view = wire::PacketView::parse(octets);
    EXPECT_TRUE(view);
    const auto mad = wire::MadView::parse(view->payload());
    EXPECT_TRUE(mad);
    const auto message = wire::parse_cm_message(*mad);
    EXPECT_TRUE(message);
    // The client is 10.0.0.1 or fd00::1; the last octet of the source tells.
    const auto header = packet["ip_udp_hex"].get<std::string>();
    const std::size_t source_end = header[0] == '4' ? 32 : 48;
    all.push_back({.name = packet["name"].get<std::string>(),
                   .is_from_client = header.substr(source_end - 2, 2) == "01",
                   .message = *message});
  }
  EXPECT_EQ(all.size(), 28U);
  return all;
}

/// An agent that plays one end of the capture.
class Player {
 public:
  Player(std::vector<Captured> exchange, bool plays_client)
      : exchange_(std::move(exchange)),
        plays_client_(plays_client),
        agent_({.slot = 3, .ca_guid = guid(), .seed = 1}) {
    if (!plays_client) listen_where_linux_did();
  }

  void play() {
    for (const Captured& captured : exchange_) {
      SCOPED_TRACE(captured.name);
      if (captured.is_from_client == plays_client_) {
        std::visit([&](const auto& message) { want(message); }, captured.message);
        take_sent();
        expect_sent(captured.message);
      } else {
        std::visit([&](auto message) { hear(message); }, captured.message);
      }
      now_ = now_ + std::chrono::milliseconds(1);
    }
    take_sent();
    EXPECT_TRUE(sent_.empty()) << "more than Linux said";
  }
  [[nodiscard]] int said() const { return said_; }

 private:
  /// The CA GUID of the end that is played.
  [[nodiscard]] wire::Guid guid() const {
    for (const Captured& captured : exchange_) {
      if (const auto* rep = std::get_if<wire::CmRep>(&captured.message); rep && !plays_client_) {
        return rep->local_ca_guid;
      }
      if (const auto* req = std::get_if<wire::CmReq>(&captured.message); req && plays_client_) {
        return req->local_ca_guid;
      }
    }
    return {};
  }

  void listen_where_linux_did() {
    for (const Captured& request : exchange_) {
      const auto* req = std::get_if<wire::CmReq>(&request.message);
      const auto* sidr = std::get_if<wire::CmSidrReq>(&request.message);
      if ((req == nullptr && sidr == nullptr) || was_unknown(request.message)) continue;
      const wire::ServiceId service = req != nullptr ? req->service_id : sidr->service_id;
      if (!agent_.listens_for(service, {})) {
        EXPECT_TRUE(agent_.listen({.service_id = service}));
      }
    }
  }
  /// The answer to this request was that there is no such service.
  [[nodiscard]] bool was_unknown(const CmMessage& request) const {
    return std::ranges::any_of(exchange_, [&](const Captured& answer) {
      const auto* rej = std::get_if<wire::CmRej>(&answer.message);
      return rej != nullptr && rej->transaction == wire::transaction_of(request) &&
             rej->reason == wire::RejectReason::kInvalidServiceId;
    });
  }

  // The commands of the user that made the replaced machine send this message.

  void want(const wire::CmReq& req) {
    const auto id = agent_.connect(
        now_, {.address = {.local = req.primary.local_gid, .remote = req.primary.remote_gid},
               .travel = {.flow_label = req.primary.flow_label,
                          .traffic_class = req.primary.traffic_class,
                          .hop_limit = req.primary.hop_limit},
               .service_id = req.service_id,
               .qpn = req.local_qpn,
               .starting_psn = req.starting_psn,
               .path_mtu = req.path_mtu,
               .responder_resources = req.responder_resources,
               .initiator_depth = req.initiator_depth,
               .retry_count = req.retry_count,
               .rnr_retry_count = req.rnr_retry_count,
               .end_to_end_flow_control = req.end_to_end_flow_control,
               .uses_srq = req.uses_srq,
               .remote_response = TimeCode{req.remote_cm_response_timeout},
               .local_response = TimeCode{req.local_cm_response_timeout},
               .max_cm_retries = req.max_cm_retries,
               .private_data = req.private_data});
    ASSERT_TRUE(id);
    ours_[req.local_comm_id] = *id;
    address_ = {.local = req.primary.local_gid, .remote = req.primary.remote_gid};
  }
  void want(const wire::CmRep& rep) {
    const CommId id = requests_.at(rep.remote_comm_id);
    ours_[rep.local_comm_id] = id;
    EXPECT_TRUE(agent_.accept(now_, id,
                              {.qpn = rep.local_qpn,
                               .starting_psn = rep.starting_psn,
                               .responder_resources = rep.responder_resources,
                               .initiator_depth = rep.initiator_depth,
                               .rnr_retry_count = rep.rnr_retry_count,
                               .end_to_end_flow_control = rep.end_to_end_flow_control,
                               .uses_srq = rep.uses_srq,
                               .ack_delay = TimeCode{rep.target_ack_delay},
                               .private_data = rep.private_data}));
  }
  void want(const wire::CmRej& rej) {
    if (rej.reason == wire::RejectReason::kInvalidServiceId) return;  // the user was not asked
    const CommId id = requests_.at(rej.remote_comm_id);
    ours_[rej.local_comm_id] = id;
    EXPECT_TRUE(agent_.reject(
        now_, id, {.reason = rej.reason, .info = rej.info(), .private_data = rej.private_data}));
  }
  void want(const wire::CmRtu& rtu) {
    EXPECT_TRUE(agent_.establish(now_, ours_.at(rtu.local_comm_id), rtu.private_data));
  }
  void want(const wire::CmDreq& dreq) {
    EXPECT_TRUE(agent_.disconnect(now_, ours_.at(dreq.local_comm_id), dreq.private_data));
  }
  void want(const wire::CmSidrReq& req) {
    const auto id = agent_.resolve_service(now_, {.address = address_,
                                                  .service_id = req.service_id,
                                                  .pkey = req.pkey,
                                                  .private_data = req.private_data});
    ASSERT_TRUE(id);
    ours_[req.request_id] = *id;
  }
  void want(const wire::CmSidrRep& rep) {
    EXPECT_TRUE(agent_.answer_service(now_, requests_.at(rep.request_id),
                                      {.status = rep.status,
                                       .qpn = rep.qpn,
                                       .qkey = rep.qkey,
                                       .info = rep.info(),
                                       .private_data = rep.private_data}));
  }
  template <typename Message>
  void want(const Message&) {}  // it is said without being asked for

  // The messages of the other machine.

  void hear(const wire::CmReq& req) {
    address_ = {.local = req.primary.remote_gid, .remote = req.primary.local_gid};
    receive(req);
    keep_request(req.local_comm_id);
  }
  void hear(const wire::CmSidrReq& req) {
    receive(req);
    keep_request(req.request_id);
  }
  void hear(wire::CmSidrRep rep) {
    rep.request_id = ours_.at(rep.request_id);
    receive(rep);
  }
  template <typename Message>
  void hear(Message message) {
    message.remote_comm_id = ours_.at(message.remote_comm_id);
    receive(message);
  }
  void receive(const CmMessage& message) {
    std::array<std::byte, wire::Mad::kSize> octets;
    wire::emit(message, octets);
    const Verdict verdict = agent_.handle_mad(now_, address_, octets);
    EXPECT_TRUE(verdict == Verdict::kHandled || verdict == Verdict::kNoListener)
        << describe(verdict);
    take_sent();
  }
  void keep_request(CommId theirs) {
    while (const auto event = agent_.poll_event()) {
      if (event->kind == AgentEventKind::kConnectRequest ||
          event->kind == AgentEventKind::kServiceRequest) {
        requests_[theirs] = event->id;
      }
    }
  }

  void take_sent() {
    while (const auto datagram = agent_.poll_transmit()) {
      EXPECT_EQ(datagram->address, address_);
      const auto mad = wire::MadView::parse(datagram->octets);
      ASSERT_TRUE(mad);
      sent_.push_back(*wire::parse_cm_message(*mad));
    }
  }
  /// The oldest message that the agent has sent to this address equals the one of Linux.
  void expect_sent(const CmMessage& captured) {
    const auto same_kind = std::ranges::find_if(sent_, [&](const CmMessage& message) {
      return wire::attribute_of(message) == wire::attribute_of(captured) &&
             addressee(message) == addressee(captured);
    });
    ASSERT_NE(same_kind, sent_.end()) << "we say nothing";
    std::array<std::byte, wire::Mad::kSize> ours;
    std::array<std::byte, wire::Mad::kSize> theirs;
    wire::emit(std::visit([](auto message) { return without_names(message); }, *same_kind), ours);
    wire::emit(std::visit([](auto message) { return without_names(message); }, captured), theirs);
    EXPECT_EQ(ours, theirs);
    EXPECT_TRUE(std::visit([&](const auto& message) { return is_named_well(message, captured); },
                           *same_kind));
    sent_.erase(same_kind);
    ++said_;
  }
  static CommId addressee(const CmMessage& message) {
    return std::visit(
        [](const auto& which) -> CommId {
          if constexpr (requires { which.remote_comm_id; }) return which.remote_comm_id;
          return {};
        },
        message);
  }
  template <typename Message>
  static CmMessage without_names(Message message) {
    message.transaction = {};
    if constexpr (requires { message.local_comm_id; }) message.local_comm_id = {};
    if constexpr (std::is_same_v<Message, wire::CmSidrReq>) message.request_id = {};
    return message;
  }
  /// Answers repeat the transaction of the message that they answer, and contain the ID if there is
  /// one.
  template <typename Message>
  [[nodiscard]] bool is_named_well(const Message& ours, const CmMessage& captured) const {
    const Message& theirs = std::get<Message>(captured);
    constexpr bool kIsAnswer =
        std::is_same_v<Message, wire::CmRep> || std::is_same_v<Message, wire::CmRej> ||
        std::is_same_v<Message, wire::CmDrep> || std::is_same_v<Message, wire::CmSidrRep>;
    if (kIsAnswer && ours.transaction != theirs.transaction) return false;
    if constexpr (requires { ours.local_comm_id; }) {
      if (theirs.local_comm_id == CommId{}) return ours.local_comm_id == CommId{};
      return ours.local_comm_id == ours_.at(theirs.local_comm_id);
    }
    return true;
  }

  std::vector<Captured> exchange_;
  bool plays_client_;
  Agent agent_;
  Instant now_ = Instant::at(std::chrono::seconds(1));
  Address address_{};                    // of the exchange that goes on
  std::map<CommId, CommId> ours_{};      // by the ID that Linux had in our place
  std::map<CommId, CommId> requests_{};  // our ID of a request, by the peer's
  std::vector<CmMessage> sent_{};        // and not compared yet
  int said_ = 0;                         // messages that were the same
};

TEST(GoldenAgent, OurServerAnswersAsLinuxDid) {
  Player server(load_exchange(), /*plays_client=*/false);
  server.play();
  EXPECT_EQ(server.said(), 12);
}

TEST(GoldenAgent, OurClientAsksAsLinuxDid) {
  Player client(load_exchange(), /*plays_client=*/true);
  client.play();
  EXPECT_EQ(client.said(), 16);
}

}  // namespace
}  // namespace verbatim::cm

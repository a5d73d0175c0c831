// SPDX-License-Identifier: Apache-2.0
// An agent whose user and peers do arbitrary things. The agent must never exceed its limits, send
// nothing but valid messages, report no event of a destroyed communication, and be empty when
// everything was destroyed and has expired.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/test_fuzz.h"
#include "cm/agent.h"
#include "wire/cm/cm_message.h"

namespace verbatim::cm {
namespace {

using wire::CommId;

constexpr std::uint32_t kCommunicationsMax = 8;
constexpr std::uint32_t kBacklog = 3;

class History {
 public:
  explicit History(test::FuzzInput& choices)
      : choices_(choices),
        agent_({.slot = 5,
                .ca_guid = wire::Guid{0x99},
                .seed = choices.octet(),
                .communications_max = kCommunicationsMax,
                .listeners_max = 2}) {}

  void run() {
    while (!choices_.is_empty()) {
      step();
      drain();
      VB_ASSERT(agent_.communication_count() <= kCommunicationsMax);
    }
    destroy_all_and_expire();
  }

 private:
  void step() {
    switch (choices_.octet_below(16)) {
      case 0:
        now_ = now_ + duration_of(TimeCode{choices_.octet_below(32)});
        agent_.handle_timeout(now_);
        break;
      case 1:
        if (const auto next = agent_.next_timeout()) now_ = std::max(now_, *next);
        agent_.handle_timeout(now_);
        break;
      case 2:
        listen_or_not();
        break;
      case 3:
        connect();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        command(id());
        break;
      default:
        message();
        break;
    }
  }

  void listen_or_not() {
    if (const auto listener = agent_.listen({.service_id = service(), .backlog = kBacklog})) {
      listener_ = *listener;
    } else if (choices_.octet_below(4) == 0) {
      unlisten();
    }
  }
  /// Requests that were not taken end with their listener.
  void unlisten() {
    (void)agent_.unlisten(now_, listener_);  // it may not exist any more
    std::erase_if(owned_, [&](CommId id) {
      const auto settings = agent_.qp_settings(id);
      return !settings && settings.error() == Errc::kNoSuchObject;
    });
  }
  void connect() {
    const bool is_service = choices_.octet_below(4) == 0;
    const auto id =
        is_service ? agent_.resolve_service(now_, {.address = address(), .service_id = service()})
                   : agent_.connect(now_, {.address = address(),
                                           .service_id = service(),
                                           .transport = wire::CmTransport{choices_.octet_below(4)},
                                           .qpn = wire::QpNumber{choices_.octet_below(4)},
                                           .remote_response = TimeCode{choices_.octet()},
                                           .local_response = TimeCode{choices_.octet()},
                                           .max_cm_retries = choices_.octet_below(20)});
    if (id) owned_.push_back(*id);
  }
  /// In any state; the agent refuses commands that do not fit.
  void command(CommId id) {
    static constexpr std::array<std::byte, 300> kData{};
    const auto data = std::span(kData).first(choices_.octet());
    switch (choices_.octet_below(10)) {
      case 0:
      case 1:
        (void)agent_.accept(now_, id,
                            {.qpn = wire::QpNumber{choices_.octet_below(4)}, .private_data = data});
        break;
      case 2:
        (void)agent_.reject(now_, id, {.private_data = data});
        break;
      case 3:
      case 4:
        (void)agent_.establish(now_, id, data);
        break;
      case 5:
        (void)agent_.disconnect(now_, id, data);
        break;
      case 6:
        (void)agent_.answer_service(now_, id, {.private_data = data});
        break;
      case 7:
        (void)agent_.delay_answer(now_, id, TimeCode{choices_.octet()});
        break;
      case 8:
        (void)agent_.handle_first_data(now_, id);
        (void)agent_.take(id);
        (void)agent_.qp_settings(id);
        break;
      default:
        if (agent_.destroy(now_, id)) std::erase(owned_, id);
        break;
    }
  }

  void message() {
    std::array<std::byte, wire::Mad::kSize> octets;
    wire::emit(composed(), octets);
    for (std::uint8_t patches = choices_.octet_below(8); patches > 5; --patches) {
      octets[choices_.octet()] = std::byte{choices_.octet()};
    }
    const std::size_t length = choices_.octet_below(64) == 63 ? choices_.octet() : octets.size();
    (void)agent_.handle_mad(now_, address(), std::span(octets).first(length));
  }
  wire::CmMessage composed() {
    const CommId theirs{choices_.octet_below(4)};
    const CommId ours = id();
    switch (choices_.octet_below(12)) {
      case 0:
      case 1:
        return wire::CmReq{
            .local_comm_id = theirs,
            .service_id = service(),
            .local_ca_guid = wire::Guid{choices_.octet_below(2)},
            .local_qpn = wire::QpNumber{choices_.octet_below(4)},
            .remote_cm_response_timeout = choices_.octet(),
            .local_cm_response_timeout = choices_.octet(),
            .max_cm_retries = choices_.octet_below(16),
            .primary = {.remote_gid = address().local, .local_ack_timeout = choices_.octet()}};
      case 2:
        return wire::CmMra{.local_comm_id = theirs,
                           .remote_comm_id = ours,
                           .received = wire::CmMra::Received{choices_.octet_below(4)},
                           .service_timeout = choices_.octet()};
      case 3:
        return rej(theirs, ours);
      case 4:
      case 5:
        return wire::CmRep{.local_comm_id = theirs,
                           .remote_comm_id = ours,
                           .local_qpn = wire::QpNumber{choices_.octet_below(4)},
                           .target_ack_delay = choices_.octet(),
                           .local_ca_guid = wire::Guid{choices_.octet_below(2)}};
      case 6:
        return wire::CmRtu{.local_comm_id = theirs, .remote_comm_id = ours};
      case 7:
        return wire::CmDreq{.local_comm_id = theirs,
                            .remote_comm_id = ours,
                            .remote_qpn = wire::QpNumber{choices_.octet_below(4)}};
      case 8:
        return wire::CmDrep{.local_comm_id = theirs, .remote_comm_id = ours};
      case 9:
        return wire::CmSidrReq{.request_id = theirs, .service_id = service()};
      case 10:
        return wire::CmSidrRep{.request_id = ours};
      default:
        return wire::CmLap{.local_comm_id = theirs, .remote_comm_id = ours};
    }
  }
  wire::CmRej rej(CommId theirs, CommId ours) {
    wire::CmRej made{.local_comm_id = theirs,
                     .remote_comm_id = choices_.octet_below(3) == 0 ? CommId{} : ours,
                     .reason = wire::RejectReason{choices_.octet_below(36)},
                     .info_octets = choices_.octet()};
    made.info_field[7] = std::byte{choices_.octet_below(2)};
    return made;
  }

  Address address() {
    Address made;
    made.remote.octets[15] = choices_.octet_below(8) == 0 ? 1 : 2;
    return made;
  }
  wire::ServiceId service() { return wire::ServiceId{choices_.octet_below(8) == 0 ? 1U : 2U}; }
  /// An ID that the user owns, or that was used, or that never existed.
  CommId id() {
    const std::uint8_t choice = choices_.octet();
    if (choice >= 248 || seen_.empty()) return CommId{choice};
    return seen_[seen_.size() - 1 - choice % seen_.size()];
  }

  void drain() {
    while (const auto datagram = agent_.poll_transmit()) {
      const auto mad = wire::MadView::parse(datagram->octets);
      VB_ASSERT(mad);
      VB_ASSERT(wire::parse_cm_message(*mad));
    }
    while (const auto event = agent_.poll_event()) {
      const bool is_request = event->kind == AgentEventKind::kConnectRequest ||
                              event->kind == AgentEventKind::kServiceRequest;
      if (is_request) owned_.push_back(event->id);
      VB_ASSERT(std::ranges::count(owned_, event->id) == 1);
      VB_ASSERT(!is_request || event->message);
    }
    for (const CommId id : owned_) {
      if (std::ranges::find(seen_, id) == seen_.end()) seen_.push_back(id);
    }
    if (seen_.size() > 16) seen_.erase(seen_.begin());
    VB_ASSERT(owned_.size() <= agent_.communication_count());
  }

  void destroy_all_and_expire() {
    unlisten();
    drain();
    std::erase_if(owned_, [&](CommId id) { return agent_.destroy(now_, id).ok(); });
    drain();
    // At most twenty copies of one message, each after the longest timeout, and the time after the
    // end.
    for (int rounds = 0; rounds < 64; ++rounds) {
      now_ = now_ + Agent::kPatienceMax;
      agent_.handle_timeout(now_);
      drain();
    }
    VB_ASSERT(agent_.communication_count() == 0);
    VB_ASSERT(!agent_.next_timeout());
  }

  test::FuzzInput& choices_;
  Agent agent_;
  Instant now_ = Instant::at(std::chrono::seconds(1));
  ListenerId listener_{};        // the latest one
  std::vector<CommId> owned_{};  // by the user
  std::vector<CommId> seen_{};   // the latest of them, including destroyed ones
};

}  // namespace
}  // namespace verbatim::cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::test::FuzzInput choices(data, size);
  verbatim::cm::History(choices).run();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster.h"

#include <algorithm>

#include "wire/crc/crc32.h"

namespace verbatim::sim {

using transport::QpAttributes;
using transport::QpMask;
using transport::QpState;
using transport::QpType;

std::size_t Cluster::add_endpoint(Endpoint::Config config) {
  const auto index = endpoints_.size();
  if (config.address == wire::Gid{}) {
    config.address = ipv4_gid(10, 0, 0, static_cast<std::uint8_t>(index + 1));
  }
  endpoints_.push_back(std::make_unique<Endpoint>(config, network_, mailboxes_));
  return index;
}

void Cluster::handle_frame(Instant now, const NetworkFrame& frame, Fate fate) {
  ++frames_;
  const auto digest = wire::crc32_update(static_cast<std::uint32_t>(trace_), frame.octets);
  trace_ = (trace_ << 7) ^ (trace_ >> 57) ^ digest ^
           static_cast<std::uint64_t>(now.since_start().count());
  if (observer_ != nullptr) observer_->handle_frame(now, frame, fate);
}

void Cluster::transmit() {
  for (auto& endpoint : endpoints_) endpoint->transmit(now_);
}

bool Cluster::step(Instant no_later_than) {
  Instant next = std::min(network_.next_arrival(), no_later_than);
  for (const auto& endpoint : endpoints_) next = std::min(next, endpoint->next_event());
  if (next == Instant::never()) return false;
  now_ = std::max(now_, next);
  for (auto& endpoint : endpoints_) {
    if (endpoint->polls() || endpoint->next_event() <= now_) endpoint->receive(now_);
  }
  while (network_.take_arrived(now_)) {  // no endpoint has the address
  }
  return true;
}

wire::Gid ipv4_gid(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) noexcept {
  wire::Gid gid;
  gid.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
  return gid;
}

namespace {

void must(Status status) noexcept { VB_ASSERT(status.ok()); }

void connect_one(Endpoint& endpoint, std::size_t index, const Endpoint& peer, wire::QpNumber theirs,
                 bool is_first, const Connection& connection) {
  EndpointQueuePair& qp = endpoint.qp(index);
  const QpType type = qp.machine().config().type;
  const bool reliable = type != QpType::kUc;
  const auto path = endpoint.path_to(peer.address(), qp.number(), theirs);
  QpAttributes wanted;
  wanted.state = QpState::kInit;
  wanted.access = connection.access;
  must(qp.modify(QpMask::kState | QpMask::kPKeyIndex | QpMask::kPort | QpMask::kAccess, wanted,
                 nullptr));
  wanted.state = QpState::kReadyToReceive;
  wanted.path_mtu = connection.mtu;
  wanted.dest_qp = theirs;
  wanted.receive_psn = is_first ? connection.psn_of_second : connection.psn_of_first;
  wanted.max_dest_read_atomic = connection.max_read_atomic;
  wanted.min_rnr_timer = connection.min_rnr_timer;
  QpMask mask =
      QpMask::kState | QpMask::kAddress | QpMask::kPathMtu | QpMask::kDestQp | QpMask::kReceivePsn;
  if (type == QpType::kRc || type == QpType::kXrcTarget) {
    mask = mask | QpMask::kMaxDestReadAtomic | QpMask::kMinRnrTimer;
  }
  must(qp.modify(mask, wanted, &path));
  wanted.state = QpState::kReadyToSend;
  wanted.send_psn = is_first ? connection.psn_of_first : connection.psn_of_second;
  wanted.timeout = connection.timeout;
  wanted.retry_count = connection.retry_count;
  wanted.rnr_retry = connection.rnr_retry;
  wanted.max_read_atomic = connection.max_read_atomic;
  mask = QpMask::kState | QpMask::kSendPsn;
  if (reliable) mask = mask | QpMask::kTimeout;
  if (type == QpType::kRc || type == QpType::kXrcInitiator) {
    mask = mask | QpMask::kRetryCount | QpMask::kRnrRetry | QpMask::kMaxReadAtomic;
  }
  must(qp.modify(mask, wanted, nullptr));
}

}  // namespace

void connect(Endpoint& first, std::size_t first_qp, Endpoint& second, std::size_t second_qp,
             const Connection& connection) {
  connect_one(first, first_qp, second, second.number_of(second_qp), true, connection);
  const bool is_one = &first == &second && first_qp == second_qp;
  if (is_one) return;
  connect_one(second, second_qp, first, first.number_of(first_qp), false, connection);
}

void ready_datagrams(Endpoint& endpoint, std::size_t index, wire::QKey qkey) {
  EndpointQueuePair& qp = endpoint.qp(index);
  QpAttributes wanted;
  wanted.qkey = qkey;
  wanted.state = QpState::kInit;
  must(qp.modify(QpMask::kState | QpMask::kPKeyIndex | QpMask::kPort | QpMask::kQKey, wanted,
                 nullptr));
  wanted.state = QpState::kReadyToReceive;
  must(qp.modify(QpMask::kState, wanted, nullptr));
  wanted.state = QpState::kReadyToSend;
  must(qp.modify(QpMask::kState | QpMask::kSendPsn, wanted, nullptr));
}

}  // namespace verbatim::sim

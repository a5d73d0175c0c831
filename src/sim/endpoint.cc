// SPDX-License-Identifier: Apache-2.0
#include "sim/endpoint.h"
#include "base/adapter_role.h"

#include <algorithm>
#include <cstring>

#include "base/pointer.h"
#include "wire/headers/flow_entropy.h"

namespace verbatim::sim {
namespace {

constexpr std::uint32_t kKeyCount = 256;
constexpr std::size_t kDomainCount = 8;
constexpr std::byte kGuard{0xa5};

}  // namespace

Endpoint::Endpoint(const Config& config, LossyNetwork& network, Mailboxes& mailboxes)
    : config_(config),
      network_(network),
      domain_entries_(kDomainCount),
      domains_(domain_entries_),
      free_keys_(kKeyCount),
      outside_({.address = config.address, .slot = config.slot}, mailboxes),
      link_(network, {.address = config.address, .slot = config.slot}),
      dispatch_({.queue_pairs = table_, .groups = groups_, .agenda = agenda_, .outside = outside_}),
      progress_(agenda_, dispatch_, outside_) {
  const auto block = take_shared(kKeyCount * sizeof(memory::KeyEntry));
  auto* entries = pointer_as<memory::KeyEntry>(block.data());
  std::uninitialized_value_construct_n(entries, kKeyCount);
  registry_ = std::make_unique<memory::KeyRegistry>(
      memory::KeyTable({entries, kKeyCount}, config.first_key_index), free_keys_, config.seed);
  domain_ = open_domain();
  table_.open(config.slot, config.seed);
  dispatch_.open(config.slot);
  progress_.use(link_);
}

std::span<std::byte> Endpoint::take_shared(std::size_t octets) {
  return config_.shared != nullptr ? config_.shared->take(octets) : private_.take(octets);
}

memory::DomainId Endpoint::open_domain() {
  auto opened = domains_.open();
  VB_ASSERT(opened.ok());
  return *opened;
}

std::span<std::byte> Endpoint::allocate(std::size_t octets) {
  const std::size_t rounded = (octets + 7) & ~std::size_t{7};
  const auto block = private_.take(rounded + 2 * kGuardOctets);
  const auto before = block.first(kGuardOctets);
  const auto behind = block.last(kGuardOctets + rounded - octets);
  for (const auto& guard : {before, behind}) {
    std::ranges::fill(guard, kGuard);
    guards_.push_back(guard);
  }
  const auto buffer = block.subspan(kGuardOctets, octets);
  placements_.push_back({buffer, next_address_});
  next_address_ += (octets + 0xfff) & ~std::uint64_t{0xfff};
  return buffer;
}

std::uint64_t Endpoint::address_of(std::span<const std::byte> buffer) const noexcept {
  for (const Placement& placement : placements_) {
    const auto offset = buffer.data() - placement.buffer.data();
    const bool inside =
        offset >= 0 && offset <= static_cast<std::ptrdiff_t>(placement.buffer.size());
    if (inside) return placement.address + static_cast<std::uint64_t>(offset);
  }
  VB_ASSERT(false);  // only for memory of allocate()
  return 0;
}

bool Endpoint::guards_are_intact() const noexcept {
  static const auto kPattern = [] {
    std::array<std::byte, kGuardOctets + 8> pattern;
    pattern.fill(kGuard);
    return pattern;
  }();
  return std::ranges::all_of(guards_, [](const auto& guard) {
    return std::memcmp(guard.data(), kPattern.data(), guard.size()) == 0;
  });
}

wire::MemoryKey Endpoint::register_memory(std::span<std::byte> buffer, memory::Access access) {
  auto key = registry_->register_region({.domain = domain_,
                                         .address = numeric_address(buffer.data()),
                                         .octets = buffer.size(),
                                         .base = address_of(buffer),
                                         .access = access});
  VB_ASSERT(key.ok());
  return *key;
}

std::size_t Endpoint::create_cq(std::uint32_t capacity, std::uint32_t lane_limit) {
  const auto block = take_shared(transport::CompletionBoard::octets_for(lane_limit));
  boards_.push_back(transport::CompletionBoard::create(block, lane_limit));
  lane_lists_.emplace_back(lane_limit);
  cqs_.push_back(std::make_unique<transport::CompletionLanes>(
      boards_.back(), std::span(lane_lists_.back()), capacity));
  return cqs_.size() - 1;
}

std::size_t Endpoint::create_shared_queue(std::uint32_t depth, std::uint32_t sge_limit) {
  const transport::SharedReceiveRing::Limits limits{.depth = depth, .sge_limit = sge_limit};
  const auto block = take_shared(transport::SharedReceiveRing::octets_for(limits));
  shared_.push_back(transport::SharedReceiveRing::create(block, domain_, limits));
  return shared_.size() - 1;
}

std::size_t Endpoint::create_qp(const QpSetup& setup) {
  transport::QueuePairMachine::Parts parts;
  const bool is_datagram = setup.type == transport::QpType::kUd;
  const transport::SendQueue::Limits send_limits{.depth = setup.send_depth,
                                                 .sge_limit = setup.sge_limit,
                                                 .inline_limit = setup.inline_limit,
                                                 .carries_paths = is_datagram,
                                                 .carries_binds = !is_datagram};
  parts.send_queue = transport::SendQueue(
      private_.take(transport::SendQueue::octets_for(send_limits)), send_limits);

  std::uint32_t receive_lane = setup.receive_depth;
  if (setup.shared_queue >= 0) {
    parts.shared_receive = shared_[static_cast<std::size_t>(setup.shared_queue)];
    receive_lane = parts.shared_receive.depth();
  } else {
    const transport::ReceiveQueue::Limits limits{.depth = setup.receive_depth,
                                                 .sge_limit = setup.sge_limit};
    parts.receive_queue = transport::ReceiveQueue::create(
        take_shared(transport::ReceiveQueue::octets_for(limits)), limits);
  }
  const auto attach = [&](std::size_t cq, std::uint32_t depth) {
    auto lane = transport::CompletionLane::create(
        take_shared(transport::CompletionLane::octets_for(depth)), depth);
    auto port = cqs_[cq]->attach(lane);
    VB_ASSERT(port.ok());
    return *port;
  };
  parts.send_port = attach(setup.send_cq, setup.send_depth);
  parts.receive_port = attach(setup.receive_cq, receive_lane);
  const auto state = take_shared(sizeof(transport::ResponderState));
  parts.responder = new (state.data()) transport::ResponderState;
  const auto replay = private_.take(transport::kMaxReadAtomic * sizeof(transport::ReplayEntry));
  parts.replay = pointer_as<transport::ReplayEntry>(replay.data());
  parts.keys = registry_->table();

  qps_.push_back(std::make_unique<EndpointQueuePair>(
      EndpointQueuePair::Parts{.agenda = agenda_, .shared = shared_}));
  const SoleUser simulated;
  const auto number = table_.add(*qps_.back());
  VB_ASSERT(number.ok());
  const bool own_domain = setup.domain == memory::DomainId::kNone;
  qps_.back()->start({.type = setup.type,
                      .number = *number,
                      .domain = own_domain ? domain_ : setup.domain,
                      .signal_all = setup.signal_all,
                      .port_mtu = config_.port_mtu,
                      .window_packets = setup.window_packets,
                      .read_chunk_packets = setup.read_chunk_packets},
                     parts);
  progress_.count_packet_users(1);
  return qps_.size() - 1;
}

wire::QpNumber Endpoint::number_of(std::size_t qp) const noexcept { return qps_[qp]->number(); }

transport::Path Endpoint::path_to(const wire::Gid& peer, wire::QpNumber ours,
                                  wire::QpNumber theirs) const noexcept {
  transport::Path path;
  path.source = config_.address;
  path.destination = peer;
  path.source_port = wire::source_port_of_connection(0, ours, theirs);
  path.refresh_seed();
  return path;
}

void Endpoint::join(const wire::Gid& group, std::size_t qp) {
  const auto joined = groups_.add(group, *qps_[qp]);
  VB_ASSERT(joined.ok());
  network_.join(group, {.address = config_.address, .slot = config_.slot});
}

void Endpoint::leave(const wire::Gid& group, std::size_t qp) {
  const auto left = groups_.remove(group, *qps_[qp]);
  VB_ASSERT(left.ok());
  if (!groups_.members(group).empty()) return;
  network_.leave(group, {.address = config_.address, .slot = config_.slot});
}

void Endpoint::receive(Instant now) {
  const SoleUser simulated;
  outside_.pass_deadline(now);
  if (!config_.polls) {
    (void)progress_.receive(Progress::Look::kAtAllAddresses, now);
    return;
  }
  if (progress_.receive_for_caller(now)) {
    progress_.keep(now);
  } else {
    progress_.serve_owed(now);
  }
}

bool Endpoint::take_posted() noexcept {
  bool has_posted = false;
  for (auto& qp : qps_) has_posted = qp->take_posted() || has_posted;
  return has_posted;
}

void Endpoint::transmit(Instant now) {
  const SoleUser simulated;
  const bool has_posted = take_posted();
  if (config_.polls && !has_posted) return;
  while (progress_.owes_answers()) progress_.serve(now);
}

Instant Endpoint::next_event() const noexcept {
  const SoleUser simulated;
  if (outside_.has_forwarded()) return Instant{};
  return std::min(progress_.next_deadline(), outside_.deadline());
}

}  // namespace verbatim::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/pointer.h"
#include "wire/headers/flow_entropy.h"
#include "wire/headers/packet.h"

namespace verbatim::sim {
namespace {

constexpr std::uint32_t kKeyCount = 256;
constexpr std::size_t kDomainCount = 8;
constexpr std::byte kGuard{0xa5};

}  // namespace

Endpoint::Endpoint(const Config& config)
    : config_(config),
      domain_entries_(kDomainCount),
      domains_(domain_entries_),
      free_keys_(kKeyCount),
      scratch_(kTrainPackets * wire::kMaxTransportOctets) {
  const auto block = take_shared(kKeyCount * sizeof(memory::KeyEntry));
  auto* entries = pointer_as<memory::KeyEntry>(block.data());
  std::uninitialized_value_construct_n(entries, kKeyCount);
  registry_ = std::make_unique<memory::KeyRegistry>(
      memory::KeyTable({entries, kKeyCount}, config.first_key_index), free_keys_, config.seed);
  domain_ = open_domain();
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

  const auto number = config_.first_qp_number + static_cast<std::uint32_t>(qps_.size());
  const bool own_domain = setup.domain == memory::DomainId::kNone;
  qps_.push_back(std::make_unique<transport::QueuePairMachine>(
      transport::QueuePairMachine::Config{.type = setup.type,
                                          .number = wire::QpNumber{number},
                                          .domain = own_domain ? domain_ : setup.domain,
                                          .signal_all = setup.signal_all,
                                          .port_mtu = config_.port_mtu,
                                          .window_packets = setup.window_packets,
                                          .read_chunk_packets = setup.read_chunk_packets},
      parts));
  return qps_.size() - 1;
}

wire::QpNumber Endpoint::number_of(std::size_t qp) const noexcept {
  return qps_[qp]->config().number;
}

transport::Path Endpoint::path_to(const wire::Gid& peer, wire::QpNumber ours,
                                  wire::QpNumber theirs) const noexcept {
  transport::Path path;
  path.source = config_.address;
  path.destination = peer;
  path.source_port = wire::source_port_of_connection(0, ours, theirs);
  path.refresh_seed();
  return path;
}

void Endpoint::handle_frames(Instant now, std::span<const Frame> frames) {
  while (!frames.empty()) {
    const Frame& first = frames.front();
    const auto ends = std::ranges::find_if(frames, [&](const Frame& frame) {
      return frame.source != first.source || frame.source_port != first.source_port ||
             frame.destination != first.destination || frame.octets.size() != first.octets.size();
    });
    const auto alike = frames.first(static_cast<std::size_t>(ends - frames.begin()));
    std::size_t taken = handle_train(alike);
    if (taken == 0) {
      handle_frame(now, first);
      taken = 1;
    }
    frames = frames.subspan(taken);
  }
}

/// Passes frames of one flow and one length on as a link does: as one train, with numbered
/// identifications.
std::size_t Endpoint::handle_train(std::span<const Frame> frames) {
  const Frame& first = frames.front();
  const auto bth = wire::BthView::parse(first.octets);
  if (!bth || first.octets.size() < wire::Bth::kSize + wire::kIcrcSize) return 0;
  const auto index = static_cast<std::uint32_t>(bth->dest_qp()) - config_.first_qp_number;
  if (index >= qps_.size()) return 0;
  std::vector<std::byte> train;
  for (std::size_t number = 0; number < frames.size(); ++number) {
    const auto& octets = frames[number].octets;
    train.insert(train.end(), octets.begin(), octets.end());
    if (!first.source.is_ipv4_mapped()) continue;
    wire::change_identification(std::span(train).last(octets.size()), 0,
                                static_cast<std::uint16_t>(number));
  }
  const auto seed = wire::IcrcSeed::roce_v2(first.source, first.destination, first.source_port);
  return qps_[index]->handle_train({.octets = train,
                                    .packet_octets = first.octets.size(),
                                    .identification = 0,
                                    .seed = &seed,
                                    .source = first.source,
                                    .destination = first.destination});
}

void Endpoint::handle_frame(Instant now, const Frame& frame) {
  const auto count = [&](wire::WireError error) {
    ++drops_.malformed[static_cast<std::size_t>(error)];
  };
  auto packet = wire::PacketView::parse(frame.octets);
  if (!packet) return count(packet.error());
  const auto seed = wire::IcrcSeed::roce_v2(frame.source, frame.destination, frame.source_port);
  // Endpoints send identification 0; any other would be a corruption that the ICRC happens to fit.
  if (wire::verify_icrc(seed, frame.octets) != std::uint16_t{0}) {
    return count(wire::WireError::kBadChecksum);
  }
  const auto index = static_cast<std::uint32_t>(packet->bth().dest_qp()) - config_.first_qp_number;
  if (index >= qps_.size()) {
    ++drops_.unknown_qp;
    return;
  }
  transport::SharedReceiveRing xrc_shared;
  if (packet->info().has(wire::OpcodeInfo::kXrcEth)) {
    const auto number = static_cast<std::uint32_t>(packet->xrceth().srq);
    if (number < shared_.size()) xrc_shared = shared_[number];
  }
  std::array<std::byte, transport::kGrhOctets> network_header{};
  std::ranges::transform(frame.source.octets, network_header.begin() + 8,
                         [](std::uint8_t octet) { return std::byte{octet}; });
  std::ranges::transform(frame.destination.octets, network_header.begin() + 24,
                         [](std::uint8_t octet) { return std::byte{octet}; });
  const transport::Arrival arrival{.packet = *packet,
                                   .source = frame.source,
                                   .destination = frame.destination,
                                   .network_header = network_header};
  qps_[index]->handle_packet(now, arrival, xrc_shared);
}

void Endpoint::handle_timeouts(Instant now) {
  for (auto& qp : qps_) {
    if (qp->next_timeout() <= now) qp->handle_timeout(now);
  }
}

Instant Endpoint::next_timeout() const noexcept {
  Instant next = Instant::never();
  for (const auto& qp : qps_) next = std::min(next, qp->next_timeout());
  return next;
}

bool Endpoint::poll_transmit(Instant now, Frame& frame) {
  if (written_ == train_.packets && !poll_train(now)) return false;
  frame = addressed_;
  const std::size_t each = train_.octets / train_.packets;
  const auto packet = std::span(scratch_).subspan(written_ * each, each);
  frame.octets.assign(packet.begin(), packet.end());
  const auto written_as = static_cast<std::uint16_t>(train_.identification + written_++);
  if (frame.source.is_ipv4_mapped()) {
    wire::change_identification(frame.octets, written_as, 0);  // frames leave one by one
  }
  return true;
}

/// The queue pairs write packets as for a link that sends trains, sometimes to continue an open
/// train.
bool Endpoint::poll_train(Instant now) {
  const transport::TrainRoom room{.frame = scratch_,
                                  .identification = kTrainPackets / 2,
                                  .packet_octets = train_octets_,
                                  .packets_left = kTrainPackets / 2,
                                  .packets_max = kTrainPackets,
                                  .octets_max = scratch_.size()};
  for (std::size_t tried = 0; tried < qps_.size(); ++tried) {
    const auto sent = qps_[turn_]->poll_train(now, room);
    if (sent.octets == 0) {
      turn_ = turn_ + 1 == qps_.size() ? 0 : turn_ + 1;
      continue;
    }
    addressed_.source = sent.path->source;
    addressed_.destination = sent.path->destination;
    addressed_.source_port = sent.path->source_port;
    addressed_.hop_limit = sent.path->hop_limit;
    addressed_.traffic_class = sent.path->traffic_class;
    train_ = sent;
    train_octets_ = train_octets_ == 0 ? sent.octets / sent.packets : 0;
    written_ = 0;
    return true;
  }
  return false;
}

}  // namespace verbatim::sim

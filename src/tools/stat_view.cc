// SPDX-License-Identifier: Apache-2.0
#include "tools/stat_view.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "device/clock.h"
#include "direct/half_record.h"
#include "host/peer_calls.h"
#include "host/segment_header.h"
#include "memory/key_entry.h"
#include "tools/segment_reader.h"
#include "tools/text.h"

namespace verbatim::tools {

using direct::DataPath;
using direct::HalfRecord;
using direct::QueuePairRecord;
using host::SegmentHeader;
using Kind = host::Viewer::Sight::Kind;
using transport::QpState;
using transport::QpType;

namespace {

template <std::size_t kSize>
std::string text_in(const std::array<char, kSize>& field) {
  return printable({field.data(), ::strnlen(field.data(), field.size())});
}

/// The letter for the state of a process in /proc. It follows the process's name, which may contain
/// any character.
char state_letter(int process) {
  const std::string line = content_of("/proc/" + std::to_string(process) + "/stat");
  const std::size_t name_ends = line.rfind(')');
  return name_ends != std::string::npos && name_ends + 2 < line.size() ? line[name_ends + 2] : '?';
}

/// The note beside a region. The process writes it, so it may have any value.
rehome::Why why_of(std::uint32_t note) noexcept {
  const auto last = static_cast<std::uint32_t>(rehome::Why::kProtectionKey);
  return note <= last ? static_cast<rehome::Why>(note) : rehome::Why::kRefused;
}

bool read_memory(const SegmentReader& segment, const SegmentHeader& header, ProcessView& view) {
  std::uint64_t private_octets = 0;
  const auto count = [&](std::uint32_t, const memory::KeyEntry& entry) {
    if (entry.status.live == 0) {
      const bool is_closed = entry.status.kind == memory::KeyKind::kRegion &&
                             entry.status.backing == memory::Backing::kGone;
      if (is_closed) ++view.memory.closed_regions;
      return;
    }
    if (entry.status.kind != memory::KeyKind::kRegion) {
      ++view.memory.windows;
      return;
    }
    ++view.memory.regions;
    const bool is_private = entry.status.backing == memory::Backing::kPrivate;
    (is_private ? private_octets : view.memory.shared_octets) += entry.octets;
    if (is_private) {
      view.memory.unshared.push_back(
          {.key = entry.key, .octets = entry.octets, .why = why_of(entry.parent)});
    }
  };
  if (!segment.visit_array<memory::KeyEntry>(header.keys_at, header.key_count, count)) return false;
  if (private_octets > 0) {
    (host::may_lend_memory() ? view.memory.cma_octets : view.memory.owner_octets) = private_octets;
  }
  return true;
}

DataPath data_path_of_claim(std::uint64_t claim) noexcept {
  const auto claimant = static_cast<std::uint32_t>(claim);
  if ((claimant & HalfRecord::kDirectBit) != 0) return DataPath::kDirect;
  return claimant == HalfRecord::kPackets ? DataPath::kPackets : DataPath::kUndecided;
}

/// The path of the peer's requests: that of the first one.
DataPath data_path_of_peer(const SegmentReader& segment, const SegmentHeader& header,
                           std::uint32_t index, const QueuePairView& qp) {
  HalfRecord half;
  if (!qp.is_connected() || !segment.read(header.halves_at + index * sizeof half, half)) {
    return DataPath::kPackets;
  }
  const DataPath data_path = data_path_of_claim(half.claim);
  // Without a local peer, requests will come as packets.
  return data_path == DataPath::kUndecided && qp.sends == DataPath::kPackets ? DataPath::kPackets
                                                                             : data_path;
}

bool read_queue_pairs(const SegmentReader& segment, const SegmentHeader& header,
                      ProcessView& view) {
  const auto keep = [&](std::uint32_t index, const QueuePairRecord& record) {
    const bool is_there =
        static_cast<std::uint32_t>(record.number) == view.slot * host::kNumbersPerSlot + index;
    if (!is_there || (view.slot == 0 && index == 0)) return;
    QueuePairView qp{.number = record.number,
                     .incarnation = record.incarnation,
                     .dest_qp = record.dest_qp,
                     .type = record.type,
                     .state = record.state,
                     .sends = record.data_path,
                     .local = record.local,
                     .remote = record.remote,
                     .traffic = record.traffic};
    qp.receives = data_path_of_peer(segment, header, index, qp);
    view.queue_pairs.push_back(qp);
  };
  const std::uint32_t count = std::min(header.half_count, host::kNumbersPerSlot);
  return segment.visit_array<QueuePairRecord>(header.queue_pairs_at, count, keep);
}

bool read_segment(const host::Viewer::Sight& sight, std::int64_t at, ProcessView& view) {
  const SegmentReader segment(sight.segment, sight.octets);
  SegmentHeader header;
  device::AdapterRecord adapter;
  const bool makes_sense = segment.read(0, header) && header.magic == SegmentHeader::kMagic &&
                           header.version == SegmentHeader::kVersion && header.slot == sight.slot &&
                           header.key_count <= host::kNumbersPerSlot &&
                           segment.read(header.adapter_at, adapter);
  if (!makes_sense) return false;
  view.device = text_in(adapter.device);
  view.interface_name = text_in(adapter.interface);
  view.seconds = static_cast<double>(std::max<std::int64_t>(at - adapter.opened_at, 0)) / 1e9;
  view.path = adapter.path;
  view.path_cause = adapter.path_cause;
  view.completion_queues = adapter.completion_queues;
  view.counters = adapter.counters;
  const std::size_t addresses = std::min<std::size_t>(header.address_count, header.kAddressCount);
  for (const auto& octets : std::span(header.addresses).first(addresses)) {
    view.addresses.push_back({octets});
  }
  return read_memory(segment, header, view) && read_queue_pairs(segment, header, view);
}

ProcessView read_process(const host::Viewer::Sight& sight, std::int64_t at) {
  ProcessView view{.slot = sight.slot, .kind = sight.kind, .process = sight.process};
  if (view.process != 0) {
    view.program = printable(content_of("/proc/" + std::to_string(view.process) + "/comm"));
    view.is_stopped = state_letter(view.process) == 'T';
  }
  if (view.kind == Kind::kShown && !read_segment(sight, at, view)) {
    view = {.slot = view.slot,
            .kind = Kind::kHidden,
            .process = view.process,
            .program = std::move(view.program),
            .is_stopped = view.is_stopped};
  }
  return view;
}

const ProcessView* find_process(const HostView& host, std::uint32_t slot) {
  const auto found = std::ranges::lower_bound(host.processes, slot, {}, &ProcessView::slot);
  return found != host.processes.end() && found->slot == slot ? &*found : nullptr;
}

const QueuePairView* find_queue_pair(const ProcessView& process, wire::QpNumber number) {
  const auto found =
      std::ranges::lower_bound(process.queue_pairs, number, {}, &QueuePairView::number);
  return found != process.queue_pairs.end() && found->number == number ? &*found : nullptr;
}

/// The other end of a connection, if each end names the other.
const QueuePairView* find_peer(const HostView& host, const QueuePairView& qp, int& process) {
  if (!qp.is_connected() || qp.state == QpState::kReset || qp.state == QpState::kInit) {
    return nullptr;
  }
  const ProcessView* owner =
      find_process(host, static_cast<std::uint32_t>(qp.dest_qp) / host::kNumbersPerSlot);
  if (owner == nullptr ||
      std::ranges::find(owner->addresses, qp.remote) == owner->addresses.end()) {
    return nullptr;
  }
  const QueuePairView* peer = find_queue_pair(*owner, qp.dest_qp);
  process = owner->process;
  return peer != nullptr && peer->dest_qp == qp.number ? peer : nullptr;
}

/// A local peer itself counts the requests that it executes directly, so they are added here.
void link_peers(HostView& host) {
  struct Served {
    QueuePairView* qp;
    std::uint64_t messages;
    std::uint64_t octets;
  };
  std::vector<Served> served;  // stored at the end: each loop pass reads the counters of a peer
  for (ProcessView& process : host.processes) {
    for (QueuePairView& qp : process.queue_pairs) {
      const QueuePairView* peer = find_peer(host, qp, qp.peer_process);
      qp.has_peer_here = peer != nullptr;
      if (peer == nullptr || qp.receives != DataPath::kDirect) continue;
      served.push_back({&qp, peer->traffic.messages, peer->traffic.octets});
    }
  }
  for (const Served& each : served) {
    each.qp->traffic.served_messages += each.messages;
    each.qp->traffic.served_octets += each.octets;
  }
}

}  // namespace

HostView read_host(const std::vector<host::Viewer::Sight>& sights) {
  HostView host{.at = device::now().since_start().count()};
  for (const auto& sight : sights) host.processes.push_back(read_process(sight, host.at));
  link_peers(host);
  return host;
}

void compute_rates(const HostView& before, HostView& now) {
  const double seconds = static_cast<double>(now.at - before.at) / 1e9;
  if (seconds <= 0) return;
  // When a counter has restarted, the rate is zero once.
  const auto rate = [&](std::uint64_t from, std::uint64_t to) {
    return to > from ? static_cast<double>(to - from) / seconds : 0;
  };
  for (ProcessView& process : now.processes) {
    const ProcessView* earlier = find_process(before, process.slot);
    if (earlier == nullptr || earlier->process != process.process) continue;
    for (QueuePairView& qp : process.queue_pairs) {
      const QueuePairView* was = find_queue_pair(*earlier, qp.number);
      if (was == nullptr || was->incarnation != qp.incarnation) continue;
      qp.out = {.messages = rate(was->traffic.messages, qp.traffic.messages),
                .octets = rate(was->traffic.octets, qp.traffic.octets)};
      qp.in = {.messages = rate(was->traffic.served_messages, qp.traffic.served_messages),
               .octets = rate(was->traffic.served_octets, qp.traffic.served_octets)};
    }
  }
}

// ---- Words ----

const char* path_of(const QueuePairView& qp) noexcept {
  if (qp.is_connected() && (qp.state == QpState::kReset || qp.state == QpState::kInit)) return "-";
  const bool is_one_way = qp.sends == qp.receives || qp.receives == DataPath::kUndecided;
  if (is_one_way) return name_of(qp.sends);
  return qp.sends == DataPath::kUndecided ? name_of(qp.receives) : "both";
}

const char* name_of(DataPath data_path) noexcept {
  switch (data_path) {
    case DataPath::kPackets:
      return "packets";
    case DataPath::kUndecided:
      return "undecided";
    case DataPath::kDirect:
      return "direct";
  }
  return "?";
}

const char* name_of(QpType type) noexcept {
  switch (type) {
    case QpType::kSmi:
      return "SMI";
    case QpType::kGsi:
      return "GSI";
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
    case QpType::kRawPacket:
      return "RAW";
    case QpType::kXrcInitiator:
      return "XRC-I";
    case QpType::kXrcTarget:
      return "XRC-T";
  }
  return "?";
}

const char* name_of(QpState state) noexcept {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kReadyToReceive:
      return "RTR";
    case QpState::kReadyToSend:
      return "RTS";
    case QpState::kSendQueueDrained:
      return "SQD";
    case QpState::kSendQueueError:
      return "SQE";
    case QpState::kError:
      return "ERR";
  }
  return "?";
}

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
// The output of `verbatim stat --json`; docs/STAT.md has the meaning of each member.
#include <unistd.h>

#include "tools/json.h"
#include "tools/stat_view.h"
#include "tools/text.h"

namespace verbatim::tools {
namespace {

using Kind = host::Viewer::Sight::Kind;

template <typename Items>
Json array_of(const Items& items);

const char* name_of_state(const ProcessView& process) noexcept {
  switch (process.kind) {
    case Kind::kShown:
      return process.is_stopped ? "stopped" : "running";
    case Kind::kSilent:
      return "silent";
    case Kind::kHidden:
      return "hidden";
  }
  return "?";
}

Json json_of(std::uint64_t messages, std::uint64_t octets, const Rates& rates) {
  return {{"messages", messages},
          {"octets", octets},
          {"messages_per_second", rates.messages},
          {"octets_per_second", rates.octets}};
}

Json json_of_peer(const QueuePairView& qp) {
  if (!qp.has_peer_here) return nullptr;
  return {{"number", static_cast<std::uint32_t>(qp.dest_qp)}, {"pid", qp.peer_process}};
}

Json json_of(const QueuePairView& qp) {
  const transport::Traffic& traffic = qp.traffic;
  return {{"number", static_cast<std::uint32_t>(qp.number)},
          {"type", name_of(qp.type)},
          {"state", name_of(qp.state)},
          {"path", path_of(qp)},
          {"sends", name_of(qp.sends)},
          {"receives", name_of(qp.receives)},
          {"dest_qp", static_cast<std::uint32_t>(qp.dest_qp)},
          {"local", text_of(qp.local)},
          {"remote", text_of(qp.remote)},
          {"peer", json_of_peer(qp)},
          {"out", json_of(traffic.messages, traffic.octets, qp.out)},
          {"in", json_of(traffic.served_messages, traffic.served_octets, qp.in)},
          {"packets", traffic.packets},
          {"repeats", traffic.repeats},
          {"not_ready", traffic.not_ready},
          {"errands", traffic.errands}};
}

Json json_of(const MemoryView::Unshared& region) {
  return {{"key", region.key}, {"octets", region.octets}, {"why", rehome::to_text(region.why)}};
}

Json json_of(const MemoryView& memory) {
  return {{"regions", memory.regions},
          {"windows", memory.windows},
          {"shared_octets", memory.shared_octets},
          {"cma_octets", memory.cma_octets},
          {"owner_octets", memory.owner_octets},
          {"closed_regions", memory.closed_regions},
          {"unshared", array_of(memory.unshared)}};
}

Json json_of(const loop::PacketCounters& counters) {
  std::uint64_t malformed = 0;
  for (const std::uint64_t each : counters.malformed) malformed += each;
  return {{"malformed", malformed},
          {"unknown_qp", counters.unknown_qp},
          {"unexpected", counters.unexpected},
          {"forwarded", counters.forwarded},
          {"memory_faults", counters.memory_faults}};
}

Json json_of(const ProcessView& process) {
  Json json = {{"slot", process.slot},
               {"pid", process.process},
               {"program", process.program},
               {"state", name_of_state(process)}};
  if (process.kind != Kind::kShown) return json;
  json["device"] = process.device;
  json["interface"] = process.interface_name;
  json["open_seconds"] = process.seconds;
  json["path"] = name_of(process.path);
  json["path_cause"] = name_of(process.path_cause);
  json["completion_queues"] = process.completion_queues;
  json["memory"] = json_of(process.memory);
  json["packets"] = json_of(process.counters);
  json["queue_pairs"] = array_of(process.queue_pairs);
  return json;
}

template <typename Items>
Json array_of(const Items& items) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(json_of(item));
  return array;
}

}  // namespace

std::string json_of(const HostView& host) {
  return text_of(Json{{"uid", ::geteuid()}, {"processes", array_of(host.processes)}});
}

}  // namespace verbatim::tools

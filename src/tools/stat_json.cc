// SPDX-License-Identifier: Apache-2.0
// What `verbatim stat --json` says; docs/STAT.md has the meaning of each member.
#include <unistd.h>

#include <cstdio>

#include "tools/stat_view.h"
#include "tools/text.h"

namespace verbatim::tools {
namespace {

using Kind = host::Viewer::Sight::Kind;

/// A JSON object that grows by its members.
class Object {
 public:
  Object& add(const char* name, const std::string& json) {
    text_ += (text_.empty() ? "{" : ", ") + tools::quoted(name) + ": " + json;
    return *this;
  }
  Object& add(const char* name, std::uint64_t value) { return add(name, std::to_string(value)); }
  Object& add(const char* name, double value) {
    char text[64];
    (void)std::snprintf(text, sizeof text, "%.3f", value);
    return add(name, std::string(text));
  }
  Object& add_text(const char* name, std::string_view text) {
    return add(name, tools::quoted(text));
  }
  [[nodiscard]] std::string text() const { return (text_.empty() ? "{" : text_) + "}"; }

 private:
  std::string text_;
};

template <typename Items, typename ToJson>
std::string array_of(const Items& items, const char* separator, ToJson&& to_json) {
  std::string text = "[";
  for (const auto& item : items)
    text += (text.size() == 1 ? "" : ",") + (separator + to_json(item));
  return text + "]";
}

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

std::string json_of(std::uint64_t messages, std::uint64_t octets, const Rates& rates) {
  return Object()
      .add("messages", messages)
      .add("octets", octets)
      .add("messages_per_second", rates.messages)
      .add("octets_per_second", rates.octets)
      .text();
}

std::string json_of_peer(const QueuePairView& qp) {
  if (!qp.has_peer_here) return "null";
  return Object()
      .add("number", std::uint64_t{static_cast<std::uint32_t>(qp.dest_qp)})
      .add("pid", static_cast<std::uint64_t>(qp.peer_process))
      .text();
}

std::string json_of(const QueuePairView& qp) {
  const transport::Traffic& traffic = qp.traffic;
  return Object()
      .add("number", std::uint64_t{static_cast<std::uint32_t>(qp.number)})
      .add_text("type", name_of(qp.type))
      .add_text("state", name_of(qp.state))
      .add_text("path", path_of(qp))
      .add_text("sends", name_of(qp.sends))
      .add_text("receives", name_of(qp.receives))
      .add("dest_qp", std::uint64_t{static_cast<std::uint32_t>(qp.dest_qp)})
      .add_text("local", text_of(qp.local))
      .add_text("remote", text_of(qp.remote))
      .add("peer", json_of_peer(qp))
      .add("out", json_of(traffic.messages, traffic.octets, qp.out))
      .add("in", json_of(traffic.served_messages, traffic.served_octets, qp.in))
      .add("packets", traffic.packets)
      .add("repeats", traffic.repeats)
      .add("not_ready", traffic.not_ready)
      .add("errands", traffic.errands)
      .text();
}

std::string json_of(const MemoryView::Unshared& region) {
  return Object()
      .add("key", std::uint64_t{region.key})
      .add("octets", region.octets)
      .add_text("why", rehome::to_text(region.why))
      .text();
}

std::string json_of(const MemoryView& memory) {
  return Object()
      .add("regions", std::uint64_t{memory.regions})
      .add("windows", std::uint64_t{memory.windows})
      .add("shared_octets", memory.shared_octets)
      .add("cma_octets", memory.cma_octets)
      .add("owner_octets", memory.owner_octets)
      .add("closed_regions", std::uint64_t{memory.closed_regions})
      .add("unshared",
           array_of(memory.unshared, " ", [](const auto& each) { return json_of(each); }))
      .text();
}

std::string json_of(const device::AdapterCounters& counters) {
  std::uint64_t malformed = 0;
  for (const std::uint64_t each : counters.malformed) malformed += each;
  return Object()
      .add("malformed", malformed)
      .add("unknown_qp", counters.unknown_qp)
      .add("unexpected", counters.unexpected)
      .add("forwarded", counters.forwarded)
      .add("memory_faults", counters.memory_faults)
      .text();
}

std::string json_of(const ProcessView& process) {
  Object object;
  object.add("slot", std::uint64_t{process.slot})
      .add("pid", static_cast<std::uint64_t>(process.process))
      .add_text("program", process.program)
      .add_text("state", name_of_state(process));
  if (process.kind != Kind::kShown) return object.text();
  return object.add_text("device", process.device)
      .add_text("interface", process.interface_name)
      .add("open_seconds", process.seconds)
      .add_text("path", name_of(process.path))
      .add_text("path_cause", name_of(process.path_cause))
      .add("completion_queues", std::uint64_t{process.completion_queues})
      .add("memory", json_of(process.memory))
      .add("packets", json_of(process.counters))
      .add("queue_pairs", array_of(process.queue_pairs, "\n    ",
                                   [](const QueuePairView& qp) { return json_of(qp); }))
      .text();
}

}  // namespace

std::string json_of(const HostView& host) {
  return Object()
             .add("uid", static_cast<std::uint64_t>(::geteuid()))
             .add("processes",
                  array_of(host.processes, "\n  ",
                           [](const ProcessView& process) { return json_of(process); }))
             .text() +
         "\n";
}

}  // namespace verbatim::tools

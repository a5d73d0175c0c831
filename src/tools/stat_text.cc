// SPDX-License-Identifier: Apache-2.0
// The output of `verbatim stat` as text.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "tools/stat_view.h"
#include "tools/text.h"

namespace verbatim::tools {
namespace {

using Kind = host::Viewer::Sight::Kind;

constexpr std::size_t kBusiest = 20;  // queue pairs of one process that are shown without --all

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  std::array<char, 256> line{};
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  return line.data();
}

/// Three digits and a unit, in steps of a thousand.
std::string short_number(double value) {
  static constexpr std::array kUnits{"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return formatted("%.*f%s", digits, value, kUnits[unit]);
}
std::string short_number(std::uint64_t value) { return short_number(static_cast<double>(value)); }
/// Zero is a dash, which attracts less attention.
std::string short_rate(double value) { return value > 0 ? short_number(value) : "-"; }

std::string duration(double seconds) {
  const auto whole = static_cast<unsigned long long>(std::min(seconds, 1e12));
  if (whole < 60) return formatted("%.1f s", seconds);
  if (whole < 3600) return formatted("%llu min %llu s", whole / 60, whole % 60);
  if (whole < 86400) return formatted("%llu h %llu min", whole / 3600, whole / 60 % 60);
  return formatted("%llu d %llu h", whole / 86400, whole / 3600 % 24);
}

std::string counted(std::uint64_t count, const char* what) {
  return formatted("%llu %s%s", static_cast<unsigned long long>(count), what,
                   count == 1 ? "" : "s");
}

std::string own_name() {
  const auto uid = static_cast<unsigned>(::geteuid());
  const passwd* entry = ::getpwuid(uid);
  return entry == nullptr ? formatted("uid %u", uid)
                          : formatted("%s (uid %u)", printable(entry->pw_name).c_str(), uid);
}

/// The lines of the output, as many as fit the terminal.
class Page {
 public:
  explicit Page(const TextLayout& layout) : layout_(layout) {}

  void add(const std::string& line) {
    ++lines_;
    const bool fits = layout_.lines == 0 || lines_ < layout_.lines;
    if (fits) text_ += line + '\n';
  }
  [[nodiscard]] std::string text() && {
    if (layout_.lines != 0 && lines_ >= layout_.lines) {
      text_ += formatted("... %zu more lines: verbatim stat --once\n", lines_ - layout_.lines + 1);
    }
    return std::move(text_);
  }
  [[nodiscard]] std::string bold(const std::string& text) const { return in("\033[1m", text); }
  [[nodiscard]] std::string faint(const std::string& text) const { return in("\033[2m", text); }
  [[nodiscard]] std::string red(const std::string& text) const { return in("\033[31m", text); }
  [[nodiscard]] std::string green(const std::string& text) const { return in("\033[32m", text); }

 private:
  [[nodiscard]] std::string in(const char* colour, const std::string& text) const {
    return layout_.in_colour ? colour + text + "\033[0m" : text;
  }
  TextLayout layout_;
  std::string text_;
  std::size_t lines_ = 0;
};

double busyness(const QueuePairView& qp) { return qp.out.octets + qp.in.octets; }
double message_rate(const QueuePairView& qp) { return qp.out.messages + qp.in.messages; }

/// The queue pairs with the highest rates; among idle ones, those with the most traffic. Sorted by
/// number.
std::vector<const QueuePairView*> busiest(const std::vector<QueuePairView>& all, bool shows_all) {
  std::vector<const QueuePairView*> chosen;
  for (const QueuePairView& qp : all) chosen.push_back(&qp);
  if (shows_all || chosen.size() <= kBusiest) return chosen;
  const auto is_busier = [](const QueuePairView* a, const QueuePairView* b) {
    const auto key = [](const QueuePairView& qp) {
      return std::tuple(busyness(qp), message_rate(qp),
                        qp.traffic.octets + qp.traffic.served_octets);
    };
    const auto of_a = key(*a);
    const auto of_b = key(*b);
    return of_a == of_b ? a < b : of_a > of_b;  // equal ones in the order of the list
  };
  std::ranges::sort(chosen, is_busier);
  chosen.resize(kBusiest);
  std::ranges::sort(chosen, {}, [](const QueuePairView* qp) { return qp->number; });
  return chosen;
}

std::string peer_of(const QueuePairView& qp) {
  const bool has_peer = qp.is_connected() && qp.state != transport::QpState::kReset &&
                        qp.state != transport::QpState::kInit;
  if (!has_peer) return "-";
  const auto number = static_cast<unsigned>(qp.dest_qp);
  if (!qp.has_peer_here) return formatted("0x%06x at %s", number, text_of(qp.remote).c_str());
  return qp.peer_process == 0 ? formatted("0x%06x here", number)
                              : formatted("0x%06x pid %d", number, qp.peer_process);
}

void add_queue_pair(Page& page, const QueuePairView& qp) {
  const std::string path = formatted("%-9s", path_of(qp));
  const std::string state = formatted("%-5s", name_of(qp.state));
  const bool has_failed =
      qp.state == transport::QpState::kError || qp.state == transport::QpState::kSendQueueError;
  const bool is_direct =
      qp.sends == direct::DataPath::kDirect || qp.receives == direct::DataPath::kDirect;
  page.add(formatted("  0x%06x %-5s ", static_cast<unsigned>(qp.number), name_of(qp.type)) +
           (has_failed ? page.red(state) : state) + " " + (is_direct ? page.green(path) : path) +
           formatted(" %-26s %7s %7s %7s %7s %7s %7s %6s %6s", peer_of(qp).c_str(),
                     short_rate(qp.out.messages).c_str(), short_rate(qp.out.octets).c_str(),
                     short_rate(qp.in.messages).c_str(), short_rate(qp.in.octets).c_str(),
                     short_number(qp.traffic.messages + qp.traffic.served_messages).c_str(),
                     short_number(qp.traffic.octets + qp.traffic.served_octets).c_str(),
                     short_number(qp.traffic.repeats).c_str(),
                     short_number(qp.traffic.not_ready).c_str()));
}

void add_rest(Page& page, const std::vector<QueuePairView>& all,
              const std::vector<const QueuePairView*>& shown) {
  if (shown.size() == all.size()) return;
  double messages = 0;
  double octets = 0;
  std::size_t direct = 0;
  for (const QueuePairView& qp : all) {
    const bool is_shown = std::ranges::binary_search(
        shown, qp.number, {}, [](const QueuePairView* each) { return each->number; });
    if (is_shown) continue;
    messages += message_rate(qp);
    octets += busyness(qp);
    if (qp.sends == direct::DataPath::kDirect || qp.receives == direct::DataPath::kDirect) ++direct;
  }
  page.add(page.faint(formatted(
      "  and %zu more (%zu direct): %s messages/s, %s octets/s; all of them: verbatim stat --all",
      all.size() - shown.size(), direct, short_rate(messages).c_str(),
      short_rate(octets).c_str())));
}

void add_memory(Page& page, const ProcessView& process) {
  const MemoryView& memory = process.memory;
  std::string line = "  memory: " + counted(memory.regions, "region");
  const auto add = [&](std::uint64_t octets, const char* how) {
    if (octets > 0) line += formatted(", %s octets %s", short_number(octets).c_str(), how);
  };
  add(memory.shared_octets, "shared");
  add(memory.cma_octets, "by system calls (cma)");
  add(memory.owner_octets, "by their owner");
  if (memory.windows > 0) line += ", " + counted(memory.windows, "window");
  page.add(line + "; " + counted(process.completion_queues, "CQ") + "; on this host " +
           sentence_of(process.path, process.path_cause));
}

/// Why regions are not shared, each reason once.
void add_reasons(Page& page, const ProcessView& process) {
  std::map<rehome::Why, std::pair<std::size_t, std::uint64_t>> reasons;
  for (const MemoryView::Unshared& region : process.memory.unshared) {
    if (region.why == rehome::Why::kNoPeer) continue;  // normal
    auto& [count, octets] = reasons[region.why];
    ++count;
    octets += region.octets;
  }
  for (const auto& [why, sum] : reasons) {
    page.add("  not shared: " + counted(sum.first, "region") +
             formatted(", %s octets: ", short_number(sum.second).c_str()) + rehome::to_text(why));
  }
  if (process.memory.closed_regions > 0) {
    page.add("  " + page.red(counted(process.memory.closed_regions, "region") +
                             " without memory: the program has unmapped it"));
  }
}

/// Packets that were refused, and faults: normally there are none.
void add_troubles(Page& page, const ProcessView& process) {
  std::uint64_t malformed = 0;
  for (const std::uint64_t each : process.counters.malformed) malformed += each;
  std::string line;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count > 0) line += (line.empty() ? "" : ", ") + short_number(count) + " " + what;
  };
  add(malformed, "malformed");
  add(process.counters.unknown_qp, "for unknown queue pairs");
  add(process.counters.unexpected, "for queue pairs whose peer sends directly");
  if (!line.empty()) page.add("  packets refused: " + line);
  if (process.counters.memory_faults > 0) {
    page.add("  " + page.red(counted(process.counters.memory_faults, "access") +
                             " to registered memory that is no longer mapped"));
  }
}

void add_process(Page& page, const ProcessView& process, const TextLayout& layout) {
  const std::string name = process.program.empty() ? "?" : process.program;
  std::string line =
      process.process == 0 ? page.bold("pid ?") : page.bold(formatted("pid %d", process.process));
  line += "  " + page.bold(name);
  if (process.kind == Kind::kShown) {
    line += "  " + process.device + " on " + process.interface_name +
            formatted("  slot %u  open for %s", process.slot, duration(process.seconds).c_str());
  } else {
    line += formatted("  slot %u", process.slot);
  }
  if (process.is_stopped) line += "  " + page.red("stopped");
  page.add(line);
  if (process.kind == Kind::kSilent) {
    page.add("  does not answer: it is stopped, or its thread has got no CPU time");
    return;
  }
  if (process.kind == Kind::kHidden) {
    page.add(
        "  shows nothing: it runs another version of Verbatim, has just begun or ended, or the "
        "kernel does not let this process look into it (docs/decisions/0022)");
    return;
  }
  add_memory(page, process);
  add_reasons(page, process);
  add_troubles(page, process);
  if (process.queue_pairs.empty()) {
    page.add(page.faint("  no queue pairs"));
    return;
  }
  page.add(page.faint(formatted("  %-8s %-5s %-5s %-9s %-26s %7s %7s %7s %7s %7s %7s %6s %6s", "QP",
                                "type", "state", "path", "peer", "out/s", "oct/s", "in/s", "oct/s",
                                "total", "octets", "repeat", "RNR")));
  const auto shown = busiest(process.queue_pairs, layout.shows_all);
  for (const QueuePairView* qp : shown) add_queue_pair(page, *qp);
  add_rest(page, process.queue_pairs, shown);
}

}  // namespace

std::string text_of(const HostView& host, const TextLayout& layout) {
  Page page(layout);
  if (host.processes.empty()) {
    page.add("No process of " + own_name() + " uses Verbatim in this network namespace.");
    page.add("Start one:                 verbatim run ib_write_bw");
    page.add("Look into another:         ip netns exec NAME verbatim stat");
    page.add("Look at another user's:    sudo -u USER verbatim stat");
    return std::move(page).text();
  }
  std::size_t queue_pairs = 0;
  Rates out;
  for (const ProcessView& process : host.processes) {
    queue_pairs += process.queue_pairs.size();
    for (const QueuePairView& qp : process.queue_pairs) {
      out.messages += qp.out.messages;
      out.octets += qp.out.octets;
    }
  }
  page.add(own_name() + " on this host: " + counted(host.processes.size(), "adapter") + ", " +
           counted(queue_pairs, "queue pair") + ", " + short_rate(out.messages) + " messages/s, " +
           short_rate(out.octets) + " octets/s");
  for (const ProcessView& process : host.processes) {
    page.add("");
    add_process(page, process, layout);
  }
  return std::move(page).text();
}

}  // namespace verbatim::tools

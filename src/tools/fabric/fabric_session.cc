// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_session.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tools/fabric/fabric_environment.h"
#include "tools/fabric/fabric_view.h"
#include "tools/fabric/link_slowdown.h"

namespace verbatim::tools {
namespace {

// OpenSM writes its files and ends within milliseconds.
constexpr Duration kEndingPatience = std::chrono::seconds(3);
// How often the ports are counted while they are to become Active.
constexpr Duration kLook = std::chrono::milliseconds(5);
// The fabric takes so many packets of a program at once that it lasts about as long.
constexpr Duration kClockGrain = std::chrono::microseconds(20);

Instant now() noexcept { return Instant::at(std::chrono::steady_clock::now().time_since_epoch()); }

/// The faults of links in a file.
Status set_faults(FabricLoop& loop, const std::string& path, std::string& message) {
  const auto lines = read_fault_file(path, message);
  if (!lines) return lines.error();
  for (const FaultLine& line : *lines) {
    const CommandAnswer answer = loop.execute(line.command);
    if (answer.is_done) continue;
    message = path + ":" + std::to_string(line.number) + ": " +
              answer.text.substr(0, answer.text.find_last_not_of('\n') + 1);
    return Errc::kInvalidArgument;
  }
  return Ok{};
}

/// "leaf0[3]=run.pcapng"
Status start_capture(FabricLoop& loop, const std::string& capture, std::string& message) {
  const std::size_t sign = capture.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == capture.size()) {
    message = "--capture " + capture + ": expected is PORT=FILE, as leaf0[3]=run.pcapng";
    return Errc::kInvalidArgument;
  }
  const CommandAnswer answer =
      loop.execute(line_of({"capture", capture.substr(0, sign), capture.substr(sign + 1)}));
  if (answer.is_done) return Ok{};
  message = "--capture " + capture + ": " + answer.text.substr(0, answer.text.find('\n'));
  return Errc::kInvalidArgument;
}

}  // namespace

Status FabricSession::open(const FabricSettings& settings, const host::FabricPlace& place,
                           std::string& message) {
  auto topology = choose_topology(settings.topology, message);
  if (!topology) return topology.error();
  fabric::FabricOptions options;
  options.seed = settings.seed;
  options.has_strict_switches = settings.has_strict_switches;
  options.holds_arrivals = true;
  options.clock_grain = kClockGrain;
  const auto slowdown = parse_slowdown(settings.rates);
  if (!slowdown) {
    message = "'" + settings.rates + "' is not real, off or 1/N with a whole N up to " +
              std::to_string(kSlowdownMax);
    return Errc::kInvalidArgument;
  }
  options.slowdown = *slowdown;
  if (!settings.loss.empty()) {
    const auto loss = parse_per_mille(settings.loss);
    if (!loss) {
      message = "'" + settings.loss + "' is not a share in per cent, as 10 or 0.5%";
      return Errc::kInvalidArgument;
    }
    options.loss_per_mille = *loss;
  }
  auto loop = std::make_unique<FabricLoop>(std::move(*topology), options);
  if (auto opened = loop->open(place, message); !opened) return opened;
  if (!settings.faults.empty()) {
    if (auto set = set_faults(*loop, settings.faults, message); !set) return set;
  }
  for (const std::string& capture : settings.captures) {
    if (auto started = start_capture(*loop, capture, message); !started) return started;
  }
  place_ = place;
  loop_ = std::move(loop);
  std::error_code failed;  // what cannot be removed is written over
  std::filesystem::remove_all(files_of(place), failed);
  if (watch_signals()) return Ok{};
  message = "the system gives no signalfd; check `ulimit -n`";
  return Errc::kNoMemory;
}

bool FabricSession::watch_signals() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGCONT}) {
    ::sigaddset(&watched, number);
  }
  (void)std::signal(SIGPIPE, SIG_IGN);
  if (::pthread_sigmask(SIG_BLOCK, &watched, nullptr) != 0) return false;
  signals_ = host::Descriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  return signals_.is_open() && loop_->watch(signals_.number(), [this] { handle_signals(); });
}

void FabricSession::handle_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.number(), &info, sizeof info) == sizeof info) {
    switch (static_cast<int>(info.ssi_signo)) {
      case SIGCHLD:
        has_child_ended_ = true;
        if (on_child_) on_child_();
        break;
      case SIGCONT:
        if (on_continue_) on_continue_();
        break;
      default:
        ending_signal_ = static_cast<int>(info.ssi_signo);
        loop_->stop();
    }
  }
}

Status FabricSession::start_opensm(const OpensmOptions& options, std::string& message) {
  return opensm_.start(options, loop_->fabric().topology(), loop_->names(), *place_, message);
}

/// To count the ports costs more than to handle a datagram.
void FabricSession::run_until(const std::function<bool()>& condition, Duration look_every) {
  while (!loop_->stops() && !condition()) {
    const Instant next_look = now() + look_every;
    has_child_ended_ = false;
    while (!loop_->stops() && !has_child_ended_ && now() < next_look) {
      loop_->turn(next_look - now());
    }
  }
}

Status FabricSession::await_active(Duration limit, std::string& message) {
  const Instant deadline = now() + limit;
  bool has_ended = false;
  run_until(
      [&] {
        has_ended = has_ended || opensm_.has_just_ended();
        return has_ended || loop_->is_active() || now() > deadline;
      },
      kLook);
  if (loop_->is_active()) return Ok{};
  const std::string ports = inactive_ports();
  if (has_ended) {
    message = opensm_.explain_end() + "\n" + ports;
  } else if (loop_->stops()) {
    message = "ended before all ports were Active";
  } else {
    message = ports + ", after " +
              std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) +
              " s; the log of OpenSM is " + opensm_.log();
  }
  return Errc::kTimedOut;
}

std::string FabricSession::inactive_ports() const {
  constexpr std::size_t kShown = 6;
  const fabric::PortCensus census = loop_->fabric().census();
  std::string text =
      std::to_string(census.active) + " of " + std::to_string(census.cabled) + " ports are Active";
  std::size_t count = 0;
  for (const fabric::TopologyLink& link : loop_->fabric().topology().links) {
    for (const fabric::PortEnd end : {link.a, link.b}) {
      if (loop_->fabric().port_status(end).state == wire::PortState::kActive) continue;
      if (++count > kShown) return text + ", ...";
      text += (count == 1 ? "; not Active: " : ", ") + loop_->names().name_of(end);
    }
  }
  return text;
}

void FabricSession::end() {
  if (!loop_) return;
  on_child_ = nullptr;  // that OpenSM ends is no news any more
  if (opensm_.runs()) {
    const Instant deadline = now() + kEndingPatience;
    opensm_.end();
    while (opensm_.runs() && now() < deadline) {
      loop_->turn(kLook);
      (void)opensm_.has_just_ended();
    }
    opensm_.kill();
  }
  loop_->close();
}

std::string FabricSession::headline() const {
  const FabricSummary summary = summary_of({loop_->fabric(), loop_->names(), loop_->addresses()});
  const std::string counts = text_of(summary);
  return "fabric " + place_->name() + ": " + counts.substr(0, counts.find('\n'));
}

}  // namespace verbatim::tools

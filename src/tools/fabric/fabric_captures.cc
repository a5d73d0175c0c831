// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_captures.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "fabric/taps/datagram_octets.h"
#include "tools/fabric/text_table.h"

namespace verbatim::tools {
namespace {

using link::LinkCapture;
using Direction = wire::CapturedFrame::Direction;

std::uint64_t unix_nanoseconds() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

Direction direction_of(const fabric::TappedPacket& packet) noexcept {
  return packet.direction == fabric::TappedPacket::Direction::kOut ? Direction::kOutbound
                                                                   : Direction::kInbound;
}

std::string packets_text(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " packet" : " packets");
}

}  // namespace

FabricCaptures::FabricCaptures(fabric::Fabric& fabric)
    : fabric_(fabric), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

FabricCaptures::Running* FabricCaptures::find(fabric::PortEnd port) noexcept {
  const auto found =
      std::ranges::find_if(running_, [&](const Running& each) { return each.about.port == port; });
  return found != running_.end() ? &*found : nullptr;
}

Status FabricCaptures::start(Instant now, const Wanted& wanted, std::string& message) {
  if (!fabric_.peer_of(wanted.port)) {
    message = wanted.port_name + " has no link in the topology";
    return Errc::kInvalidArgument;
  }
  if (const Running* other = find(wanted.port)) {
    message = wanted.port_name + " is being captured to '" + other->capture->name() +
              "'; `capture stop " + wanted.port_name + "` ends that";
    return Errc::kBusy;
  }
  auto file = link::CaptureFile::overwrite(wanted.file, message);
  if (!file) return file.error();
  auto capture = LinkCapture::start(std::move(*file), wanted.port_name, message);
  if (!capture) return capture.error();
  epoll_event end{.events = EPOLLIN | EPOLLET, .data = {}};
  if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, (*capture)->descriptor(), &end) != 0) {
    message = "the system gives no descriptor for a capture; check `ulimit -n`";
    return Errc::kNoMemory;
  }
  const Duration time = wanted.limits.time;
  running_.push_back({.about = wanted,
                      .capture = std::move(*capture),
                      .unix_nanoseconds = unix_nanoseconds() -
                                          static_cast<std::uint64_t>(now.since_start().count()),
                      .left = wanted.limits.packets,
                      .ends = time != Duration(0) ? now + time : Instant::never()});
  fabric_.set_tap(wanted.port, true);
  return Ok{};
}

bool FabricCaptures::stop(fabric::PortEnd port) noexcept {
  Running* const running = find(port);
  if (running == nullptr || running->is_ending) return false;
  finish(*running);
  return true;
}

void FabricCaptures::finish(Running& running) noexcept {
  if (std::exchange(running.is_ending, true)) return;
  fabric_.set_tap(running.about.port, false);
  running.capture->finish();
}

void FabricCaptures::close() noexcept {
  for (Running& each : running_) finish(each);
  running_.clear();  // waits
}

void FabricCaptures::handle_ends() {
  std::array<epoll_event, 8> events;
  while (::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0) > 0) {
  }
  for (Running& each : running_) {
    State state = state_of(each);
    if (!state.progress.has_ended) continue;
    finish(each);
    ended_.push_back(std::move(state));
    each.capture.reset();
  }
  std::erase_if(running_, [](const Running& each) { return !each.capture; });
}

void FabricCaptures::turn(Instant now) noexcept {
  for (Running& each : running_) {
    if (each.ends <= now) finish(each);
  }
}

Instant FabricCaptures::next_due() const noexcept {
  Instant due = Instant::never();
  for (const Running& each : running_) {
    if (!each.is_ending) due = std::min(due, each.ends);
  }
  return due;
}

auto FabricCaptures::state_of(const Running& running) -> State {
  return {.port = running.about.port,
          .port_name = running.about.port_name,
          .file = running.capture->name(),
          .progress = running.capture->progress()};
}

auto FabricCaptures::poll_ended() -> std::optional<State> {
  if (ended_.empty()) return std::nullopt;
  State state = std::move(ended_.front());
  ended_.erase(ended_.begin());
  return state;
}

auto FabricCaptures::running() const -> std::vector<State> {
  std::vector<State> states;
  for (const Running& each : running_) states.push_back(state_of(each));
  return states;
}

/// A packet that is on the way to here when its capture ends is not in the file.
void FabricCaptures::take(const fabric::TappedPacket& packet,
                          std::span<const std::byte> octets) noexcept {
  Running* const running = find(packet.port);
  if (running == nullptr || running->is_ending) return;
  const LinkCapture::About about{
      .unix_nanoseconds =
          running->unix_nanoseconds + static_cast<std::uint64_t>(packet.at.since_start().count()),
      .direction = direction_of(packet),
      .lane = packet.lane,
      .has_bad_vcrc = packet.is_damaged};
  if (packet.datagram) {
    running->capture->record(about, fabric::DatagramOctets(*packet.datagram, packet.lane).octets());
  } else {
    running->capture->record(about, octets);
  }
  if (running->left != 0 && --running->left == 0) finish(*running);
}

std::string ending_of(const FabricCaptures::State& state) {
  const LinkCapture::Progress& progress = state.progress;
  std::string text;
  if (progress.error != 0) {
    text = "the capture of " + state.port_name + " to '" + state.file +
           "' ends here, the fabric goes on: " + std::strerror(progress.error) +
           " (make room, or capture elsewhere); the file has " + packets_text(progress.packets);
  } else {
    text = state.port_name + ": " + packets_text(progress.packets) + " in '" + state.file + "'";
  }
  if (progress.missing == 0) return text;
  return text + "; " + packets_text(progress.missing) +
         " came faster than the file takes them, and are missing";
}

std::string captures_text(const std::vector<FabricCaptures::State>& states) {
  if (states.empty()) return "nothing is being captured\n";
  std::vector<std::vector<std::string>> rows{{"PORT", "FILE", "PACKETS", "MISSING", "OCTETS"}};
  for (const auto& state : states) {
    rows.push_back({state.port_name, state.file, std::to_string(state.progress.packets),
                    std::to_string(state.progress.missing), std::to_string(state.progress.octets)});
  }
  return table_of(rows);
}

Json captures_json(const std::vector<FabricCaptures::State>& states) {
  Json list = Json::array();
  for (const auto& state : states) {
    list.push_back({{"port", state.port_name},
                    {"file", state.file},
                    {"packets", state.progress.packets},
                    {"missing", state.progress.missing},
                    {"octets", state.progress.octets}});
  }
  return list;
}

}  // namespace verbatim::tools

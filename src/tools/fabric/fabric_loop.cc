// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_loop.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <variant>

#include "host/time_slice.h"

namespace verbatim::tools {
namespace {

constexpr int kEventsPerTurn = 16;
// The process must not wait for the rest of the time slice of a program that spins. This is the
// shortest one that the scheduler accepts.
constexpr Duration kTimeSlice = std::chrono::microseconds(100);
// After so many bursts of events the programs are looked at, although more is due.
constexpr int kBurstsPerTurn = 2;
// How often the descriptors are looked at while the loop looks for packets by itself. A look is a
// system call, which costs as much as a packet.
constexpr Duration kLooksAround = std::chrono::microseconds(10);

timespec timespec_of(Duration duration) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {.tv_sec = seconds.count(), .tv_nsec = (duration - seconds).count()};
}

}  // namespace

FabricLoop::FabricLoop(fabric::Topology topology, const fabric::FabricOptions& options)
    : fabric_(std::move(topology), options),
      names_(fabric_.topology()),
      addresses_(fabric_.topology()),
      data_(fabric_, server_),
      programs_({.fabric = fabric_,
                 .names = names_,
                 .addresses = addresses_,
                 .server = server_,
                 .data = data_}),
      captures_(fabric_),
      interpreter_(fabric_, names_, addresses_, captures_),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  data_.set_tap(captures_);
}

Status FabricLoop::open(const host::FabricPlace& place, std::string& message) {
  host::limit_time_slice(kTimeSlice);
  if (auto opened = server_.open(place, message); !opened) return opened;
  network_.take(
      {.first = fabric::NodeAddresses::kFirstNetwork, .last = fabric::NodeAddresses::kLastNetwork});
  addresses_.set_network(network_.number());
  const auto handle_timer = [this] {
    std::uint64_t count = 0;
    (void)!::read(timer_.number(), &count, sizeof count);  // it says only that time has passed
    armed_ = Instant::never();
  };
  if (watch(server_.descriptor(), [this] { handle_server(); }) &&
      watch(data_.descriptor(), [this] { data_.handle_bells(now()); }) &&
      watch(captures_.descriptor(), [this] { handle_captures(); }) &&
      watch(timer_.number(), handle_timer)) {
    return Ok{};
  }
  server_.close();
  message = "the system gives no epoll or timer; check `ulimit -n`";
  return Errc::kNoMemory;
}

void FabricLoop::close() noexcept {
  captures_.close();
  server_.close();
}

bool FabricLoop::watch(int descriptor, std::function<void()> handle) {
  epoll_event readable{.events = EPOLLIN, .data = {.fd = descriptor}};
  if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &readable) != 0) return false;
  handlers_[descriptor] = std::move(handle);
  return true;
}

void FabricLoop::unwatch(int descriptor) {
  (void)::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, descriptor, nullptr);
  handlers_.erase(descriptor);
}

Instant FabricLoop::now() const noexcept {
  return Instant::at(std::chrono::steady_clock::now() - start_);
}

Instant FabricLoop::next_due() const noexcept {
  return std::min(
      {fabric_.next_due().value_or(Instant::never()), data_.next_due(), captures_.next_due()});
}

bool FabricLoop::is_due(Instant now) const noexcept { return next_due() <= now; }

/// The timer may go off earlier than needed, which is harmless: so it is set only to make it
/// earlier.
void FabricLoop::arm(Instant now) {
  const Instant due = next_due();
  if (due >= armed_) return;
  armed_ = due;
  const Duration wait = std::max<Duration>(due - now, std::chrono::nanoseconds(1));
  const itimerspec setting{.it_interval = {}, .it_value = timespec_of(wait)};
  (void)::timerfd_settime(timer_.number(), 0, &setting, nullptr);
}

void FabricLoop::wait(Duration at_most) {
  const Instant before = now();
  waited_ = before;
  if (is_due(before) || data_.is_looking()) {
    at_most = Duration(0);
  } else {
    arm(before);
  }
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  std::array<epoll_event, kEventsPerTurn> ready;
  const int count = ::epoll_wait(epoll_.number(), ready.data(), kEventsPerTurn,
                                 static_cast<int>(std::min<std::int64_t>(milliseconds, 60'000)));
  for (int at = 0; at < count; ++at) {
    const auto handler = handlers_.find(ready[static_cast<std::size_t>(at)].data.fd);
    if (handler == handlers_.end()) continue;              // an earlier one has ended it
    const std::function<void()> handle = handler->second;  // which may end itself
    handle();
  }
}

void FabricLoop::look_around() {
  if (!has_moved_) (void)::sched_yield();
  if (now() - waited_ >= kLooksAround) wait(Duration(0));
}

void FabricLoop::turn(Duration at_most) {
  data_.is_looking() ? look_around() : wait(at_most);
  for (int burst = 0; burst < kBurstsPerTurn; ++burst) {
    const Instant time = now();
    fabric_.advance(time);
    has_moved_ = data_.turn(time) > 0;
    programs_.drain();
    captures_.turn(time);
    if (!is_due(time)) return;
  }
}

void FabricLoop::handle_server() {
  server_.handle_ready();
  const Instant time = now();
  while (auto event = server_.poll_event()) {
    if (const auto* command = std::get_if<host::FabricEvent::Commanded>(&event->what)) {
      handle_command(event->client, command->text);
    } else {
      if (std::holds_alternative<host::FabricEvent::Left>(event->what)) {
        handle_end_of(event->client);
      }
      programs_.handle(time, std::move(*event));
    }
  }
}

void FabricLoop::handle_command(host::FabricClientId client, std::string_view line) {
  const CommandAnswer answer = execute(line);
  server_.answer(client, answer_text(answer), !answer.waits);
  if (answer.waits) waiting_.push_back({.client = client, .port = *answer.has_captured});
}

void FabricLoop::handle_captures() {
  captures_.handle_ends();
  while (const auto ended = captures_.poll_ended()) {
    const std::string text = ending_of(*ended);
    const bool is_whole = ended->progress.error == 0;
    const bool is_awaited = std::erase_if(waiting_, [&](const Waiting& each) {
      if (each.port != ended->port) return false;
      server_.answer(each.client, answer_text({.is_done = is_whole, .text = text + "\n"}), true);
      return true;
    });
    if (!is_awaited && tell_) tell_(text);
  }
}

void FabricLoop::handle_end_of(host::FabricClientId client) {
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (each.client != client) return false;
    (void)captures_.stop(each.port);
    return true;
  });
}

CommandAnswer FabricLoop::execute(std::string_view line) {
  CommandAnswer answer = interpreter_.execute(now(), line);
  if (answer.quits) stop();
  return answer;
}

bool FabricLoop::is_active() const noexcept {
  const fabric::PortCensus census = fabric_.census();
  return census.active == census.cabled;
}

std::string answer_text(const CommandAnswer& answer) {
  return (answer.is_done ? "+" : "-") + answer.text;
}

}  // namespace verbatim::tools

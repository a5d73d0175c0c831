// SPDX-License-Identifier: Apache-2.0
#include "connect/device.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "connect/id.h"
#include "connect/listening.h"

namespace verbatim::connect {

Device::Device(std::unique_ptr<Services> services, void* border)
    : services_(std::move(services)),
      border_(border),
      is_native_(services_->port().fabric.has_value()) {
  services_->set_reader(this);
}

wire::Gid Device::own_gid() const {
  const auto gids = port().gids;
  return gids.empty() ? wire::Gid{} : gids.front().gid;
}

std::uint32_t Device::own_ipv4() const {
  const device::PortInfo now = port();
  return now.fabric ? now.fabric->address : 0;
}

bool Device::is_own(const IpEndpoint& endpoint) const {
  if (endpoint.ib) return port().has(endpoint.address);
  const std::uint32_t own = own_ipv4();
  const bool is_named = endpoint.is_ipv4 && own != 0 && endpoint.ipv4() == own;
  return is_named || (endpoint.is_loopback() && !endpoint.is_of_fabrics());
}

std::optional<std::uint32_t> Device::index_of(const wire::Gid& gid) const {
  if (gid == wire::Gid{}) return std::nullopt;  // an entry that was removed
  const auto gids = port().gids;
  for (std::size_t i = 0; i < gids.size(); ++i) {
    if (gids[i].gid == gid) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

std::optional<wire::Gid> Device::loopback_gid(bool is_ipv4) const {
  // Link-local addresses come first in the table, and are the last choice.
  const auto gids = port().gids;
  const auto found = std::find_if(gids.rbegin(), gids.rend(), [&](const device::GidEntry& entry) {
    return entry.gid.is_ipv4_mapped() == is_ipv4;
  });
  if (found == gids.rend()) return std::nullopt;
  return found->gid;
}

void Device::add_communication(wire::CommId communication, Id& id) {
  communications_[static_cast<std::uint32_t>(communication)] = &id;
}
void Device::remove_communication(wire::CommId communication) noexcept {
  communications_.erase(static_cast<std::uint32_t>(communication));
}
void Device::add_listener(cm::ListenerId listener, Id& id) {
  listeners_[static_cast<std::uint32_t>(listener)] = &id;
}
void Device::remove_listener(cm::ListenerId listener) noexcept {
  listeners_.erase(static_cast<std::uint32_t>(listener));
}
void Device::add_user(Id& id, const wire::Gid& address) { users_[&id] = address; }
void Device::remove_user(Id& id) noexcept { users_.erase(&id); }

void Device::remove_questions(const Id& id) noexcept {
  std::erase_if(questions_, [&](const auto& question) { return question.second.id == &id; });
}

/// Interfaces of hosts are followed by their observer; nothing else follows a subnet.
void Device::handle_news() noexcept {
  bool has_new_addresses = false;
  {
    const LockGuard lock(connections_mutex());
    has_new_addresses = poll();
  }
  if (has_new_addresses && is_native_) Listening::follow_addresses();
}

/// In batches, so that the lock of the services is not held while events are handled.
bool Device::poll() noexcept {
  bool has_new_addresses = false;
  for (;;) {
    std::vector<cm::AgentEvent> events;
    std::vector<device::PortChange> changes;
    std::vector<SubnetAnswer> answers;
    {
      const ServicesGuard lock(*services_);
      while (auto event = services_->agent().poll_event()) events.push_back(std::move(*event));
      while (auto change = services_->poll_port_change()) changes.push_back(std::move(*change));
      while (auto answer = services_->poll_subnet_answer()) answers.push_back(*answer);
    }
    if (events.empty() && changes.empty() && answers.empty()) return has_new_addresses;
    for (const cm::AgentEvent& event : events) handle(event);
    for (const SubnetAnswer& answer : answers) handle(answer);
    for (const device::PortChange& change : changes) {
      has_new_addresses |= change.has_new_gids();
      handle(change);
    }
  }
}

void Device::handle(const cm::AgentEvent& event) {
  const bool is_request = event.kind == cm::AgentEventKind::kConnectRequest ||
                          event.kind == cm::AgentEventKind::kServiceRequest;
  if (!is_request) {
    const auto found = communications_.find(static_cast<std::uint32_t>(event.id));
    if (found != communications_.end()) found->second->handle(event);
    return;
  }
  const auto found = listeners_.find(static_cast<std::uint32_t>(event.listener));
  if (found != listeners_.end() && found->second->handle_request(*this, event)) return;
  (void)on_agent([&](cm::Agent& agent, Instant now) {
    return agent.destroy(now, event.id);  // which refuses it
  });
}

/// The same events as in Linux: kDeviceRemoved for all ids of a device that was removed,
/// kAddressChanged for ids whose address was removed or has a new MAC address.
void Device::handle(const device::PortChange& change) {
  for (const auto& [id, address] : users_) {
    if (change.wants_reregistration) id->lose_groups();
    const bool is_moved = change.has_new_mac || std::find(change.lost.begin(), change.lost.end(),
                                                          address) != change.lost.end();
    if (change.is_gone) {
      id->tell(EventKind::kDeviceRemoved);
    } else if (is_moved) {
      id->tell(EventKind::kAddressChanged);
    }
  }
}

void Device::handle(const SubnetAnswer& answer) {
  const auto found = questions_.find(static_cast<std::uint32_t>(answer.token));
  if (found == questions_.end()) return;
  const SubnetQuestion question = found->second;
  questions_.erase(found);
  question.id->handle(question, answer);
}

Outcome Device::ask_subnet(const SubnetQuestion& question, const MadOctets& octets,
                           Duration patience) {
  const LockGuard lock(connections_mutex());
  const Outcome asked = ask_subnet_amid(question, octets, patience);
  (void)poll();
  return asked;
}

Outcome Device::ask_subnet_amid(const SubnetQuestion& question, const MadOctets& octets,
                                Duration patience) {
  const ServicesGuard held(*services_);
  const auto token = services_->ask_subnet(octets, patience);
  if (!token) return error_of(token.error());
  questions_[static_cast<std::uint32_t>(*token)] = question;
  return Ok{};
}

void Device::tell_subnet(const MadOctets& octets, Duration patience) noexcept {
  const ServicesGuard held(*services_);
  (void)services_->ask_subnet(octets, patience);  // the fabric repeats it, or forgets it itself
}

void Device::take_leave() noexcept {
  services_->set_reader(nullptr);
  for (const auto& [communication, id] : communications_) {
    (void)services_->agent().destroy(services_->now(), wire::CommId{communication});
  }
  communications_.clear();
  services_->send();
  await_disconnects();
  services_->leave();
}

/// Repeats disconnect requests that were lost, as a kernel does after the program has ended. Peers
/// that are alive answer within a round trip. The wait for the others is limited.
void Device::await_disconnects() noexcept {
  constexpr auto kPause = std::chrono::microseconds(100);
  constexpr int kPausesPerCopy = 100;
  constexpr int kCopies = 15;
  cm::Agent& agent = services_->agent();
  for (int copy = 0; copy < kCopies && agent.has_open_disconnects(); ++copy) {
    for (int pause = 0; pause < kPausesPerCopy && agent.has_open_disconnects(); ++pause) {
      std::this_thread::sleep_for(kPause);
      services_->progress();
    }
    agent.repeat_disconnects();
    services_->send();
  }
}

}  // namespace verbatim::connect

// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/subnet_manager.h"

#include <algorithm>
#include <span>

#include "base/assert.h"
#include "base/byte_order.h"

namespace verbatim::fabric::test {
namespace {

Registration registration_of(wire::MgmtClass mgmt_class) {
  return {.qpn = wire::QpNumber::kSmi, .mgmt_class = mgmt_class, .class_version = 1};
}
std::uint32_t lower_half(const UserMad& mad) {
  return load_be_at<std::uint32_t>(mad.octets.data() + 12);
}

}  // namespace

SubnetManager::SubnetManager(Fabric& fabric, PortEnd port, const Options& options)
    : fabric_(fabric), port_(port), options_(options) {
  const auto asker = fabric_.register_agent(port_, kClient,
                                            registration_of(wire::MgmtClass::kSubnetDirectedRoute));
  Registration traps = registration_of(wire::MgmtClass::kSubnetLidRouted);
  traps.methods.set(static_cast<std::size_t>(wire::MadMethod::kTrap));
  const auto hearer = fabric_.register_agent(port_, kClient, traps);
  asker_ = asker.value();
  hearer_ = hearer.value();
}

void SubnetManager::start(Instant now) {
  fabric_.set_is_sm(now, port_, true);
  sweep(now);
  pump(now);
}

bool SubnetManager::is_settled() const noexcept {
  return phase_ == Phase::kIdle && !has_failed_ && !must_sweep_again_;
}

Instant SubnetManager::next_due() const noexcept { return std::min(next_sweep_, next_look_); }

void SubnetManager::handle_time(Instant now) {
  if (phase_ != Phase::kIdle) return;
  if (next_sweep_ <= now) {
    sweep(now);
  } else if (next_look_ <= now) {
    look(options_.looks_at_switches);
  }
  pump(now);
}

void SubnetManager::sweep(Instant) {
  ++sweeps_;
  phase_ = Phase::kDiscover;
  has_failed_ = false;
  must_sweep_again_ = false;
  next_sweep_ = next_look_ = Instant::never();
  ends_.clear();
  by_guid_.clear();
  explore({}, std::nullopt);
}

void SubnetManager::look(bool at_switches) {
  phase_ = Phase::kLook;
  next_look_ = Instant::never();
  for (std::size_t end = 0; end < ends_.size(); ++end) {
    if (end == 0) {
      ask_port_info(end, ends_[end].base_port);
    } else if (at_switches && ends_[end].is_switch()) {
      ask({.path = ends_[end].path, .attribute = wire::SmpAttribute::kSwitchInfo, .end = end});
    }
  }
}

void SubnetManager::pump(Instant now) {
  while (true) {
    while (!waiting_.empty() && outstanding_.size() < options_.outstanding_max) {
      const Request request = std::move(waiting_.front());
      waiting_.pop_front();
      post(now, request);
    }
    if (!outstanding_.empty() || phase_ == Phase::kIdle) return;
    next_phase(now);
  }
}

void SubnetManager::post(Instant now, const Request& request) {
  wire::Smp smp{.method = request.method,
                .hop_count = static_cast<std::uint8_t>(request.path.size()),
                .transaction = wire::TransactionId{++last_transaction_},
                .attribute = request.attribute,
                .attribute_modifier = request.modifier,
                .data = request.data};
  for (std::size_t hop = 0; hop < request.path.size(); ++hop) {
    smp.initial_path[hop + 1] = std::byte{request.path[hop]};
  }
  UserMad mad{.agent = asker_,
              .timeout = options_.timeout,
              .retries = options_.retries,
              .address = {.lid = wire::Lid::kPermissive, .qpn = wire::QpNumber::kSmi},
              .octets = std::vector<std::byte>(wire::Mad::kSize)};
  smp.emit(std::span<std::byte, wire::Mad::kSize>(mad.octets));
  const Status posted = fabric_.post_send(now, port_, kClient, std::move(mad));
  VB_ASSERT(posted);
  outstanding_.emplace(last_transaction_, request);
}

void SubnetManager::handle(Instant now, const UserMad& mad) {
  const auto method = wire::MadMethod{std::to_integer<std::uint8_t>(mad.octets[3])};
  if (mad.agent == hearer_ && method == wire::MadMethod::kTrap) {
    handle_trap(now, mad);
  } else if (const auto found = outstanding_.find(lower_half(mad)); found != outstanding_.end()) {
    const Request request = std::move(found->second);
    outstanding_.erase(found);
    if (mad.status == 0) {
      handle_answer(now, request, mad);
    } else {
      fail(now);
    }
  }
  pump(now);
}

void SubnetManager::handle_trap(Instant now, const UserMad& trap) {
  must_sweep_again_ = true;
  if (phase_ == Phase::kIdle) next_sweep_ = std::min(next_sweep_, now);
  UserMad repress{.agent = hearer_, .address = trap.address, .octets = trap.octets};
  repress.octets[3] = static_cast<std::byte>(wire::MadMethod::kTrapRepress);
  (void)fabric_.post_send(now, port_, kClient, std::move(repress));  // the trap is repeated
}

void SubnetManager::handle_answer(Instant now, const Request& request, const UserMad& mad) {
  const auto view = wire::MadView::parse(std::span<const std::byte>(mad.octets)).value();
  const auto smp = wire::SmpView::parse(view).value();
  if (smp.status() != wire::SmpStatus::kOk) return fail(now);
  switch (request.attribute) {
    case wire::SmpAttribute::kNodeInfo:
      return handle_node_info(request, wire::NodeInfo::from(smp.data()));
    case wire::SmpAttribute::kSwitchInfo:
      return handle_switch_info(request, wire::SwitchInfo::from(smp.data()));
    case wire::SmpAttribute::kPortInfo:
      return handle_port_info(request, wire::PortInfo::from(smp.data()));
    default:
      return;
  }
}

void SubnetManager::fail(Instant) {
  has_failed_ = true;
  must_sweep_again_ = true;
}

void SubnetManager::next_phase(Instant now) {
  switch (phase_) {
    case Phase::kDiscover:
      phase_ = Phase::kConfigure;
      return configure();
    case Phase::kConfigure:
      phase_ = Phase::kArm;
      return set_states(wire::PortState::kArmed);
    case Phase::kArm:
      phase_ = Phase::kActivate;
      return set_states(wire::PortState::kActive);
    case Phase::kActivate:
      // A switch that did not know its manager yet sent no trap: it has marked the change only.
      return look(true);
    case Phase::kLook:
    case Phase::kIdle:
      phase_ = Phase::kIdle;
      if (must_sweep_again_) next_sweep_ = now + options_.pause;
      next_look_ = now + options_.look_interval;
      return;
  }
}

}  // namespace verbatim::fabric::test

// SPDX-License-Identifier: Apache-2.0
// How the subnet manager of the tests finds the nodes, and sees that something has changed.
#include "sim/fabric/subnet_manager.h"

namespace verbatim::fabric::test {
namespace {

constexpr std::size_t kHopsMax = 60;

}  // namespace

void SubnetManager::explore(const Path& path, std::optional<Neighbor> origin) {
  if (path.size() > kHopsMax) return;
  ask({.path = path, .attribute = wire::SmpAttribute::kNodeInfo, .origin = origin});
}

void SubnetManager::handle_node_info(const Request& request, const wire::NodeInfo& info) {
  const auto [known, is_new] = by_guid_.try_emplace(info.port_guid, ends_.size());
  const std::size_t end = known->second;
  if (is_new) {
    ends_.push_back({.info = info, .path = request.path});
    End& added = ends_.back();
    if (!added.is_switch()) added.base_port = info.local_port;
  }
  if (request.origin) {
    const Neighbor here{.end = end, .port = info.local_port};
    ends_[request.origin->end].ports[request.origin->port].neighbor = here;
    ends_[end].ports[info.local_port].neighbor = request.origin;
  }
  if (!is_new) return;
  if (ends_[end].is_switch()) {
    ask({.path = request.path, .attribute = wire::SmpAttribute::kSwitchInfo, .end = end});
  } else {
    ask_port_info(end, info.local_port);
  }
}

void SubnetManager::handle_switch_info(const Request& request, const wire::SwitchInfo& info) {
  End& end = ends_[request.end];
  if (phase_ == Phase::kLook) {
    if (info.port_state_change) must_sweep_again_ = true;
    return;
  }
  if (phase_ != Phase::kDiscover) return;
  // The mark is removed before the ports are read: a change after that sets it again.
  if (request.method == wire::MadMethod::kGet && info.port_state_change) {
    Request clear{.path = end.path,
                  .method = wire::MadMethod::kSet,
                  .attribute = wire::SmpAttribute::kSwitchInfo,
                  .end = request.end};
    info.emit(clear.data);
    return ask(clear);
  }
  end.switch_info = info;
  for (unsigned port = 0; port <= end.info.port_count; ++port) {
    ask_port_info(request.end, static_cast<std::uint8_t>(port));
  }
}

void SubnetManager::ask_port_info(std::size_t end, std::uint8_t port) {
  ask({.path = ends_[end].path,
       .attribute = wire::SmpAttribute::kPortInfo,
       .modifier = wire::PortInfo::kExtendedSpeedsModifier | port,
       .end = end});
}

void SubnetManager::handle_port_info(const Request& request, const wire::PortInfo& info) {
  End& end = ends_[request.end];
  const auto port = static_cast<std::uint8_t>(request.modifier & 0xff);
  std::optional<wire::PortInfo>& known = end.ports[port].info;
  if (phase_ == Phase::kLook) {
    if (!known || known->state != info.state) must_sweep_again_ = true;
    return;
  }
  known = info;
  if (phase_ != Phase::kDiscover) return;
  const bool leads_on = end.is_switch() ? port != 0 : request.end == 0;
  if (!leads_on || info.state == wire::PortState::kDown || end.ports[port].neighbor) return;
  Path path = end.path;
  path.push_back(port);
  explore(path, Neighbor{.end = request.end, .port = port});
}

}  // namespace verbatim::fabric::test

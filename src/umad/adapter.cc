// SPDX-License-Identifier: Apache-2.0
#include "umad/adapter.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "host/fabric_choice.h"

namespace verbatim::umad {
namespace {

constinit std::atomic<std::size_t> g_told{0};

}  // namespace

void tell_user(std::string_view sentence) noexcept {
  const std::size_t which = std::hash<std::string_view>()(sentence);
  if (g_told.exchange(which, std::memory_order_relaxed) == which) return;
  std::fprintf(stderr, "verbatim: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

std::optional<Adapter> Adapter::find() {
  if (!host::FabricChoice::exists()) return std::nullopt;
  std::string message;
  if (const auto choice = host::FabricChoice::read(message)) {
    if (const auto view = host::look_at_node(choice->place, choice->node, message)) {
      return Adapter{.place = choice->place, .node = choice->node, .view = *view};
    }
  }
  tell_user(message);
  return std::nullopt;
}

bool Adapter::is_called(const char* name) const noexcept {
  return name == nullptr || std::strcmp(name, host::kFabricAdapterName) == 0;
}

const host::FabricPortState* Adapter::port(int number) const noexcept {
  const auto& ports = view.state.ports;
  if (number < 0 || static_cast<std::size_t>(number) >= ports.size()) return nullptr;
  const auto& found = ports[static_cast<std::size_t>(number)];
  return found.guid != 0 ? &found : nullptr;
}

int Adapter::last_port() const noexcept {
  int last = 0;
  for (int number = 0; number < UMAD_CA_MAX_PORTS; ++number) {
    if (port(number) != nullptr) last = number;
  }
  return last;
}

int Adapter::best_port() const noexcept {
  constexpr int kActive = 4;
  constexpr int kLinkUp = 5;
  int connected = -1;
  int any = -1;
  for (int number = 0; number < UMAD_CA_MAX_PORTS; ++number) {
    const auto* found = port(number);
    if (found == nullptr) continue;
    if (found->state == kActive) return number;
    if (connected < 0 && found->physical_state == kLinkUp) connected = number;
    if (any < 0) any = number;
  }
  return connected >= 0 ? connected : any;
}

Expected<ChosenPort> ChosenPort::find(const char* name, int number) {
  auto adapter = Adapter::find();
  if (!adapter || !adapter->is_called(name)) return Errc::kNoDevice;
  const bool is_switch = adapter->view.state.kind == host::FabricNodeState::Kind::kSwitch;
  if (is_switch) number = 0;
  if (!is_switch && number == UMAD_ANY_PORT) number = adapter->best_port();
  if (adapter->port(number) == nullptr) return Errc::kInvalidArgument;
  return ChosenPort{.adapter = std::move(*adapter), .number = number};
}

}  // namespace verbatim::umad

// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/pacer.h"

namespace verbatim::fabric {

bool Pacer::admit(Instant now, const Flow& flow, std::uint32_t megabits, std::uint32_t octets,
                  JourneyId journey) {
  const auto [place, is_new] = flows_.try_emplace(flow);
  State& state = place->second;
  state.clock.set_megabits(megabits, slowdown_);
  if (!state.packets.empty() || !state.clock.is_free(now, grain_)) {
    state.packets.push_back({.journey = journey, .octets = octets});
    ++held_;
    return false;
  }
  if (!is_new) turns_.erase({.due = free_at(state), .flow = flow});
  state.clock.send(now, octets);
  turns_.insert({.due = free_at(state), .flow = flow});
  return true;
}

/// A flow whose turn has come and that has nothing to send is forgotten.
std::optional<Pacer::Packet> Pacer::pop(Instant now) {
  if (turns_.empty() || turns_.begin()->due > now) return std::nullopt;
  const Flow flow = turns_.extract(turns_.begin()).value().flow;
  const auto place = flows_.find(flow);
  State& state = place->second;
  if (state.packets.empty()) {
    flows_.erase(place);
    return std::nullopt;
  }
  const Held held = state.packets.front();
  state.packets.pop_front();
  --held_;
  state.clock.send(now, held.octets);
  turns_.insert({.due = free_at(state), .flow = flow});
  return Packet{.from = flow.from, .journey = held.journey};
}

}  // namespace verbatim::fabric

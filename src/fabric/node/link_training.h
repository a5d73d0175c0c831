// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fabric/topology/link_rate.h"
#include "wire/management/port_info.h"

namespace verbatim::fabric {

/// Sets what a port supports and enables so that its link can have this rate, and lower ones.
void set_supported_rate(wire::PortInfo& info, LinkRate rate) noexcept;

/// Agrees on the widest and fastest that both ends enable, and makes it active in both; false: they
/// enable nothing in common (IBA Vol 1, 5.6 and 7.2.7).
bool train(wire::PortInfo& a, wire::PortInfo& b) noexcept;

/// The rate that is active.
[[nodiscard]] LinkRate active_rate(const wire::PortInfo& info) noexcept;

}  // namespace verbatim::fabric

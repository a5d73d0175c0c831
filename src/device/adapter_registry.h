// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/expected.h"
#include "device/management_port.h"
#include "device/port_info.h"

/// The adapters of this process: one for each port that the program has opened, with their part in
/// a fork and in the exit of the process.
namespace verbatim::device {

class Adapter;

/// The process's adapter for this port, opened at first use. On failure `message` says why and what
/// to do about it. All callers in a process pass the same `make_management`.
[[nodiscard]] Expected<std::shared_ptr<Adapter>> open_adapter(const PortInfo& port,
                                                              ManagementPort::Maker make_management,
                                                              std::string& message);

/// At the end of an adapter's destructor, under a ForkPause: forks ignore the adapter from now on.
void forget_adapter(Adapter& adapter) noexcept;

}  // namespace verbatim::device

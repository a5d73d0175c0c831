// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/expected.h"

namespace verbatim::device {

/// What the environment asks for. Every variable starts with VERBATIM_; one with nonsense in it is
/// refused by name, and then there is no device.
struct Config {
  struct Wanted {
    std::string interface;  // as `ip link` names it
    std::string name;       // of the device; empty: the next of vb0, vb1, ...
  };
  std::vector<Wanted> devices;  // VERBATIM_DEVICES=eth0,lo=vb9; empty: all that are fit
};

/// Reads the environment. On failure `message` says which variable is wrong, how, and what it takes.
[[nodiscard]] Expected<Config> read_config(std::string& message);

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::tools {

struct DemoOptions {
  std::uint64_t seed = 2;
  unsigned loss_percent = 20;
};
/// One WRITE, one READ and one SEND over a lossy network, as a ladder. The exit status.
[[nodiscard]] int run_demo(const DemoOptions& options);

struct SimOptions {
  std::optional<std::uint64_t> seed;  // this one history; otherwise `histories` of them
  std::uint64_t histories = 100;
  bool ladder = false;
};
/// Random histories with all checkers on. The exit status is 1 when one goes wrong.
[[nodiscard]] int run_sim(const SimOptions& options);

/// What one connection carries at several rates of loss, as a table. The exit status is 1 when
/// something did not arrive as it was sent.
[[nodiscard]] int run_goodput();

struct RunOptions {
  std::string devices;               // VERBATIM_DEVICES of the command; empty: as it is
  std::string faults;                // VERBATIM_FAULTS, likewise
  std::string capture;               // VERBATIM_CAPTURE, likewise
  std::vector<std::string> command;  // not empty
};
/// Becomes the command, which then finds our libraries before the system's. Returns only when that
/// fails: 127 when there is no such command, 126 when it cannot be started, 125 for anything else.
[[nodiscard]] int run_command(const RunOptions& options);

struct DevicesOptions {
  bool json = false;
};
/// Prints the devices that programs will see, and their GID tables. The exit status.
[[nodiscard]] int list_devices(const DevicesOptions& options);

struct StatOptions {
  bool json = false;
  bool all = false;    // every queue pair, not the busiest alone
  bool watch = false;  // refresh, also where there is no terminal
  bool once = false;   // do not, even if there is one
  unsigned interval_seconds = 1;
};
/// Shows the processes of this user on this host that use Verbatim, and what they do. The exit
/// status.
[[nodiscard]] int run_stat(const StatOptions& options);

struct DoctorOptions {
  bool json = false;
  std::string program;                // look at this one's libraries as well
  std::string peer;                   // look at the path to this host instead
  bool serve = false;                 // be the other end of such a look, until a signal comes
  std::uint16_t control_port = 4791;  // TCP, between the two
};
/// Says what could keep programs from working here, and what to do. The exit status is 1 when
/// something is a problem.
[[nodiscard]] int run_doctor(const DoctorOptions& options);

}  // namespace verbatim::tools

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
/// One WRITE, one READ and one SEND over a lossy network, as a ladder diagram. Returns the exit
/// status.
[[nodiscard]] int run_demo(const DemoOptions& options);

struct SimOptions {
  std::optional<std::uint64_t> seed;  // this one history; otherwise `histories` of them
  std::uint64_t histories = 100;
  bool ladder = false;
};
/// Runs random histories with all checks. The exit status is 1 when a check fails.
[[nodiscard]] int run_sim(const SimOptions& options);

/// Prints a table of the goodput of one connection at several rates of loss. The exit status is 1
/// when data arrived changed or not at all.
[[nodiscard]] int run_goodput();

struct RunOptions {
  std::string devices;               // VERBATIM_DEVICES of the command; empty: unchanged
  std::string faults;                // VERBATIM_FAULTS, likewise
  std::string capture;               // VERBATIM_CAPTURE, likewise
  std::string fabric;                // a fabric instead of adapters; empty: none
  std::string node;                  // of the fabric; empty: VERBATIM_NODE
  std::vector<std::string> command;  // not empty
};
/// Executes the command, which then finds Verbatim's libraries before the system's. Returns only on
/// failure: 127 when there is no such command, 126 when it cannot be started, 125 for anything
/// else.
[[nodiscard]] int run_command(const RunOptions& options);

struct DevicesOptions {
  bool json = false;
};
/// Prints the devices that programs will see, and their GID tables. The exit status.
[[nodiscard]] int list_devices(const DevicesOptions& options);

struct StatOptions {
  bool json = false;
  bool all = false;    // every queue pair, not only the busiest
  bool watch = false;  // refresh, also without a terminal
  bool once = false;   // do not refresh, even on a terminal
  unsigned interval_seconds = 1;
};
/// Shows the processes of this user on this host that use Verbatim, and their queue pairs. Returns
/// the exit status.
[[nodiscard]] int run_stat(const StatOptions& options);

struct DoctorOptions {
  bool json = false;
  std::string program;                // also check the libraries of this program
  std::string peer;                   // check the path to this host instead
  bool serve = false;                 // answer such checks until a signal comes
  std::uint16_t control_port = 4791;  // TCP, between the two hosts
};
/// Reports what could keep programs from working here, and what to do about it. The exit status is
/// 1 when there is a problem.
[[nodiscard]] int run_doctor(const DoctorOptions& options);

}  // namespace verbatim::tools

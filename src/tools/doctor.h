// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/port_info.h"
#include "tools/text.h"

/// The checks of `verbatim doctor`. Each function checks one subject and adds its findings; none
/// changes anything.
namespace verbatim::tools {

/// The result of one check.
struct Finding {
  enum class Grade : std::uint8_t {
    kOk,
    kWarning,  // programs work, but slower, or some functions do not work
    kProblem,  // programs do not work
  };
  Grade grade = Grade::kOk;
  std::string subject;  // a few words: "UDP port 4791"
  std::string what;     // the result, and what it means
  std::string advice;   // what to do; empty when nothing is to do
};
using Findings = std::vector<Finding>;

inline void add_ok(Findings& findings, std::string subject, std::string what) {
  findings.push_back({Finding::Grade::kOk, std::move(subject), std::move(what), {}});
}
inline void add_warning(Findings& findings, std::string subject, std::string what,
                        std::string advice) {
  findings.push_back(
      {Finding::Grade::kWarning, std::move(subject), std::move(what), std::move(advice)});
}
inline void add_problem(Findings& findings, std::string subject, std::string what,
                        std::string advice) {
  findings.push_back(
      {Finding::Grade::kProblem, std::move(subject), std::move(what), std::move(advice)});
}

/// Devices, their addresses and MTUs; offloads of the interfaces.
void look_at_devices(const std::vector<device::PortInfo>& ports, Findings& findings);
/// Whether programs of this user get UDP port 4791 at the devices' addresses; if not, which user or
/// program has it.
void look_at_port(const std::vector<device::PortInfo>& ports, Findings& findings);
/// Whether the kernel has the features that Verbatim uses.
void look_at_kernel(Findings& findings);
/// Limits of the process and of the system, and the rules for access to other processes.
void look_at_limits(Findings& findings);
/// Whether programs find Verbatim's libraries; with a program, whether that one does.
void look_at_libraries(const std::string& program, Findings& findings);

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/port_info.h"
#include "tools/text.h"

/// What `verbatim doctor` looks at. Each function looks at one kind of thing and adds what it
/// found; none of them changes anything.
namespace verbatim::tools {

/// One thing that was looked at.
struct Finding {
  enum class Grade : std::uint8_t {
    kOk,
    kWarning,  // programs work, but slower, or not with everything
    kProblem,  // programs do not work
  };
  Grade grade = Grade::kOk;
  std::string subject;  // a few words: "UDP port 4791"
  std::string what;     // what was found, and what it means
  std::string advice;   // what to do; empty when there is nothing to do
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
/// Whether programs of this user get UDP port 4791 at the devices' addresses, and who has it if
/// not.
void look_at_port(const std::vector<device::PortInfo>& ports, Findings& findings);
/// What the kernel can do of what we use.
void look_at_kernel(Findings& findings);
/// Limits of the process and of the system, and the rules for looking into other processes.
void look_at_limits(Findings& findings);
/// Whether programs find our libraries; with a program, whether that one does.
void look_at_libraries(const std::string& program, Findings& findings);

}  // namespace verbatim::tools

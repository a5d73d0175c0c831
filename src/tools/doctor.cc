// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "device/config.h"
#include "device/interface_list.h"
#include "tools/commands.h"
#include "tools/doctor_peer.h"
#include "tools/json.h"

namespace verbatim::tools {
namespace {

using Grade = Finding::Grade;

const char* name_of(Grade grade) noexcept {
  switch (grade) {
    case Grade::kOk:
      return "ok";
    case Grade::kWarning:
      return "warning";
    case Grade::kProblem:
      return "problem";
  }
  return "";
}

const char* colour_of(Grade grade) noexcept {
  switch (grade) {
    case Grade::kOk:
      return "\033[32m";
    case Grade::kWarning:
      return "\033[33m";
    case Grade::kProblem:
      return "\033[1;31m";
  }
  return "";
}

void print_json(const Findings& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"grade", name_of(finding.grade)},
                    {"subject", finding.subject},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  std::printf("%s", text_of(list).c_str());
}

void print_text(const Findings& findings, bool in_colour) {
  for (const Finding& finding : findings) {
    std::printf("%s%-8s%s %s: %s\n", in_colour ? colour_of(finding.grade) : "",
                name_of(finding.grade), in_colour ? "\033[0m" : "", finding.subject.c_str(),
                finding.what.c_str());
    if (!finding.advice.empty()) std::printf("         -> %s\n", finding.advice.c_str());
  }
  const auto count = [&](Grade grade) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.grade == grade; });
  };
  std::printf("%td problems, %td warnings\n", count(Grade::kProblem), count(Grade::kWarning));
}

/// The devices that programs would see. A configuration that is refused becomes a finding.
std::vector<device::PortInfo> find_devices(Findings& findings) {
  std::string message;
  const auto config = device::read_config(message);
  if (config) return device::find_ports(*config);
  // Without a list of interfaces, no value is right; look_at_devices() says why there is none.
  if (!device::read_interfaces().empty()) {
    add_problem(findings, "configuration", message, "correct the variable, or unset it");
  }
  return device::find_ports({});
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  Findings findings;
  const auto ports = find_devices(findings);
  if (options.serve) return serve_peers(ports, options.control_port);
  if (!options.peer.empty()) {
    look_at_peer({.host = options.peer, .control_port = options.control_port}, ports, findings);
  } else {
    look_at_devices(ports, findings);
    look_at_port(ports, findings);
    look_at_libraries(options.program, findings);
    look_at_limits(findings);
    look_at_kernel(findings);
  }
  if (options.json) {
    print_json(findings);
  } else {
    print_text(findings, ::isatty(STDOUT_FILENO) != 0);
  }
  const bool has_problem =
      std::any_of(findings.begin(), findings.end(),
                  [](const Finding& finding) { return finding.grade == Grade::kProblem; });
  return has_problem ? 1 : 0;
}

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
// `verbatim doctor --serve`: the host that answers.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "tools/doctor_control.h"
#include "tools/doctor_peer.h"
#include "tools/doctor_probe.h"
#include "udp/socket_address.h"

namespace verbatim::tools {
namespace {

constexpr std::size_t kSeenMax = 1024;   // probes of one session
constexpr std::size_t kOrdersMax = 256;  // probes that one session may request
constexpr auto kSessionMax = std::chrono::seconds(60);
constexpr int kLookMs = 200;

/// Listens on every address of either family.
int listen_on(std::uint16_t port) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const int on = 1;
  const int off = 0;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  link::SocketAddress name;
  const socklen_t octets = link::store_address(name, wire::Gid{}, port, 0);
  if (::bind(listener, &name.base, octets) == 0 && ::listen(listener, 8) == 0) return listener;
  const int error = errno;
  ::close(listener);
  errno = error;
  return -1;
}

/// One client. It says which probes to expect, sends them, and asks which arrived. Then it requests
/// probes, which are sent only to the address of its connection.
class Session {
 public:
  Session(ControlLine& line, ProbeLink& link, IdentificationWatch& watch)
      : line_(line), link_(link), watch_(watch) {}

  void run() {
    if (!greet()) return;
    const auto end = std::chrono::steady_clock::now() + kSessionMax;
    while (std::chrono::steady_clock::now() < end) {
      take_probes();
      if (!line_.has_line() && !wait()) continue;
      const auto question = line_.receive(kLookMs);
      if (!question || !answer(*question)) return;
    }
  }

 private:
  bool greet() {
    const auto* device = link_.device_of(line_.local_address());
    return line_.send(
        "verbatim-doctor version=1 qp=" +
        std::to_string(static_cast<std::uint32_t>(link_.number())) +
        " device=" + (device != nullptr ? device->name : "none") +
        " mtu=" + std::to_string(device != nullptr ? wire::octets_of(device->active_mtu) : 0) +
        " raw=" + (watch_.sees() ? "yes" : "no") + " saw=" + text_of(line_.remote_address()));
  }

  /// Whether the client has sent something; waits a little while.
  bool wait() {
    std::vector<pollfd> polled = {{.fd = line_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const int descriptor : link_.descriptors()) {
      polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    }
    (void)::poll(polled.data(), polled.size(), kLookMs);  // the loop goes on either way
    return polled[0].revents != 0;
  }

  void take_probes() {
    for (const SeenProbe& probe : link_.take(0)) {
      if (probe.name.nonce == nonce_ && seen_.size() < kSeenMax) {
        seen_.emplace(probe.name.sequence, probe);
      }
    }
    if (identifications_.size() < kSeenMax) watch_.take(identifications_);
  }

  bool answer(const std::string& question) {
    if (question.starts_with("expect ")) {
      nonce_ = number_in(question, "nonce").value_or(0);
      seen_.clear();
      identifications_.clear();
      return line_.send("ok");
    }
    if (question == "report") return report();
    if (question.starts_with("send ")) return send_probe(question);
    return false;
  }

  bool report() {
    take_probes();
    for (const auto& [sequence, probe] : seen_) {
      const auto raw = identifications_.find(probe.name);
      const bool is_sent = line_.send(
          "probe seq=" + std::to_string(sequence) + " from=" + text_of(probe.source) +
          " port=" + std::to_string(probe.source_port) + " to=" + text_of(probe.destination) +
          " icrc=" + (probe.icrc_holds ? "ok" : "bad") +
          " covered=" + std::to_string(probe.covered_identification) +
          " id=" + (raw != identifications_.end() ? std::to_string(raw->second) : "unknown"));
      if (!is_sent) return false;
    }
    return line_.send("end");
  }

  bool send_probe(const std::string& question) {
    const auto nonce = number_in(question, "nonce");
    const auto sequence = number_in(question, "seq");
    const auto qp = number_in(question, "qp");
    const auto octets = number_in(question, "octets");
    if (!nonce || !sequence || !qp || !octets || ++orders_ > kOrdersMax) return false;
    link_.put({.name = {.nonce = *nonce, .sequence = static_cast<std::uint32_t>(*sequence)},
               .from = line_.local_address(),
               .to = line_.remote_address(),
               .dest_qp = wire::QpNumber{static_cast<std::uint32_t>(*qp) & 0x00ff'ffffU},
               .payload_octets = std::min<std::size_t>(*octets, link::kFrameOctets)});
    link_.flush();
    return line_.send("ok");
  }

  ControlLine& line_;
  ProbeLink& link_;
  IdentificationWatch& watch_;
  std::uint64_t nonce_ = 0;
  std::size_t orders_ = 0;
  std::map<std::uint32_t, SeenProbe> seen_;  // by sequence
  std::map<ProbeName, std::uint16_t> identifications_;
};

}  // namespace

int serve_peers(const std::vector<device::PortInfo>& ports, std::uint16_t control_port) {
  ProbeLink link;
  std::string message;
  if (ports.empty() || !link.open(ports, message)) {
    std::fprintf(stderr, "verbatim doctor: %s; `verbatim doctor` alone says more\n",
                 ports.empty() ? "no interface is up and has an IP address" : message.c_str());
    return 1;
  }
  const int listener = listen_on(control_port);
  if (listener < 0) {
    std::fprintf(stderr,
                 "verbatim doctor: cannot listen on TCP port %u: %s; choose another with "
                 "--port, on both ends\n",
                 control_port, std::strerror(errno));
    return 1;
  }
  IdentificationWatch watch;
  std::printf("Serving on TCP port %u and UDP port %u; %s IPv4 identifications. End with Ctrl-C.\n",
              control_port, link::kRocePort,
              watch.sees() ? "sees" : "does not see (that needs CAP_NET_RAW)");
  std::fflush(stdout);
  while (true) {
    ControlLine line(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (line.descriptor() < 0) continue;
    std::printf("%s asks\n", text_of(line.remote_address()).c_str());
    std::fflush(stdout);
    Session(line, link, watch).run();
  }
}

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
// `verbatim doctor --peer HOST`: the host that asks.
#include "tools/doctor_peer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <random>
#include <set>

#include "tools/doctor_control.h"
#include "tools/doctor_probe.h"

namespace verbatim::tools {
namespace {

constexpr int kAnswerMs = 5000;
constexpr int kTries = 5;
constexpr int kArrivalMs = 150;  // between sending probes and asking which arrived
constexpr std::uint32_t kTrainFirst = 100;
constexpr std::uint32_t kTrainCount = 8;
constexpr std::array<std::uint32_t, 5> kMtus = {256, 512, 1024, 2048, 4096};
// The headers of a probe are eight octets shorter than the longest headers of data.
constexpr std::size_t kHeaderDifference = 8;

/// A probe as one end saw it; the peer reports those that it saw.
struct Arrived {
  std::string from;
  std::string to;
  std::uint64_t port = 0;
  bool icrc_holds = false;
  std::uint64_t covered_identification = 0;
  std::optional<std::uint64_t> identification{};  // as on the wire, if it is visible
};
using Arrivals = std::map<std::uint32_t, Arrived>;  // by sequence

class PeerCheck {
 public:
  PeerCheck(ControlLine& line, ProbeLink& link, std::string greeting, Findings& findings)
      : line_(line),
        link_(link),
        greeting_(std::move(greeting)),
        findings_(findings),
        nonce_(std::random_device{}() | std::uint64_t{1} << 40) {}

  void run() {
    const auto* device = link_.device_of(line_.local_address());
    if (!has_devices(device)) return;
    const std::uint32_t peer_mtu = peer_mtu_;
    const std::uint32_t own_mtu = wire::octets_of(device->active_mtu);
    judge_mtus(own_mtu, peer_mtu);
    const std::uint32_t common = std::min(own_mtu, peer_mtu);
    const auto there = probe_there(common);
    const auto back = probe_back(common);
    if (!there || !back) {
      return add_problem(findings_, "peer", "it stopped answering", "start `doctor --serve` again");
    }
    judge_reach(*there, *back);
    judge_translation(*there);
    judge_checksums("to the peer", *there);
    judge_checksums("from the peer", *back);
    judge_path("to the peer", *there, common, device->interface);
    judge_path("from the peer", *back, common, device->interface);
    judge_identifications(*there);
  }

 private:
  std::string here() const { return text_of(line_.local_address()); }
  std::string peer() const { return text_of(line_.remote_address()); }

  bool has_devices(const device::PortInfo* device) {
    peer_mtu_ = static_cast<std::uint32_t>(number_in(greeting_, "mtu").value_or(0));
    if (device == nullptr) {
      add_problem(findings_, "route",
                  "the way to the peer starts at " + here() + ", which is no device's address",
                  "make its interface a device: VERBATIM_DEVICES (see `verbatim devices`)");
      return false;
    }
    if (peer_mtu_ == 0) {
      add_problem(findings_, "peer", peer() + " is no device's address there",
                  "ask for an address that `verbatim devices` lists there");
      return false;
    }
    add_ok(findings_, "peer",
           "it answers at " + peer() + ", device " + word_in(greeting_, "device") +
               " there; here it is " + device->name + ", " + here());
    return true;
  }

  void judge_mtus(std::uint32_t own, std::uint32_t theirs) {
    const std::string what =
        "RoCE MTU " + std::to_string(own) + " here and " + std::to_string(theirs) + " there";
    if (own == theirs) return add_ok(findings_, "MTU", what);
    add_warning(findings_, "MTU", what + ": a program that takes the larger one loses packets",
                "give both interfaces the same MTU, or tell programs the smaller one (ib_write_bw "
                "-m " +
                    std::to_string(std::min(own, theirs)) + ")");
  }

  /// Sequence 0 is a short packet; sequence m is the longest packet of RoCE MTU m; then a train.
  std::vector<std::uint32_t> sequences(std::uint32_t common) const {
    std::vector<std::uint32_t> all = {0};
    for (const std::uint32_t mtu : kMtus) {
      if (mtu <= common) all.push_back(mtu);
    }
    return all;
  }
  static std::size_t payload_of(std::uint32_t sequence) {
    return sequence == 0 || sequence >= kTrainFirst + kMtus.back() ? 64
                                                                   : sequence + kHeaderDifference;
  }
  static std::uint32_t train_sequence(std::uint32_t number) {
    return kTrainFirst + kMtus.back() + number;
  }

  void put(std::uint32_t sequence) {
    link_.put({.name = {.nonce = nonce_, .sequence = sequence},
               .from = line_.local_address(),
               .to = line_.remote_address(),
               .dest_qp = wire::QpNumber{static_cast<std::uint32_t>(
                   number_in(greeting_, "qp").value_or(0))},
               .payload_octets = payload_of(sequence)});
  }

  std::optional<Arrivals> probe_there(std::uint32_t common) {
    if (!line_.send("expect nonce=" + std::to_string(nonce_))) return std::nullopt;
    if (line_.receive(kAnswerMs) != "ok") return std::nullopt;
    Arrivals arrived;
    const auto wanted = sequences(common);
    for (int tries = 0; tries < kTries && arrived.size() < wanted.size() + kTrainCount; ++tries) {
      for (const std::uint32_t sequence : wanted) {
        if (arrived.contains(sequence)) continue;
        put(sequence);
        link_.flush();  // one by one: only packets of a train get identifications
      }
      for (std::uint32_t i = 0; i < kTrainCount; ++i) put(train_sequence(i));
      link_.flush();
      (void)link_.take(kArrivalMs);  // only waits: no probe is expected here
      auto report = read_report();
      if (!report) return std::nullopt;
      arrived = std::move(*report);
    }
    return arrived;
  }

  std::optional<Arrivals> read_report() {
    if (!line_.send("report")) return std::nullopt;
    Arrivals arrived;
    while (true) {
      const auto line = line_.receive(kAnswerMs);
      if (!line) return std::nullopt;
      if (*line == "end") return arrived;
      const auto sequence = number_in(*line, "seq");
      if (!sequence || arrived.size() > 256) return std::nullopt;
      arrived[static_cast<std::uint32_t>(*sequence)] = {
          .from = word_in(*line, "from"),
          .to = word_in(*line, "to"),
          .port = number_in(*line, "port").value_or(0),
          .icrc_holds = word_in(*line, "icrc") == "ok",
          .covered_identification = number_in(*line, "covered").value_or(0),
          .identification = number_in(*line, "id")};
    }
  }

  std::optional<Arrivals> probe_back(std::uint32_t common) {
    Arrivals arrived;
    const auto wanted = sequences(common);
    for (int tries = 0; tries < kTries && arrived.size() < wanted.size(); ++tries) {
      for (const std::uint32_t sequence : wanted) {
        if (arrived.contains(sequence)) continue;
        const bool is_ordered =
            line_.send("send nonce=" + std::to_string(nonce_) + " seq=" + std::to_string(sequence) +
                       " qp=" + std::to_string(static_cast<std::uint32_t>(link_.number())) +
                       " octets=" + std::to_string(payload_of(sequence)));
        if (!is_ordered || line_.receive(kAnswerMs) != "ok") return std::nullopt;
      }
      for (const SeenProbe& probe : link_.take(kArrivalMs)) {
        if (probe.name.nonce != nonce_) continue;
        arrived[probe.name.sequence] = {.from = text_of(probe.source),
                                        .to = text_of(probe.destination),
                                        .port = probe.source_port,
                                        .icrc_holds = probe.icrc_holds,
                                        .covered_identification = probe.covered_identification};
      }
    }
    return arrived;
  }

  void judge_reach(const Arrivals& there, const Arrivals& back) {
    const auto judge = [&](const char* way, const Arrivals& arrived) {
      const std::string subject = std::string("UDP port 4791 ") + way;
      if (!arrived.empty()) return add_ok(findings_, subject, "open");
      add_problem(findings_, subject, "nothing arrives, though TCP does",
                  "a firewall keeps it out: allow UDP port 4791 on both hosts and between them "
                  "(nft add rule inet filter input udp dport 4791 accept)");
    };
    judge("to the peer", there);
    judge("from the peer", back);
  }

  void judge_translation(const Arrivals& there) {
    const std::string subject = "address translation";
    const std::string seen_by_tcp = word_in(greeting_, "saw");
    if (there.empty()) {
      if (seen_by_tcp == here()) return;
      return add_problem(findings_, subject,
                         "this host is " + here() + ", but the peer sees " + seen_by_tcp,
                         "use addresses that both ends know: no NAT, or a tunnel through it");
    }
    const Arrived& probe = there.begin()->second;
    const std::uint16_t port = link_.source_port(line_.local_address());
    const std::string sent = here() + " port " + std::to_string(port) + " to " + peer();
    const std::string seen = probe.from + " port " + std::to_string(probe.port) + " to " + probe.to;
    if (sent == seen) return add_ok(findings_, subject, "none: packets arrive from " + seen);
    add_problem(findings_, subject,
                "packets leave from " + sent + ", and arrive from " + seen +
                    ": the ICRC covers addresses and ports, so every receiver drops them",
                "use addresses that both ends know: no NAT, or a tunnel through it");
  }

  void judge_checksums(const char* way, const Arrivals& arrived) {
    if (arrived.empty()) return;
    const std::string subject = std::string("ICRC ") + way;
    const auto bad = std::count_if(arrived.begin(), arrived.end(),
                                   [](const auto& one) { return !one.second.icrc_holds; });
    if (bad == 0) return add_ok(findings_, subject, "holds for every packet");
    add_problem(findings_, subject,
                "wrong for " + std::to_string(bad) + " of " + std::to_string(arrived.size()) +
                    " packets: something on the way changes them",
                "look for address translation, or for a device that rewrites headers or payload");
  }

  void judge_path(const char* way, const Arrivals& arrived, std::uint32_t common,
                  const std::string& interface) {
    if (arrived.empty()) return;
    const std::string subject = std::string("path MTU ") + way;
    std::uint32_t largest = 0;
    for (const std::uint32_t mtu : kMtus) {
      if (arrived.contains(mtu)) largest = mtu;
    }
    if (largest >= common) {
      return add_ok(
          findings_, subject,
          "packets of RoCE MTU " + std::to_string(common) + " arrive whole, without fragments");
    }
    const std::string fits = largest == 0 ? "none" : std::to_string(largest);
    add_problem(findings_, subject,
                "the hosts would use RoCE MTU " + std::to_string(common) +
                    ", but the largest that gets through is " + fits + ": longer packets vanish",
                "raise the MTU of what lies between, or lower it on both hosts: ip link set " +
                    interface + " mtu " +
                    std::to_string(largest >= 1024 ? largest + 300 : largest + 100) +
                    ", or tell programs (ib_write_bw -m " + fits + ")");
  }

  void judge_identifications(const Arrivals& there) {
    if (!line_.local_address().is_ipv4_mapped() || there.empty()) return;
    const std::string subject = "IPv4 identifications";
    std::size_t visible = 0;
    std::string changed;
    for (const auto& [sequence, probe] : there) {
      if (!probe.identification || !probe.icrc_holds) continue;
      ++visible;
      if (*probe.identification == probe.covered_identification) continue;
      changed = std::to_string(probe.covered_identification) + " arrives as " +
                std::to_string(*probe.identification);
    }
    if (visible == 0) {
      return add_ok(findings_, subject,
                    "not seen: run `doctor --serve` there as root, or with CAP_NET_RAW, to see "
                    "whether they are changed; it only matters towards hardware");
    }
    if (changed.empty()) return add_ok(findings_, subject, "arrive as they were sent");
    add_warning(findings_, subject,
                "something renumbers them (" + changed +
                    "): peers that run Verbatim accept the packets, hardware adapters drop them",
                "towards hardware: set VERBATIM_GSO=0, and turn off offloads that rewrite packets "
                "(ethtool -K INTERFACE tx-udp-segmentation off)");
  }

  ControlLine& line_;
  ProbeLink& link_;
  std::string greeting_;
  Findings& findings_;
  std::uint64_t nonce_;
  std::uint32_t peer_mtu_ = 0;
};

}  // namespace

void look_at_peer(const PeerToAsk& peer, const std::vector<device::PortInfo>& ports,
                  Findings& findings) {
  if (ports.empty()) return look_at_devices(ports, findings);
  ProbeLink link;
  std::string message;
  if (!link.open(ports, message)) {
    return add_problem(findings, "UDP port 4791", message, "`verbatim doctor` alone says more");
  }
  auto line = ControlLine::connect(peer.host, peer.control_port, message);
  if (!line) {
    return add_problem(
        findings, "peer", message,
        "run `verbatim doctor --serve` there; if it runs, a firewall keeps TCP port " +
            std::to_string(peer.control_port) + " out, or the address is wrong");
  }
  auto greeting = line->receive(kAnswerMs);
  if (!greeting || !greeting->starts_with("verbatim-doctor version=1 ")) {
    return add_problem(findings, "peer",
                       "another program than `verbatim doctor --serve` answers on TCP port " +
                           std::to_string(peer.control_port),
                       "choose another port with --port, on both ends; both need this version");
  }
  PeerCheck(*line, link, std::move(*greeting), findings).run();
}

}  // namespace verbatim::tools

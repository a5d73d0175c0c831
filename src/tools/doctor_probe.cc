// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor_probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_order.h"
#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"
#include "wire/headers/roce_datagram.h"

namespace verbatim::tools {
namespace {

// Below the numbers of queue pairs, so no queue pair takes a probe by mistake.
constexpr std::uint32_t kProbeNumber = 2;
constexpr std::uint64_t kMagic = 0x5642'646f'6374'6f72;  // "VBdoctor"
constexpr std::size_t kNameOctets = 20;                  // magic, nonce, sequence

void store_name(std::span<std::byte> to, const ProbeName& name) {
  store_be_at<std::uint64_t>(to.data(), kMagic);
  store_be_at<std::uint64_t>(to.data() + 8, name.nonce);
  store_be_at<std::uint32_t>(to.data() + 16, name.sequence);
}

/// Nothing when the packet is no probe.
std::optional<ProbeName> name_of(std::span<const std::byte> transport) {
  const auto packet = wire::PacketView::parse(transport);
  if (!packet || packet->payload().size() < kNameOctets) return std::nullopt;
  const std::byte* at = packet->payload().data();
  if (load_be_at<std::uint64_t>(at) != kMagic) return std::nullopt;
  return ProbeName{.nonce = load_be_at<std::uint64_t>(at + 8),
                   .sequence = load_be_at<std::uint32_t>(at + 16)};
}

}  // namespace

Status ProbeLink::open(const std::vector<device::PortInfo>& ports, std::string& message) {
  ports_ = ports;
  std::vector<link::LocalAddress> addresses;
  for (const auto& port : ports) {
    for (const auto& entry : port.gids) {
      addresses.push_back({.gid = entry.gid, .scope = entry.interface_index});
    }
  }
  auto place = shared_.join(addresses, message);
  if (!place) return place.error();
  slot_.emplace(std::move(place->slot));
  number_ = wire::QpNumber{slot_->number() * host::kNumbersPerSlot + kProbeNumber};
  auto opened = link_.open(std::move(place->receivers), slot_->number());
  if (!opened) message = "UDP port 4791 cannot be opened";
  return opened;
}

const device::PortInfo* ProbeLink::device_of(const wire::Gid& address) const noexcept {
  for (const auto& port : ports_) {
    for (const auto& entry : port.gids) {
      if (entry.gid == address) return &port;
    }
  }
  return nullptr;
}

void ProbeLink::put(const Order& order) {
  const std::uint16_t port = source_port(order.from);
  const auto seed = wire::IcrcSeed::roce_v2(order.from, order.to, port);
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
  headers.bth.dest_qp = order.dest_qp;
  headers.bth.psn = wire::Psn(order.name.sequence);
  headers.deth.source_qp = number_;
  std::vector<std::byte> payload(std::max(order.payload_octets, kNameOctets));
  store_name(payload, order.name);
  const link::Frame frame = link_.next_frame();
  const std::size_t room = std::min(frame.octets.size(), link::kFrameOctets);
  if (wire::PacketBuilder::octets_for(headers, payload.size()) > room) return;
  wire::PacketBuilder builder(frame.octets, headers, payload.size(),
                              {.seed = &seed, .ipv4_identification = frame.identification});
  builder.append(payload);
  link_.commit(device::now(), {.source = order.from, .destination = order.to, .source_port = port},
               builder.finish());
}

std::vector<SeenProbe> ProbeLink::take(int patience_ms) {
  std::vector<pollfd> polled;
  for (const int descriptor : link_.descriptors()) {
    polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  (void)::poll(polled.data(), polled.size(), patience_ms);  // receive() shows what has arrived
  std::vector<SeenProbe> seen;
  for (auto burst = link_.receive(device::now()); !burst.empty();
       burst = link_.receive(device::now())) {
    for (const link::Incoming& incoming : burst) {
      const auto seed =
          wire::IcrcSeed::roce_v2(incoming.source, incoming.destination, incoming.source_port);
      incoming.for_each_packet([&](std::span<const std::byte> octets) {
        const auto name = name_of(octets);
        if (!name) return;
        const auto identification = wire::verify_icrc(seed, octets);
        seen.push_back({.name = *name,
                        .source = incoming.source,
                        .destination = incoming.destination,
                        .source_port = incoming.source_port,
                        .octets = octets.size(),
                        .icrc_holds = identification.has_value(),
                        .covered_identification = identification.value_or(std::uint16_t{0})});
      });
    }
  }
  return seen;
}

IdentificationWatch::IdentificationWatch() noexcept
    : descriptor_(::socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP)) {}

IdentificationWatch::~IdentificationWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void IdentificationWatch::take(std::map<ProbeName, std::uint16_t>& identifications) {
  static std::array<std::byte, 1 << 16> datagram;
  constexpr int kMany = 4096;  // packets of other programs arrive as well
  for (int count = 0; sees() && count < kMany; ++count) {
    const ssize_t octets = ::recv(descriptor_, datagram.data(), datagram.size(), 0);
    if (octets <= 0) return;
    const auto roce =
        wire::RoceDatagram::parse(std::span(datagram).first(static_cast<std::size_t>(octets)));
    if (!roce) continue;
    // A train that arrives in one piece has one identification for all packets, which is no
    // evidence.
    if (const auto name = name_of(roce->transport)) {
      identifications.emplace(*name, roce->envelope.ipv4_identification);
    }
  }
}

}  // namespace verbatim::tools

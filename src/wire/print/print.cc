// SPDX-License-Identifier: Apache-2.0
#include "wire/print/print.h"

#include "base/byte_order.h"

namespace verbatim::wire {
namespace {

const char* words_of(Syndrome::Nak code) noexcept {
  switch (code) {
    case Syndrome::Nak::kSequence:
      return "PSN sequence error";
    case Syndrome::Nak::kInvalidRequest:
      return "invalid request";
    case Syndrome::Nak::kRemoteAccess:
      return "remote access error";
    case Syndrome::Nak::kRemoteOperation:
      return "remote operational error";
    case Syndrome::Nak::kInvalidRd:
      return "invalid RD request";
  }
  return nullptr;
}

void append_ack(TextLine& line, std::uint8_t credit_code) noexcept {
  line.text("ACK");
  if (credit_code == Syndrome::kUnlimitedCredits) return;
  line.text(" credits ").decimal(kCreditCodes[credit_code]);
}

/// Milliseconds with two decimals: the table's unit is 10 microseconds.
void append_rnr(TextLine& line, std::uint8_t timer_code) noexcept {
  const std::uint32_t units = kRnrTimerUnits[timer_code];
  line.text("RNR NAK wait ").decimal(units / 100).text(units % 100 < 10 ? ".0" : ".");
  line.decimal(units % 100).text(" ms");
}

void append_nak(TextLine& line, Syndrome syndrome) noexcept {
  line.text("NAK ");
  if (syndrome.is_defined_nak()) {
    line.text(words_of(Syndrome::Nak{syndrome.code()}));
  } else {
    line.text("reserved code ").hex(syndrome.code(), 2);
  }
}

void append_bth(TextLine& line, const BthView& bth) noexcept {
  line.text("  qp ").hex(static_cast<std::uint32_t>(bth.dest_qp()), 6);
  line.text(" psn ").hex(bth.psn().raw(), 6);
  line.text(bth.ack_request() ? " A" : " -").text(bth.solicited() ? "S" : "-");
  if (bth.migrated()) line.text(" migrated");
  if (bth.fecn()) line.text(" fecn");
  if (bth.becn()) line.text(" becn");
  if (bth.pkey() != PKey::kDefault) {
    line.text(" pkey ").hex(static_cast<std::uint16_t>(bth.pkey()), 4);
  }
}

void append_remote(TextLine& line, std::uint64_t address, MemoryKey rkey) noexcept {
  line.text("  va ").hex(address).text(" rkey ").hex(static_cast<std::uint32_t>(rkey));
}

void append_atomic(TextLine& line, const PacketView& packet) noexcept {
  const AtomicEth atomic = packet.atomic_eth();
  append_remote(line, atomic.address, atomic.rkey);
  if (packet.operation() == Operation::kFetchAdd) {
    line.text(" add ").hex(atomic.swap_or_add);
  } else {
    line.text(" compare ").hex(atomic.compare).text(" swap ").hex(atomic.swap_or_add);
  }
}

void append_flush(TextLine& line, const Feth& flush) noexcept {
  line.text("  flush ")
      .text(flush.selectivity == Feth::kRange         ? "range"
            : flush.selectivity == Feth::kWholeRegion ? "region"
                                                      : "reserved");
  if ((flush.placement & Feth::kGlobalVisibility) != 0) line.text(" visible");
  if ((flush.placement & Feth::kPersistence) != 0) line.text(" persistent");
}

/// The immediate in wire order; programs choose its byte order.
void append_immediate(TextLine& line, const ImmDt& header) noexcept {
  std::byte octets[ImmDt::kSize];
  header.emit(octets);
  line.text("  imm ").hex(load_be_at<std::uint32_t>(octets), 8);
}

void append_payload(TextLine& line, const PacketView& packet) noexcept {
  if (packet.info().payload == PayloadRule::kNone) return;
  const auto payload = packet.payload();
  line.text("  payload ").decimal(payload.size());
  if (packet.operation() == Operation::kAtomicWrite && payload.size() == 8) {
    line.text(" value ").hex(load_be_at<std::uint64_t>(payload.data()));
  }
}

void append_headers(TextLine& line, const PacketView& packet) noexcept {
  const OpcodeInfo& info = packet.info();
  if (info.has(OpcodeInfo::kDeth)) {
    const Deth deth = packet.deth();
    line.text("  from qp ").hex(static_cast<std::uint32_t>(deth.source_qp), 6);
    line.text(" qkey ").hex(static_cast<std::uint32_t>(deth.qkey));
  }
  if (info.has(OpcodeInfo::kXrcEth)) {
    line.text("  srq ").hex(static_cast<std::uint32_t>(packet.xrceth().srq), 6);
  }
  if (info.has(OpcodeInfo::kFeth)) append_flush(line, packet.feth());
  if (info.has(OpcodeInfo::kReth)) {
    const Reth reth = packet.reth();
    append_remote(line, reth.address, reth.rkey);
    line.text(" len ").decimal(reth.dma_octets);
  }
  if (info.has(OpcodeInfo::kAtomicEth)) append_atomic(line, packet);
  if (info.has(OpcodeInfo::kAeth)) {
    const Aeth aeth = packet.aeth();
    line.text("  ");
    append(line, aeth.syndrome);
    line.text(" msn ").decimal(aeth.msn);
  }
  if (info.has(OpcodeInfo::kAtomicAckEth)) {
    line.text("  original ").hex(packet.atomic_ack_eth().original);
  }
  if (info.has(OpcodeInfo::kImmDt)) append_immediate(line, packet.imm_dt());
  if (info.has(OpcodeInfo::kIeth)) {
    line.text("  invalidate rkey ").hex(static_cast<std::uint32_t>(packet.ieth().rkey));
  }
}

void append(TextLine& line, const PacketView& packet) noexcept {
  line.text(packet.info().name);
  append_bth(line, packet.bth());
  append_headers(line, packet);
  append_payload(line, packet);
}

void append_transport(TextLine& line, std::span<const std::byte> octets) noexcept {
  const auto packet = PacketView::parse(octets);
  if (packet) return append(line, *packet);
  line.text("malformed (").text(name_of(packet.error())).text("), ");
  line.decimal(octets.size()).text(" octets");
}

void append_ipv4(TextLine& line, const Gid& gid) noexcept {
  for (std::size_t i = 12; i < 16; ++i) line.text(i == 12 ? "" : ".").decimal(gid.octets[i]);
}

struct Run {
  std::size_t first = 8;
  std::size_t count = 0;
};
/// The zero groups that "::" replaces: the longest sequence of two or more, the first of equal
/// ones.
Run longest_zero_run(const std::array<std::uint16_t, 8>& groups) noexcept {
  Run best;
  for (std::size_t i = 0; i < groups.size();) {
    Run run{.first = i, .count = 0};
    while (i < groups.size() && groups[i] == 0) ++i, ++run.count;
    if (run.count > best.count && run.count >= 2) best = run;
    if (run.count == 0) ++i;
  }
  return best;
}

void append_ipv6(TextLine& line, const Gid& gid) noexcept {
  std::array<std::uint16_t, 8> groups;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i] = static_cast<std::uint16_t>((gid.octets[2 * i] << 8) | gid.octets[2 * i + 1]);
  }
  const Run zeroes = longest_zero_run(groups);
  for (std::size_t i = 0; i < groups.size();) {
    if (i == zeroes.first) {
      line.text("::");
      i += zeroes.count;
      continue;
    }
    if (i != 0 && i != zeroes.first + zeroes.count) line.text(":");
    line.bare_hex(groups[i]);
    ++i;
  }
}

}  // namespace

void append(TextLine& line, Syndrome syndrome) noexcept {
  switch (syndrome.kind()) {
    case Syndrome::Kind::kAck:
      return append_ack(line, syndrome.code());
    case Syndrome::Kind::kRnrNak:
      return append_rnr(line, syndrome.code());
    case Syndrome::Kind::kNak:
      return append_nak(line, syndrome);
    case Syndrome::Kind::kReserved:
      line.text("reserved syndrome ").hex(syndrome.raw(), 2);
      return;
  }
}

void append(TextLine& line, const Gid& gid) noexcept {
  if (gid.is_ipv4_mapped()) return append_ipv4(line, gid);
  append_ipv6(line, gid);
}

std::string_view print(const PacketView& packet, std::span<char> to) noexcept {
  TextLine line(to);
  append(line, packet);
  return line.view();
}

std::string_view print(const RoceDatagram& datagram, std::span<char> to) noexcept {
  TextLine line(to);
  const RoceEnvelope& envelope = datagram.envelope;
  append(line, envelope.source);
  line.text(" > ");
  append(line, envelope.destination);
  line.text(" sport ").decimal(envelope.source_port);
  constexpr std::uint8_t kCongestionExperienced = 3;
  if ((envelope.traffic_class & 3) == kCongestionExperienced) line.text(" CE");
  line.text("  ");
  append_transport(line, datagram.transport);
  return line.view();
}

std::string_view print(const NativePacketView& packet, std::span<char> to) noexcept {
  TextLine line(to);
  const LrhView& lrh = packet.lrh();
  line.text("lid ").hex(static_cast<std::uint16_t>(lrh.source()), 4);
  line.text(" > ").hex(static_cast<std::uint16_t>(lrh.destination()), 4);
  line.text(" vl ").decimal(static_cast<std::uint8_t>(lrh.lane()));
  line.text(" sl ").decimal(static_cast<std::uint8_t>(lrh.level()));
  if (const auto& grh = packet.grh()) {
    line.text(" gid ");
    append(line, grh->source());
    line.text(" > ");
    append(line, grh->destination());
  }
  line.text("  ");
  append_transport(line, packet.transport());
  return line.view();
}

std::string_view print_transport(std::span<const std::byte> octets, std::span<char> to) noexcept {
  TextLine line(to);
  append_transport(line, octets);
  return line.view();
}

}  // namespace verbatim::wire

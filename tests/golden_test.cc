// SPDX-License-Identifier: Apache-2.0
// Every packet of tests/golden, which other implementations made or sent: its fields have the
// values beside it, and emitting the parsed values gives the same octets. See
// tests/golden/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "wire/crc/crc32.h"
#include "wire/crc/icrc.h"
#include "wire/crc/vcrc.h"
#include "wire/headers/ethernet.h"
#include "wire/headers/flow_control.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/native_packet.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"
#include "wire/headers/roce_datagram.h"
#include "wire/headers/test_octets.h"
#include "wire/headers/test_packet.h"
#include "wire/print/print.h"

namespace verbatim::wire {
namespace {

using nlohmann::json;
using test::emitted;
using test::hex;
using test::Octets;

json load(const std::string& file) {
  std::ifstream stream(std::string(VB_TESTDATA) + "/golden/" + file);
  json parsed = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(parsed.is_discarded()) << file << " is missing or no JSON";
  return parsed;
}

/// One list of packets of a file, with the number of them that it must have.
json load(const std::string& file, const std::string& list, std::size_t count) {
  json packets = load(file)[list];
  EXPECT_EQ(packets.size(), count) << file;
  return packets;
}

Octets octets_of(const json& packet, const char* key) {
  return hex(packet[key].get<std::string>());
}
Octets octets_of(std::span<const std::byte> octets) { return Octets(octets.begin(), octets.end()); }
Octets joined(Octets front, const Octets& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

std::uint64_t number(const json& value) {
  if (value.is_number()) return value.get<std::uint64_t>();
  return std::stoull(value.get<std::string>(), nullptr, 16);
}

/// "0xffff0a000001" as the last octets of a GID.
Gid gid_of(const json& value) {
  const std::string digits = value.get<std::string>().substr(2);
  return test::gid(std::string(32 - digits.size(), '0') + digits);
}

std::string text_of(const Gid& gid) {
  std::array<char, 64> buffer;
  TextLine line(buffer);
  append(line, gid);
  return std::string(line.view());
}

std::uint32_t raw(Immediate immediate) { return big_endian(static_cast<std::uint32_t>(immediate)); }

using Fields = std::vector<std::pair<const char*, std::uint64_t>>;

/// The header `name`, where the opcode has it, holds `fields` and nothing else that is not
/// reserved.
void compare_header(const json& expected, const char* name, bool present, const Fields& fields) {
  ASSERT_EQ(expected.contains(name), present) << name;
  if (!present) return;
  for (const auto& [key, value] : fields) {
    EXPECT_EQ(number(expected[name][key]), value) << name << '.' << key;
  }
  for (const auto& item : expected[name].items()) {
    const std::string& key = item.key();
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&](const auto& field) { return field.first == key; });
    EXPECT_TRUE(known || key.starts_with("resv") || key == "tver") << name << '.' << key;
  }
}

void compare_bth(const json& expected, const BthView& bth) {
  compare_header(expected, "BTH", true,
                 {{"opcode", static_cast<std::uint64_t>(bth.opcode())},
                  {"se", bth.solicited()},
                  {"m", bth.migrated()},
                  {"padcnt", bth.pad_count()},
                  {"pkey", static_cast<std::uint64_t>(bth.pkey())},
                  {"fecn", bth.fecn()},
                  {"becn", bth.becn()},
                  {"destqp", static_cast<std::uint64_t>(bth.dest_qp())},
                  {"ackreq", bth.ack_request()},
                  {"psn", bth.psn().raw()}});
}

/// BTH, extension headers and payload against the fields beside the packet.
void compare_transport(const json& expected, const PacketView& packet) {
  const OpcodeInfo& info = packet.info();
  const PacketHeaders got = test::headers_of(packet);
  compare_bth(expected, packet.bth());
  compare_header(expected, "DETH", info.has(OpcodeInfo::kDeth),
                 {{"qkey", static_cast<std::uint64_t>(got.deth.qkey)},
                  {"srcqp", static_cast<std::uint64_t>(got.deth.source_qp)}});
  compare_header(expected, "XRCETH", info.has(OpcodeInfo::kXrcEth),
                 {{"xrcsrq", static_cast<std::uint64_t>(got.xrceth.srq)}});
  compare_header(expected, "FETH", info.has(OpcodeInfo::kFeth),
                 {{"sel", got.feth.selectivity}, {"plt", got.feth.placement}});
  compare_header(expected, "RETH", info.has(OpcodeInfo::kReth),
                 {{"va", got.reth.address},
                  {"rkey", static_cast<std::uint64_t>(got.reth.rkey)},
                  {"dmalen", got.reth.dma_octets}});
  compare_header(expected, "AtomicETH", info.has(OpcodeInfo::kAtomicEth),
                 {{"va", got.atomic_eth.address},
                  {"rkey", static_cast<std::uint64_t>(got.atomic_eth.rkey)},
                  {"swap_add", got.atomic_eth.swap_or_add},
                  {"compare", got.atomic_eth.compare}});
  compare_header(expected, "AETH", info.has(OpcodeInfo::kAeth),
                 {{"syndrome", got.aeth.syndrome.raw()}, {"msn", got.aeth.msn}});
  compare_header(expected, "AtomicAckETH", info.has(OpcodeInfo::kAtomicAckEth),
                 {{"orig", got.atomic_ack_eth.original}});
  compare_header(expected, "ImmDt", info.has(OpcodeInfo::kImmDt),
                 {{"imm", raw(got.imm_dt.immediate)}});
  compare_header(expected, "IETH", info.has(OpcodeInfo::kIeth),
                 {{"rkey", static_cast<std::uint64_t>(got.ieth.rkey)}});
  compare_header(expected, "CNPPAD", info.has(OpcodeInfo::kCnpReserved), {});
  if (expected.contains("payload_hex")) {
    EXPECT_EQ(octets_of(packet.payload()), octets_of(expected, "payload_hex"));
  }
}

/// The same packet made from values alone: headers, payload in two pieces, padding, ICRC.
Octets rebuilt(const PacketView& packet, const IcrcSeed& seed, std::uint16_t identification) {
  PacketHeaders headers = test::headers_of(packet);
  const auto payload = packet.payload();
  Octets frame(PacketBuilder::octets_for(headers, payload.size()), std::byte{0xff});
  PacketBuilder builder(frame, headers, payload.size(),
                        {.seed = &seed, .ipv4_identification = identification});
  builder.append(payload.first(payload.size() / 2));
  builder.append(payload.subspan(payload.size() / 2));
  EXPECT_EQ(builder.finish(), frame.size());
  return frame;
}

/// Reserved bits of the BTH that a packet carries and a value cannot.
bool has_reserved_bits(const Octets& transport) {
  return (transport[4] & std::byte{0x3f}) != std::byte{0} ||
         (transport[8] & std::byte{0x7f}) != std::byte{0};
}

/// Puts the reserved bits of `original` into `frame`, and the ICRC that follows from them.
void restore_reserved_bits(Octets& frame, const Octets& original, std::uint32_t start) {
  frame[4] |= original[4] & std::byte{0x3f};
  frame[8] |= original[8] & std::byte{0x7f};
  const auto covered = std::span<const std::byte>(frame).first(frame.size() - kIcrcSize);
  store_icrc(std::span<std::byte>(frame).last<kIcrcSize>(), icrc_over_headers(start, covered));
}

/// What went differently from "values give the same octets again", by packet name.
struct Exceptions {
  std::set<std::string> reserved_bits;
  std::set<std::string> udp_checksum;
  std::set<std::string> wrong_icrc;
};

void check_ip_fields(const json& expected, const RoceEnvelope& envelope, const Octets& headers) {
  const json& ip = expected["ip"];
  EXPECT_EQ(ip["src"], text_of(envelope.source));
  EXPECT_EQ(ip["dst"], text_of(envelope.destination));
  EXPECT_EQ(number(ip["tos_or_tclass"]), envelope.traffic_class);
  EXPECT_EQ(number(ip["ttl_or_hop"]), envelope.hop_limit);
  EXPECT_EQ(ip["version"] == 4, envelope.is_ipv4());
  if (envelope.is_ipv4()) {
    EXPECT_EQ(number(ip["id"]), envelope.ipv4_identification);
    EXPECT_EQ(number(ip["total_length"]), Ipv4View::parse(headers)->total_octets());
    EXPECT_EQ(ip["flags"], "DF");
  } else {
    EXPECT_EQ(number(ip["flow_label"]), envelope.flow_label);
    EXPECT_EQ(number(ip["payload_length"]), Ipv6View::parse(headers)->payload_octets());
  }
  EXPECT_EQ(number(expected["udp"]["sport"]), envelope.source_port);
  EXPECT_EQ(number(expected["udp"]["dport"]), kRoceUdpPort);
}

/// IP and UDP headers from values; a UDP checksum, which we would not send, must be a right one.
void check_ip_octets(const Octets& headers, const RoceDatagram& datagram, const std::string& name,
                     Exceptions& exceptions) {
  Octets again(RoceEnvelope::kMaxOctets, std::byte{0xff});
  again.resize(datagram.envelope.emit(again, datagram.transport.size()));
  const auto udp = UdpView::parse(std::span(headers).last<Udp::kSize>());
  if (udp->checksum() != 0) {
    exceptions.udp_checksum.insert(name);
    auto segment = octets_of(std::span(again).last(Udp::kSize));
    segment.insert(segment.end(), datagram.transport.begin(), datagram.transport.end());
    const auto sum = udp_checksum(datagram.envelope.source, datagram.envelope.destination, segment);
    store_be_at<std::uint16_t>(again.data() + again.size() - 2, sum);
  }
  EXPECT_EQ(again, headers);
}

void check_ethernet(const json& packet, const Octets& datagram, bool ipv4) {
  const Octets octets = octets_of(packet, "frame_hex");
  const auto frame = EthernetView::parse(octets);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->type(), ipv4 ? EtherType::kIpv4 : EtherType::kIpv6);
  EXPECT_EQ(octets_of(frame->payload()), datagram);
  EXPECT_EQ(joined(emitted(frame->value()), datagram), octets);
}

/// The transport packet behind `seed`: read, compared, rebuilt, verified.
void check_transport(const json& packet, const Octets& transport, const IcrcSeed& seed,
                     std::uint16_t identification, Exceptions& exceptions) {
  const std::string name = packet["name"];
  const auto view = PacketView::parse(transport);
  ASSERT_TRUE(view) << name_of(view.error());
  compare_transport(packet["fields"], *view);
  EXPECT_EQ(number(packet["opcode"]), static_cast<std::uint64_t>(view->opcode()));
  EXPECT_EQ(octets_of(view->icrc()), octets_of(packet, "icrc_wire_hex"));

  Octets again = rebuilt(*view, seed, identification);
  ASSERT_EQ(again.size(), transport.size());
  if (has_reserved_bits(transport)) {
    exceptions.reserved_bits.insert(name);
    restore_reserved_bits(again, transport, seed.start(transport.size(), identification));
  }
  // rdma_rxe gets the ICRC of a FLUSH wrong; whatever else differs is our mistake.
  const bool icrc_differs = !std::equal(again.end() - 4, again.end(), transport.end() - 4);
  if (icrc_differs) exceptions.wrong_icrc.insert(name);
  const auto but_icrc = [](const Octets& octets) {
    return Octets(octets.begin(), octets.end() - 4);
  };
  EXPECT_EQ(but_icrc(again), but_icrc(transport));
  if (!icrc_differs) {
    EXPECT_EQ(verify_icrc(seed, transport), identification);
  }
}

void check_roce_v2(const json& packet, Exceptions& exceptions) {
  const Octets headers = octets_of(packet, "ip_udp_hex");
  const Octets transport = octets_of(packet, "udp_payload_hex");
  const Octets datagram = joined(headers, transport);
  const auto found = RoceDatagram::parse(datagram);
  ASSERT_TRUE(found) << name_of(found.error());
  ASSERT_EQ(octets_of(found->transport), transport);
  const RoceEnvelope& envelope = found->envelope;
  EXPECT_EQ(packet["encap"], envelope.is_ipv4() ? "rocev2-ipv4" : "rocev2-ipv6");

  check_ip_octets(headers, *found, packet["name"], exceptions);
  if (packet["fields"].contains("ip")) check_ip_fields(packet["fields"], envelope, headers);
  if (packet.contains("frame_hex")) check_ethernet(packet, datagram, envelope.is_ipv4());
  const IcrcSeed seed =
      IcrcSeed::roce_v2(envelope.source, envelope.destination, envelope.source_port);
  check_transport(packet, transport, seed, envelope.ipv4_identification, exceptions);

  std::array<char, kPrintedPacketMax> line;
  EXPECT_EQ(print(*found, line).find("malformed"), std::string_view::npos);
}

Exceptions check_all_roce_v2(const json& packets) {
  Exceptions exceptions;
  for (const json& packet : packets) {
    SCOPED_TRACE(packet["name"].get<std::string>());
    check_roce_v2(packet, exceptions);
  }
  return exceptions;
}

using Names = std::set<std::string>;

TEST(Golden, RoceV2PacketsSurviveParsingAndRebuilding) {
  const Exceptions found = check_all_roce_v2(load("rocev2.json", "vectors", 425));
  EXPECT_EQ(found.reserved_bits,
            (Names{"mask-resv6-v4", "mask-resv6-v6", "cover-resv7-v4", "cover-resv7-v6"}));
  EXPECT_EQ(found.udp_checksum, (Names{"mask-udpsum-v4", "mask-udpsum-v6"}));
  EXPECT_EQ(found.wrong_icrc, Names{});
}

TEST(Golden, ConnectionManagementPacketsSurviveParsingAndRebuilding) {
  const json packets = load("cm.json", "vectors", 38);
  const Exceptions found = check_all_roce_v2(packets);
  EXPECT_EQ(found.reserved_bits, Names{});
  EXPECT_EQ(found.udp_checksum, Names{});
  EXPECT_EQ(found.wrong_icrc, Names{});
  for (const json& packet : packets) {
    EXPECT_EQ(packet["mad_hex"], packet["fields"]["payload_hex"]) << packet["name"];
  }
}

/// Names of the packets whose ICRC the driver is known to compute wrongly.
Names flushes_of(const json& packets) {
  Names names;
  for (const json& packet : packets) {
    const auto opcode = Opcode{static_cast<std::uint8_t>(number(packet["opcode"]))};
    if (operation_of(opcode) == Operation::kFlush) names.insert(packet["name"]);
  }
  return names;
}

TEST(Golden, WhatLinuxSentSurvivesParsingAndRebuilding) {
  for (const json& packets :
       {load("rxe_capture.json", "vectors", 151), load("rxe_capture.json", "cm_exchange", 28)}) {
    const Exceptions found = check_all_roce_v2(packets);
    EXPECT_EQ(found.reserved_bits, Names{});
    EXPECT_EQ(found.udp_checksum, Names{});
    EXPECT_EQ(found.wrong_icrc, flushes_of(packets));
  }
}

// The masked octets that the generator wrote down give the ICRC that it computed from them.
TEST(Golden, TheIcrcIsTheCrcOfItsMaskedInput) {
  std::size_t checked = 0;
  for (const json& packets :
       {load("rocev2.json", "vectors", 425), load("cm.json", "vectors", 38)}) {
    for (const json& packet : packets) {
      std::array<std::byte, kIcrcSize> icrc{};
      store_icrc(icrc, crc32_update(kCrc32Preset, octets_of(packet, "icrc_input_hex")));
      EXPECT_EQ(octets_of(icrc), octets_of(packet, "icrc_wire_hex")) << packet["name"];
      ++checked;
    }
  }
  EXPECT_EQ(checked, 425U + 38U);
}

// Families of packets that differ from one base in one field, which the ICRC covers or does not.
TEST(Golden, TheIcrcChangesWithCoveredFieldsAlone) {
  const json packets = load("rocev2.json", "vectors", 425);
  const auto icrc_of = [&](const std::string& name) {
    const auto at = std::find_if(packets.begin(), packets.end(),
                                 [&](const json& packet) { return packet["name"] == name; });
    return at == packets.end() ? Octets() : octets_of(*at, "icrc_wire_hex");
  };
  std::size_t masked = 0;
  std::size_t covered = 0;
  for (const json& packet : packets) {
    const std::string name = packet["name"];
    const bool is_mask = name.starts_with("mask-");
    if (!is_mask && !name.starts_with("cover-")) continue;
    const Octets base = icrc_of(name.ends_with("v4") ? "mask-base-v4" : "mask-base-v6");
    EXPECT_EQ(octets_of(packet, "icrc_wire_hex") == base, is_mask) << name;
    ++(is_mask ? masked : covered);
  }
  EXPECT_EQ(masked, 17U);
  EXPECT_EQ(covered, 15U);
}

void compare_grh(const json& expected, const Grh& grh) {
  EXPECT_EQ(number(expected["tclass"]), grh.traffic_class);
  EXPECT_EQ(number(expected["paylen"]), grh.payload_octets);
  EXPECT_EQ(number(expected["nxthdr"]), grh.next_header);
  EXPECT_EQ(number(expected["hoplmt"]), grh.hop_limit);
  EXPECT_EQ(gid_of(expected["sgid"]), grh.source);
  EXPECT_EQ(gid_of(expected["dgid"]), grh.destination);
  if (expected.contains("flowlabel")) {
    EXPECT_EQ(number(expected["flowlabel"]), grh.flow_label);
  }
}

TEST(Golden, RoceV1PacketsSurviveParsingAndRebuilding) {
  Exceptions exceptions;
  for (const json& packet : load("rocev1.json", "vectors", 7)) {
    SCOPED_TRACE(packet["name"].get<std::string>());
    const Octets frame_octets = octets_of(packet, "frame_hex");
    const auto frame = EthernetView::parse(frame_octets);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->type(), EtherType::kRoceV1);
    const auto grh = GrhView::parse(frame->payload());
    ASSERT_TRUE(grh);
    compare_grh(packet["fields"]["GRH"], grh->value());
    const Octets transport = octets_of(frame->payload().subspan(Grh::kSize));
    EXPECT_EQ(transport, octets_of(packet, "transport_hex"));
    EXPECT_EQ(emitted(grh->value()), octets_of(packet, "grh_hex"));
    EXPECT_EQ(grh->payload_octets(), transport.size());
    check_transport(packet, transport, IcrcSeed::roce_v1(grh->source(), grh->destination()), 0,
                    exceptions);
  }
  EXPECT_EQ(exceptions.reserved_bits, Names{});
  EXPECT_EQ(exceptions.wrong_icrc, Names{});
}

void compare_lrh(const json& expected, const LrhView& lrh) {
  compare_header(expected, "LRH", true,
                 {{"vl", static_cast<std::uint64_t>(lrh.lane())},
                  {"lver", 0},
                  {"sl", static_cast<std::uint64_t>(lrh.level())},
                  {"lnh", static_cast<std::uint64_t>(lrh.next_header())},
                  {"dlid", static_cast<std::uint64_t>(lrh.destination())},
                  {"pktlen", lrh.packet_words()},
                  {"slid", static_cast<std::uint64_t>(lrh.source())}});
}

/// Every octet of a native packet from values: LRH, GRH, headers, payload, padding, both CRCs.
Octets rebuilt_native(const NativePacketView& native, const PacketView& packet) {
  const PacketHeaders headers = test::headers_of(packet);
  Octets frame = emitted(native.lrh().value());
  if (native.grh()) frame = joined(frame, emitted(native.grh()->value()));
  Octets transport(headers.octet_count(), std::byte{0xff});
  headers.emit(transport);
  frame = joined(joined(frame, transport), octets_of(packet.payload()));
  frame.resize(frame.size() + headers.bth.pad_count);
  std::array<std::byte, kIcrcSize> icrc{};
  store_icrc(icrc, icrc_of_native(frame));
  frame = joined(frame, octets_of(icrc));
  return joined(frame, octets_of(vcrc_of(frame)));
}

void check_native(const json& packet) {
  const Octets octets = octets_of(packet, "packet_hex");
  const auto native = NativePacketView::parse(octets);
  ASSERT_TRUE(native) << name_of(native.error());
  EXPECT_EQ(packet["encap"], native->grh() ? "ib-global" : "ib-local");
  compare_lrh(packet["fields"], native->lrh());
  ASSERT_EQ(packet["fields"].contains("GRH"), native->grh().has_value());
  if (native->grh()) compare_grh(packet["fields"]["GRH"], native->grh()->value());
  EXPECT_EQ(octets_of(native->vcrc()), octets_of(packet, "vcrc_wire_hex"));

  const auto view = PacketView::parse(native->transport());
  ASSERT_TRUE(view) << name_of(view.error());
  compare_transport(packet["fields"], *view);
  EXPECT_EQ(octets_of(view->icrc()), octets_of(packet, "icrc_wire_hex"));
  EXPECT_EQ(rebuilt_native(*native, *view), octets);
}

void check_flow_control(const json& packet) {
  const Octets octets = octets_of(packet, "packet_hex");
  const auto view = FlowControlView::parse(octets);
  ASSERT_TRUE(view) << name_of(view.error());
  const json& fields = packet["fields"];
  EXPECT_EQ(number(fields["op"]), static_cast<std::uint64_t>(view->op()));
  EXPECT_EQ(number(fields["fctbs"]), view->blocks_sent());
  EXPECT_EQ(number(fields["vl"]), static_cast<std::uint64_t>(view->lane()));
  EXPECT_EQ(number(fields["fccl"]), view->credit_limit());
  EXPECT_EQ(emitted(view->value()), octets);
}

TEST(Golden, NativePacketsSurviveParsingAndRebuilding) {
  std::size_t flow_control = 0;
  std::size_t data = 0;
  for (const json& packet : load("ib_native.json", "vectors", 142)) {
    SCOPED_TRACE(packet["name"].get<std::string>());
    if (packet["encap"] == "ib-link-flow-control") {
      check_flow_control(packet);
      ++flow_control;
    } else {
      check_native(packet);
      ++data;
    }
  }
  EXPECT_EQ(flow_control, 3U);
  EXPECT_EQ(data, 139U);
}

}  // namespace
}  // namespace verbatim::wire

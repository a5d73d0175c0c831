// SPDX-License-Identifier: Apache-2.0
// Every CM message of tests/golden, which other implementations made or sent: its fields have
// the values beside it, all others are zero, and emitting the parsed message gives the same octets.
// See tests/golden/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <variant>

#include "wire/cm/cm_message.h"
#include "wire/cm/ip_cm_header.h"
#include "wire/headers/packet.h"
#include "wire/headers/smp.h"
#include "wire/headers/test_octets.h"
#include "wire/print/text_line.h"

namespace verbatim::wire {
namespace {

using nlohmann::json;
using test::emitted;
using test::hex;

json load(const std::string& file, const std::string& list, std::size_t count) {
  std::ifstream stream(std::string(VB_TESTDATA) + "/golden/" + file);
  json parsed = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(parsed.is_discarded()) << file << " is missing or no JSON";
  EXPECT_EQ(parsed[list].size(), count) << file;
  return parsed[list];
}

/// Hexadecimal digits without "0x" and leading zeroes: numbers of any width compare as text.
std::string shortest(const std::string& digits) {
  const auto first = digits.find_first_not_of("0x");
  return first == std::string::npos ? "0" : digits.substr(first);
}

template <typename Number>
requires(std::is_enum_v<Number> || std::is_integral_v<Number>) std::string text(Number number) {
  std::array<char, 32> buffer;
  TextLine line(buffer);
  line.bare_hex(static_cast<std::uint64_t>(number));
  return shortest(std::string(line.view()));
}
std::string text(std::span<const std::byte> octets) {
  std::string digits;
  for (const std::byte octet : octets) {
    digits += "0123456789abcdef"[std::to_integer<unsigned>(octet) >> 4];
    digits += "0123456789abcdef"[std::to_integer<unsigned>(octet) & 15];
  }
  return shortest(digits);
}
std::string text(const Gid& gid) { return text(std::as_bytes(std::span(gid.octets))); }

using Fields = std::map<std::string, std::string>;

template <typename Message>
Fields ids_of(const Message& message) {
  return {{"local_comm_id", text(message.local_comm_id)},
          {"remote_comm_id", text(message.remote_comm_id)}};
}

Fields path_fields(const std::string& which, const CmPath& path) {
  return {{which + "_local_lid", text(path.local_lid)},
          {which + "_remote_lid", text(path.remote_lid)},
          {which + "_local_gid", text(path.local_gid)},
          {which + "_remote_gid", text(path.remote_gid)},
          {which + "_flow_label", text(path.flow_label)},
          {which + "_packet_rate", text(path.packet_rate)},
          {which + "_traffic_class", text(path.traffic_class)},
          {which + "_hop_limit", text(path.hop_limit)},
          {which + "_sl", text(path.level)},
          {which + "_subnet_local", text(path.subnet_local)},
          {which + "_local_ack_timeout", text(path.local_ack_timeout)}};
}

Fields fields_of(const CmReq& req) {
  Fields fields{{"local_comm_id", text(req.local_comm_id)},
                {"vendor_id", text(req.ece.vendor_id)},
                {"service_id", text(req.service_id)},
                {"local_ca_guid", text(req.local_ca_guid)},
                {"local_qkey", text(req.local_qkey)},
                {"local_qpn", text(req.local_qpn)},
                {"responder_resources", text(req.responder_resources)},
                {"local_eecn", text(req.local_eecn)},
                {"initiator_depth", text(req.initiator_depth)},
                {"remote_eecn", text(req.remote_eecn)},
                {"remote_cm_response_timeout", text(req.remote_cm_response_timeout)},
                {"transport_service_type", text(req.transport)},
                {"end_to_end_flow_control", text(req.end_to_end_flow_control)},
                {"starting_psn", text(req.starting_psn.raw())},
                {"local_cm_response_timeout", text(req.local_cm_response_timeout)},
                {"retry_count", text(req.retry_count)},
                {"pkey", text(req.pkey)},
                {"path_mtu", text(req.path_mtu)},
                {"rdc_exists", text(req.rdc_exists)},
                {"rnr_retry_count", text(req.rnr_retry_count)},
                {"max_cm_retries", text(req.max_cm_retries)},
                {"srq", text(req.uses_srq)},
                {"extended_transport_type", text(req.extended_transport)},
                {"sap_supported", text(req.sap_supported)}};
  fields.merge(path_fields("primary", req.primary));
  fields.merge(path_fields("alternate", req.alternate));
  return fields;
}

Fields fields_of(const CmRep& rep) {
  Fields fields{{"local_qkey", text(rep.local_qkey)},
                {"local_qpn", text(rep.local_qpn)},
                {"vendor_id_h", text(rep.ece.vendor_id >> 16)},
                {"local_eecn", text(rep.local_eecn)},
                {"vendor_id_m", text((rep.ece.vendor_id >> 8) & 0xff)},
                {"starting_psn", text(rep.starting_psn.raw())},
                {"vendor_id_l", text(rep.ece.vendor_id & 0xff)},
                {"responder_resources", text(rep.responder_resources)},
                {"initiator_depth", text(rep.initiator_depth)},
                {"target_ack_delay", text(rep.target_ack_delay)},
                {"failover_accepted", text(rep.failover)},
                {"end_to_end_flow_control", text(rep.end_to_end_flow_control)},
                {"rnr_retry_count", text(rep.rnr_retry_count)},
                {"srq", text(rep.uses_srq)},
                {"local_ca_guid", text(rep.local_ca_guid)}};
  fields.merge(ids_of(rep));
  return fields;
}

Fields fields_of(const CmRtu& rtu) { return ids_of(rtu); }
Fields fields_of(const CmDrep& drep) { return ids_of(drep); }

Fields fields_of(const CmDreq& dreq) {
  Fields fields{{"remote_qpn", text(dreq.remote_qpn)}};
  fields.merge(ids_of(dreq));
  return fields;
}

Fields fields_of(const CmRej& rej) {
  Fields fields{{"message_rejected", text(rej.rejected)},
                {"rejected_info_length", text(rej.info_octets)},
                {"reason", text(rej.reason)},
                {"ari", text(rej.info_field)}};
  fields.merge(ids_of(rej));
  return fields;
}

Fields fields_of(const CmMra& mra) {
  Fields fields{{"message_mraed", text(mra.received)},
                {"service_timeout", text(mra.service_timeout)}};
  fields.merge(ids_of(mra));
  return fields;
}

Fields fields_of(const CmLap& lap) {
  Fields fields{{"remote_qpn", text(lap.remote_qpn)},
                {"remote_cm_response_timeout", text(lap.remote_cm_response_timeout)}};
  fields.merge(path_fields("alternate", lap.alternate));
  fields.merge(ids_of(lap));
  return fields;
}

Fields fields_of(const CmApr& apr) {
  Fields fields{{"info_length", text(apr.info_octets)},
                {"ap_status", text(apr.status)},
                {"info", text(apr.info_field)}};
  fields.merge(ids_of(apr));
  return fields;
}

Fields fields_of(const CmSidrReq& req) {
  return {{"request_id", text(req.request_id)},
          {"pkey", text(req.pkey)},
          {"service_id", text(req.service_id)}};
}

Fields fields_of(const CmSidrRep& rep) {
  return {{"request_id", text(rep.request_id)},
          {"status", text(rep.status)},
          {"info_length", text(rep.info_octets)},
          {"vendor_id_h", text(rep.ece.vendor_id >> 8)},
          {"qpn", text(rep.qpn)},
          {"vendor_id_l", text(rep.ece.vendor_id & 0xff)},
          {"service_id", text(rep.service_id)},
          {"qkey", text(rep.qkey)},
          {"info", text(rep.info_field)}};
}

std::uint32_t ece_options_of(const CmMessage& message) {
  return std::visit(
      [](const auto& which) -> std::uint32_t {
        if constexpr (requires { which.ece; }) return which.ece.options;
        return 0;
      },
      message);
}

/// What is listed has the listed value, and what is not is zero.
void compare_fields(const json& expected, const Fields& got) {
  for (const auto& [name, value] : expected.items()) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(got.at(name), shortest(value.get<std::string>())) << name;
  }
  for (const auto& [name, value] : got) {
    if (!expected.contains(name)) {
      EXPECT_EQ(value, "0") << name;
    }
  }
}

void compare_private_data(const json& cm, const CmMessage& message) {
  if (!cm.contains("private_hex")) return;
  std::visit(
      [&](const auto& which) {
        auto expected = hex(cm["private_hex"].get<std::string>());
        ASSERT_LE(expected.size(), which.private_data.size());
        expected.resize(which.private_data.size());
        EXPECT_TRUE(std::ranges::equal(expected, which.private_data));
      },
      message);
}

void check_message(const json& cm, std::span<const std::byte> octets) {
  const auto mad = MadView::parse(octets);
  ASSERT_TRUE(mad);
  const auto message = parse_cm_message(*mad);
  ASSERT_TRUE(message);
  EXPECT_EQ(name_of(attribute_of(*message)), cm["kind"].get<std::string>());
  EXPECT_EQ(text(transaction_of(*message)), shortest(cm["tid"].get<std::string>()));
  EXPECT_EQ(text(ece_options_of(*message)), shortest(cm.value("attr_mod", "0x0")));
  compare_fields(cm["fields"], std::visit([](const auto& m) { return fields_of(m); }, *message));
  compare_private_data(cm, *message);

  std::array<std::byte, Mad::kSize> again;
  again.fill(std::byte{0xff});
  emit(*message, again);
  EXPECT_TRUE(std::ranges::equal(again, octets));
}

TEST(GoldenCm, EveryGeneratedMessageIsUnderstoodAndRebuilt) {
  std::set<std::string> kinds;
  for (const json& packet : load("cm.json", "vectors", 38)) {
    SCOPED_TRACE(packet["name"].get<std::string>());
    check_message(packet["cm"], hex(packet["mad_hex"].get<std::string>()));
    kinds.insert(packet["cm"]["kind"].get<std::string>());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<CmMessage>) << "one of each at least";
}

TEST(GoldenCm, EveryMessageThatLinuxSentIsUnderstoodAndRebuilt) {
  for (const json& packet : load("rxe_capture.json", "cm_exchange", 28)) {
    SCOPED_TRACE(packet["name"].get<std::string>());
    const auto octets = hex(packet["udp_payload_hex"].get<std::string>());
    const auto view = PacketView::parse(octets);
    ASSERT_TRUE(view);
    check_message(packet["cm"], view->payload());
  }
}

/// The IP CM header of a request is made of what stands around it: the GIDs of the path and, as
/// ports, whatever the sender took.
void check_addresses(const CmReq& req) {
  ASSERT_TRUE(service_port_of(req.service_id));
  const auto header = IpCmHeader::parse(req.private_data);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, req.primary.local_gid);
  EXPECT_EQ(header->destination, req.primary.remote_gid);
  const auto made = IpCmHeader::between(header->source, header->destination, header->source_port);
  EXPECT_EQ(*header, made);
  EXPECT_TRUE(
      std::ranges::equal(emitted(made), std::span(req.private_data).first<IpCmHeader::kSize>()));
}

TEST(GoldenCm, RequestsOfLinuxCarryTheAddressesOfTheirPath) {
  int requests = 0;
  for (const json& packet : load("rxe_capture.json", "cm_exchange", 28)) {
    SCOPED_TRACE(packet["name"].get<std::string>());
    const auto octets = hex(packet["udp_payload_hex"].get<std::string>());
    const auto view = PacketView::parse(octets);
    ASSERT_TRUE(view);
    const auto mad = MadView::parse(view->payload());
    ASSERT_TRUE(mad);
    const auto req = CmReq::parse(*mad);
    if (!req) continue;
    check_addresses(*req);
    ++requests;
  }
  EXPECT_GT(requests, 0);
}

TEST(GoldenSmp, TheDirectedRoutePacketIsUnderstoodAndRebuilt) {
  for (const json& packet : load("ib_native.json", "vectors", 142)) {
    if (packet["name"] != "dr-smp-get-nodeinfo-hop0") continue;
    const auto octets = hex(packet["fields"]["payload_hex"].get<std::string>());
    const auto mad = MadView::parse(octets);
    ASSERT_TRUE(mad);
    const auto smp = SmpView::parse(*mad);
    ASSERT_TRUE(smp);
    EXPECT_EQ(smp->value(), (Smp{.route = SmpRoute::kDirected,
                                 .method = MadMethod::kGet,
                                 .transaction = TransactionId{0x1234},
                                 .attribute = SmpAttribute::kNodeInfo,
                                 .dr_source = Lid::kPermissive,
                                 .dr_destination = Lid::kPermissive}));
    EXPECT_EQ(emitted(smp->value()), octets);
    return;
  }
  FAIL() << "it is not there";
}

}  // namespace
}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#include "wire/print/cm_print.h"

#include <cstdint>
#include <variant>

#include "wire/cm/ip_cm_header.h"
#include "wire/print/print.h"
#include "wire/print/text_line.h"

namespace verbatim::wire {
namespace {

template <typename Id>
void append_id(TextLine& line, std::string_view label, Id id) noexcept {
  line.text(label).hex(static_cast<std::uint64_t>(id), 8);
}

template <typename Message>
void append_ids(TextLine& line, const Message& message) noexcept {
  append_id(line, "  comm ", message.local_comm_id);
  append_id(line, " peer ", message.remote_comm_id);
}

void append_qp(TextLine& line, QpNumber qpn) noexcept {
  line.text(" qp ").hex(static_cast<std::uint32_t>(qpn), 6);
}

void append_service(TextLine& line, ServiceId id) noexcept {
  line.text(" service ").hex(static_cast<std::uint64_t>(id));
  if (const auto service = service_port_of(id)) {
    line.text(" (").text(name_of(service->space)).text(" port ").decimal(service->port).text(")");
  }
}

/// A number from the wire, and its name where it has one.
template <typename Enum>
void append_named(TextLine& line, std::string_view label, Enum value) noexcept {
  line.text(label).decimal(static_cast<std::uint64_t>(value));
  line.text(" (").text(name_of(value)).text(")");
}

void append_info(TextLine& line, std::span<const std::byte> info) noexcept {
  if (!info.empty()) line.text(" info ").decimal(info.size()).text(" octets");
}

void append_from_to(TextLine& line, const Gid& source, const Gid& destination) noexcept {
  line.text("  from ");
  append(line, source);
  line.text(" to ");
  append(line, destination);
}

/// Whether a request of this service begins its private data with addresses. In the IB port space
/// it may or may not, and the message does not show it.
bool has_ip_cm_header(ServiceId id) noexcept {
  const auto service = service_port_of(id);
  return service && service->space != PortSpace::kIb;
}

/// False, and nothing written, where there are no addresses in the private data.
bool append_ip_addresses(TextLine& line, ServiceId id,
                         std::span<const std::byte> private_data) noexcept {
  if (!has_ip_cm_header(id)) return false;
  const auto header = IpCmHeader::parse(private_data);
  if (!header) return false;
  line.text("  from ");
  append(line, header->source);
  line.text(" port ").decimal(header->source_port).text(" to ");
  append(line, header->destination);
  return true;
}

const char* name_of(CmTransport transport, CmExtendedTransport extended) noexcept {
  switch (transport) {
    case CmTransport::kRc:
      return "RC";
    case CmTransport::kUc:
      return "UC";
    case CmTransport::kRd:
      return "RD";
    case CmTransport::kExtended:
      return extended == CmExtendedTransport::kXrc ? "XRC" : "extended";
  }
  return "?";
}

const char* name_of(CmRej::Rejected rejected) noexcept {
  switch (rejected) {
    case CmRej::Rejected::kReq:
      return "REQ";
    case CmRej::Rejected::kRep:
      return "REP";
    case CmRej::Rejected::kOther:
      return "other";
  }
  return "?";
}

const char* name_of(CmMra::Received received) noexcept {
  switch (received) {
    case CmMra::Received::kReq:
      return "REQ";
    case CmMra::Received::kRep:
      return "REP";
    case CmMra::Received::kLap:
      return "LAP";
  }
  return "?";
}

void append_mtu(TextLine& line, PathMtu mtu) noexcept {
  if (mtu >= PathMtu::k256 && mtu <= PathMtu::k4096) {
    line.text(" mtu ").decimal(octets_of(mtu));
  } else {
    line.text(" mtu code ").decimal(static_cast<std::uint8_t>(mtu));
  }
}

void append_ece(TextLine& line, const Ece& ece) noexcept {
  if (ece == Ece{}) return;
  line.text("  ece vendor ").hex(ece.vendor_id, 6).text(" options ").hex(ece.options);
}

void append_body(TextLine& line, const CmReq& req) noexcept {
  append_id(line, "  comm ", req.local_comm_id);
  append_service(line, req.service_id);
  line.text("  ").text(name_of(req.transport, req.extended_transport));
  append_qp(line, req.local_qpn);
  line.text(" psn ").hex(req.starting_psn.raw(), 6);
  append_mtu(line, req.path_mtu);
  line.text(" resources ").decimal(req.responder_resources);
  line.text(" depth ").decimal(req.initiator_depth);
  line.text(" retry ").decimal(req.retry_count).text(" rnr ").decimal(req.rnr_retry_count);
  if (req.uses_srq) line.text(" srq");
  if (req.pkey != PKey::kDefault) line.text(" pkey ").hex(static_cast<std::uint16_t>(req.pkey), 4);
  if (!append_ip_addresses(line, req.service_id, req.private_data)) {
    append_from_to(line, req.primary.local_gid, req.primary.remote_gid);
  }
  if (req.alternate.exists()) line.text(" alternate path");
  append_ece(line, req.ece);
}

void append_body(TextLine& line, const CmRep& rep) noexcept {
  append_ids(line, rep);
  line.text(" ");
  append_qp(line, rep.local_qpn);
  if (rep.local_eecn != 0) line.text(" eec ").hex(rep.local_eecn, 6);
  line.text(" psn ").hex(rep.starting_psn.raw(), 6);
  line.text(" resources ").decimal(rep.responder_resources);
  line.text(" depth ").decimal(rep.initiator_depth);
  line.text(" rnr ").decimal(rep.rnr_retry_count);
  if (rep.uses_srq) line.text(" srq");
  append_ece(line, rep.ece);
}

void append_body(TextLine& line, const CmRtu& rtu) noexcept { append_ids(line, rtu); }
void append_body(TextLine& line, const CmDrep& drep) noexcept { append_ids(line, drep); }

void append_body(TextLine& line, const CmDreq& dreq) noexcept {
  append_ids(line, dreq);
  line.text(" ");
  append_qp(line, dreq.remote_qpn);
}

void append_body(TextLine& line, const CmRej& rej) noexcept {
  append_ids(line, rej);
  line.text("  of ").text(name_of(rej.rejected));
  append_named(line, " reason ", rej.reason);
  append_info(line, rej.info());
}

void append_body(TextLine& line, const CmMra& mra) noexcept {
  append_ids(line, mra);
  line.text("  of ").text(name_of(mra.received));
  line.text(" timeout code ").decimal(mra.service_timeout);
}

void append_body(TextLine& line, const CmLap& lap) noexcept {
  append_ids(line, lap);
  line.text(" ");
  append_qp(line, lap.remote_qpn);
  append_from_to(line, lap.alternate.local_gid, lap.alternate.remote_gid);
}

void append_body(TextLine& line, const CmApr& apr) noexcept {
  append_ids(line, apr);
  append_named(line, "  status ", apr.status);
  append_info(line, apr.info());
}

void append_body(TextLine& line, const CmSidrReq& req) noexcept {
  append_id(line, "  request ", req.request_id);
  append_service(line, req.service_id);
  (void)append_ip_addresses(line, req.service_id, req.private_data);  // none is no mistake
}

void append_body(TextLine& line, const CmSidrRep& rep) noexcept {
  append_id(line, "  request ", rep.request_id);
  append_service(line, rep.service_id);
  append_named(line, "  status ", rep.status);
  append_qp(line, rep.qpn);
  line.text(" qkey ").hex(static_cast<std::uint32_t>(rep.qkey));
  append_info(line, rep.info());
  append_ece(line, rep.ece);
}

void append_transaction(TextLine& line, TransactionId transaction) noexcept {
  line.text("  tid ").hex(static_cast<std::uint64_t>(transaction));
}

void append(TextLine& line, const CmMessage& message) noexcept {
  line.text("CM ").text(name_of(attribute_of(message)));
  std::visit([&](const auto& which) { append_body(line, which); }, message);
  append_transaction(line, transaction_of(message));
}

void append(TextLine& line, const MadHeader& header) noexcept {
  line.text("MAD  class ").hex(static_cast<std::uint8_t>(header.mgmt_class), 2);
  line.text(" version ").decimal(header.class_version);
  line.text(" method ").hex(static_cast<std::uint8_t>(header.method), 2);
  line.text(" attribute ").hex(header.attribute_id, 4);
  line.text(" modifier ").hex(header.attribute_modifier);
  line.text(" status ").hex(header.status, 4);
  append_transaction(line, header.transaction);
}

}  // namespace

std::string_view print(const CmMessage& message, std::span<char> to) noexcept {
  TextLine line(to);
  append(line, message);
  return line.view();
}

std::string_view print_mad(std::span<const std::byte> octets, std::span<char> to) noexcept {
  TextLine line(to);
  const auto mad = MadView::parse(octets);
  if (!mad) {
    line.text("malformed (").text(name_of(mad.error())).text("), ");
    line.decimal(octets.size()).text(" octets");
    return line.view();
  }
  if (const auto message = parse_cm_message(*mad)) {
    append(line, *message);
  } else {
    append(line, mad->header());
  }
  return line.view();
}

}  // namespace verbatim::wire

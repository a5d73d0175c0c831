// SPDX-License-Identifier: Apache-2.0
// Names of numbers in management datagrams (IBA Vol 1, chapters 12 to 16): umad_class_str and its
// like. They are those of libibumad, since programs print and compare them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "umad/border.h"

namespace verbatim::umad {
namespace {

struct Name {
  std::uint16_t number;
  const char* text;
};

const char* name_in(std::span<const Name> names, std::uint16_t number, const char* otherwise) {
  const auto found = std::ranges::find(names, number, &Name::number);
  return found != names.end() ? found->text : otherwise;
}

enum Class : std::uint8_t {
  kSubnetLidRouted = 0x01,
  kSubnetAdministration = 0x03,
  kConnectionManagement = 0x07,
  kSubnetDirectedRoute = 0x81,
};

constexpr Name kClasses[] = {
    {0x01, "Subn"},   {0x81, "Subn"},    {0x03, "SubnAdm"}, {0x04, "Perf"},
    {0x05, "BM"},     {0x06, "DevMgt"},  {0x07, "ComMgt"},  {0x08, "SNMP"},
    {0x10, "DevAdm"}, {0x11, "BootMgt"}, {0x12, "BIS"},     {0x21, "CongestionManagment"},
};

constexpr Name kMethods[] = {
    {0x01, "Get"},  {0x02, "Set"},    {0x81, "GetResp"},    {0x03, "Send"},
    {0x05, "Trap"}, {0x06, "Report"}, {0x86, "ReportResp"}, {0x07, "TrapRepress"},
};

constexpr Name kAdministrationMethods[] = {
    {0x12, "GetTable"},     {0x92, "GetTableResp"}, {0x13, "GetTraceTable"}, {0x14, "GetMulti"},
    {0x94, "GetMultiResp"}, {0x15, "Delete"},       {0x95, "DeleteResp"},
};

constexpr Name kCommonAttributes[] = {
    {0x0001, "Class Port Info"},
    {0x0002, "Notice"},
    {0x0003, "Inform Info"},
};

constexpr Name kSubnetAttributes[] = {
    {0x0010, "NodeDescription"},
    {0x0011, "NodeInfo"},
    {0x0012, "SwitchInfo"},
    {0x0014, "GUIDInfo"},
    {0x0015, "PortInfo"},
    {0x0016, "P_KeyTable"},
    {0x0017, "SLtoVLMappingTable"},
    {0x0018, "VLArbitrationTable"},
    {0x0019, "LinearForwardingTable"},
    {0x001a, "RandomForwardingTable"},
    {0x001b, "MulticastForwardingTable"},
    {0x001c, "LinkSpeedWidthPairsTable"},
    {0x001d, "VendorSpecificMadsTable"},
    {0x001e, "HierarchyInfo"},
    {0x0020, "SMInfo"},
    {0x0030, "VendorDiag"},
    {0x0031, "LedInfo"},
    {0x0032, "CableInfo"},
    {0x0033, "PortInfoExtended"},
};

constexpr Name kAdministrationAttributes[] = {
    {0x0011, "NodeRecord"},
    {0x0012, "PortInfoRecord"},
    {0x0013, "SLtoVLMappingTableRecord"},
    {0x0014, "SwitchInfoRecord"},
    {0x0015, "LinearForwardingTableRecord"},
    {0x0016, "RandomForwardingTableRecord"},
    {0x0017, "MulticastForwardingTableRecord"},
    {0x0018, "SMInfoRecord"},
    {0x0019, "LinkSpeedWidthPairsTableRecord"},
    {0x00f3, "InformInfoRecord"},
    {0x0020, "LinkRecord"},
    {0x0030, "GuidInfoRecord"},
    {0x0031, "ServiceRecord"},
    {0x0033, "P_KeyTableRecord"},
    {0x0035, "PathRecord"},
    {0x0036, "VLArbitrationTableRecord"},
    {0x0038, "MCMemberRecord"},
    {0x0039, "TraceRecord"},
    {0x003a, "MultiPathRecord"},
    {0x003b, "ServiceAssociationRecord"},
    {0x003c, "HierarchyInfoRecord"},
    {0x003d, "CableInfoRecord"},
    {0x003e, "PortInfoExtendedRecord"},
};

constexpr Name kConnectionAttributes[] = {
    {0x0010, "ConnectRequest"},
    {0x0011, "MsgRcptAck"},
    {0x0012, "ConnectReject"},
    {0x0013, "ConnectReply"},
    {0x0014, "ReadyToUse"},
    {0x0015, "DisconnectRequest"},
    {0x0016, "DisconnectReply"},
    {0x0017, "ServiceIDResReq"},
    {0x0018, "ServiceIDResReqResp"},
    {0x0019, "LoadAlternatePath"},
    {0x001a, "AlternatePathResponse"},
    {0x001b, "SuggestAlternatePath"},
    {0x001c, "SuggestPathResponse"},
};

constexpr Name kFieldFlaws[] = {
    {0x04, "Bad Version"},
    {0x08, "Method not supported"},
    {0x0c, "Method/Attribute combo not supported"},
    {0x1c, "Invalid attribute/modifier field"},
};

constexpr Name kAdministrationStatuses[] = {
    {0, "Success"},
    {1, "No Resources"},
    {2, "Request Invalid"},
    {3, "No Records"},
    {4, "Too Many Records"},
    {5, "Invalid GID"},
    {6, "Insufficient Components"},
    {7, "Request Denied"},
    {8, "Priority Suggested"},
};

bool is_vendor_class(std::uint8_t number) noexcept {
  return (number >= 0x09 && number <= 0x0f) || (number >= 0x30 && number <= 0x4f);
}

std::span<const Name> attributes_of(std::uint8_t management_class) noexcept {
  switch (management_class) {
    case kSubnetLidRouted:
    case kSubnetDirectedRoute:
      return kSubnetAttributes;
    case kSubnetAdministration:
      return kAdministrationAttributes;
    case kConnectionManagement:
      return kConnectionAttributes;
    default:
      return {};
  }
}

}  // namespace
}  // namespace verbatim::umad

using namespace verbatim::umad;  // NOLINT: the tables above

VB_EXPORT const char* umad_class_str(std::uint8_t mgmt_class) {
  if (is_vendor_class(mgmt_class)) return "Vendor";
  const bool is_application = mgmt_class >= 0x10 && mgmt_class <= 0x2f;
  return name_in(kClasses, mgmt_class, is_application ? "Application" : "<unknown>");
}

VB_EXPORT const char* umad_method_str(std::uint8_t mgmt_class, std::uint8_t method) {
  const char* common = name_in(kMethods, method, "<unknown");  // as libibumad has it
  return mgmt_class == kSubnetAdministration ? name_in(kAdministrationMethods, method, common)
                                             : common;
}

VB_EXPORT const char* umad_attribute_str(std::uint8_t mgmt_class, __be16 attr_id) {
  const std::uint16_t attribute = verbatim::big_endian(std::uint16_t{attr_id});
  const char* common = name_in(kCommonAttributes, attribute, "<unknown>");
  return name_in(attributes_of(mgmt_class), attribute, common);
}

VB_EXPORT const char* umad_common_mad_status_str(__be16 status) {
  const std::uint16_t bits = verbatim::big_endian(std::uint16_t{status});
  if ((bits & 0x01) != 0) return "Busy";
  if ((bits & 0x02) != 0) return "Redirection required";
  return name_in(kFieldFlaws, bits & 0x1c, "Success");
}

VB_EXPORT const char* umad_sa_mad_status_str(__be16 status) {
  return name_in(kAdministrationStatuses, verbatim::big_endian(std::uint16_t{status}) >> 8,
                 "Undefined Error");
}

// SPDX-License-Identifier: Apache-2.0
// Ports and agents: umad_open_port, umad_register and their like.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "umad/adapter.h"
#include "umad/agents.h"
#include "umad/border.h"

namespace verbatim::umad {
namespace {

using host::FabricCall;

constexpr std::uint32_t kOpenIbOui = 0x001405;  // what libibumad registers vendor classes with

bool is_vendor_class_with_oui(int management_class) noexcept {
  return management_class >= 0x30 && management_class <= 0x4f;
}

FabricCall registration(int management_class, int version, std::uint8_t rmpp_version) noexcept {
  FabricCall call;
  call.management_class = static_cast<std::uint8_t>(management_class);
  call.class_version = static_cast<std::uint8_t>(version);
  call.rmpp_version = rmpp_version;
  call.oui = kOpenIbOui;
  call.qpn = management_class == 0x01 || management_class == 0x81 ? 0 : 1;
  return call;
}

/// The number of the agent, or a negative errno value, which is in errno as well.
int registered(int port, const FabricCall& call,
               std::uint32_t* supported_flags = nullptr) noexcept {
  const auto reply = host::call_fabric(port, call);
  if (!reply) {
    errno = to_errno(reply.error());
    return -errno;
  }
  if (supported_flags != nullptr) *supported_flags = reply->flags;
  if (reply->error != 0) {
    errno = reply->error;
    return -errno;
  }
  Agents::add(port, reply->agent, call.rmpp_version != 0);
  return static_cast<int>(reply->agent);
}

int opened(const char* name, int number) {
  const auto chosen = ChosenPort::find(name, number);
  if (!chosen) return -to_errno(chosen.error());
  std::string message;
  auto port = host::open_fabric_port(chosen->adapter.place, chosen->adapter.node,
                                     static_cast<std::uint32_t>(chosen->number), message);
  if (!port) {
    tell_user(message);
    return -EIO;
  }
  const int descriptor = port->release();
  Agents::open(descriptor, chosen->number);
  return descriptor;
}

}  // namespace
}  // namespace verbatim::umad

using verbatim::umad::Agents;
using verbatim::umad::opened;
using verbatim::umad::registered;
using verbatim::umad::registration;

VB_EXPORT int umad_open_port(const char* ca_name, int portnum) { return opened(ca_name, portnum); }

/// All ports here have queue pair 0.
VB_EXPORT int umad_open_smi_port(const char* ca_name, int portnum) {
  return opened(ca_name, portnum);
}

VB_EXPORT int umad_close_port(int portid) {
  Agents::close(portid);
  (void)::close(portid);
  return 0;
}

VB_EXPORT int umad_get_fd(int portid) { return portid; }

VB_EXPORT int umad_register(int portid, int mgmt_class, int mgmt_version, std::uint8_t rmpp_version,
                            long method_mask[16 / sizeof(long)]) {
  auto call = registration(mgmt_class, mgmt_version, rmpp_version);
  if (method_mask != nullptr) std::memcpy(call.methods.data(), method_mask, sizeof call.methods);
  const int agent = registered(portid, call);
  return agent >= 0 ? agent : -EPERM;
}

VB_EXPORT int umad_register_oui(int portid, int mgmt_class, std::uint8_t rmpp_version,
                                std::uint8_t oui[3], long method_mask[16 / sizeof(long)]) {
  if (!verbatim::umad::is_vendor_class_with_oui(mgmt_class) || oui == nullptr) return -EINVAL;
  auto call = registration(mgmt_class, 1, rmpp_version);
  call.oui = std::uint32_t{oui[0]} << 16 | std::uint32_t{oui[1]} << 8 | oui[2];
  if (method_mask != nullptr) std::memcpy(call.methods.data(), method_mask, sizeof call.methods);
  const int agent = registered(portid, call);
  return agent >= 0 ? agent : -EPERM;
}

/// Returns 0 or an errno value.
VB_EXPORT int umad_register2(int port_fd, umad_reg_attr* attr, std::uint32_t* agent_id) {
  if (attr == nullptr || agent_id == nullptr) return EINVAL;
  const bool has_oui = attr->oui != 0 && attr->oui <= 0xff'ffff;
  if (verbatim::umad::is_vendor_class_with_oui(attr->mgmt_class) && !has_oui) return EINVAL;
  auto call = registration(attr->mgmt_class, attr->mgmt_class_version, attr->rmpp_version);
  call.flags = attr->flags;
  call.oui = attr->oui;
  std::memcpy(call.methods.data(), attr->method_mask, sizeof call.methods);
  std::uint32_t supported = attr->flags;
  const int agent = registered(port_fd, call, &supported);
  if (agent < 0) {
    attr->flags = supported;
    return -agent;
  }
  *agent_id = static_cast<std::uint32_t>(agent);
  return 0;
}

VB_EXPORT int umad_unregister(int portid, int agentid) {
  if (!Agents::may_send(portid, agentid)) {
    errno = EINVAL;
    return -EINVAL;
  }
  verbatim::host::FabricCall call;
  call.kind = verbatim::host::FabricCall::Kind::kUnregister;
  call.agent = static_cast<std::uint32_t>(agentid);
  const auto reply = verbatim::host::call_fabric(portid, call);
  Agents::remove(portid, call.agent);
  errno = reply ? reply->error : verbatim::umad::to_errno(reply.error());
  return -errno;
}

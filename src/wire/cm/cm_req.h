// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "wire/cm/cm_ids.h"
#include "wire/cm/cm_layout.h"
#include "wire/cm/cm_path.h"
#include "wire/cm/service_id.h"
#include "wire/headers/guid.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"
#include "wire/headers/psn.h"
#include "wire/headers/wire_error.h"

namespace verbatim::wire {

/// Which transport a connection uses (IBA Vol 1, 12.6.5.8).
enum class CmTransport : std::uint8_t {
  kRc = 0,
  kUc = 1,
  kRd = 2,
  kExtended = 3,  // see CmExtendedTransport
};
enum class CmExtendedTransport : std::uint8_t { kNone = 0, kXrc = 1 };

/// Connection request: the active side asks for a connection (12.6.5). parse() checks class, class
/// version, method and attribute; the agent that answers checks the fields.
///
/// CM messages are rare, a handful per connection, and the receiver keeps much of each. So they are
/// parsed into a value and have no view. emit() writes every octet, reserved bits as zero, and
/// truncates a number to the bits of its field.
struct CmReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kReq;
  static constexpr std::size_t kSize = Mad::kSize;
  static constexpr std::size_t kPrivateOctets = 92;
  TransactionId transaction{};
  CommId local_comm_id{};
  Ece ece{};
  ServiceId service_id{};
  Guid local_ca_guid{};
  QKey local_qkey{};  // datagrams only
  QpNumber local_qpn{};
  std::uint8_t responder_resources = 0;  // READs and atomics that the sender accepts at a time
  std::uint8_t initiator_depth = 0;  // READs and atomics that the sender wants to send at a time
  std::uint32_t local_eecn = 0;      // 24 bits; reliable datagrams only
  std::uint32_t remote_eecn = 0;     // 24 bits
  std::uint8_t remote_cm_response_timeout = 0;  // 5 bits: 4.096 us << code
  std::uint8_t local_cm_response_timeout = 0;   // 5 bits
  CmTransport transport = CmTransport::kRc;
  CmExtendedTransport extended_transport = CmExtendedTransport::kNone;  // 3 bits
  bool end_to_end_flow_control = false;
  bool rdc_exists = false;
  bool uses_srq = false;
  bool sap_supported = false;
  Psn starting_psn{};                // of the first packet that the *recipient* sends
  std::uint8_t retry_count = 0;      // 3 bits
  std::uint8_t rnr_retry_count = 0;  // 3 bits; 7 means without limit
  std::uint8_t max_cm_retries = 0;   // 4 bits
  PKey pkey = PKey::kDefault;
  PathMtu path_mtu = PathMtu::k1024;  // 4 bits: a received value may be no valid MTU
  CmPath primary{};
  CmPath alternate{};
  std::array<std::byte, kPrivateOctets> private_data{};
  friend bool operator==(const CmReq&, const CmReq&) noexcept = default;

  static Expected<CmReq, WireError> parse(const MadView& mad) noexcept;
  void emit(std::span<std::byte, kSize> to) const noexcept;

  /// The table of 12.6.5; `Self` is CmReq or const CmReq.
  template <typename At, typename Self>
  static void lay_out(At& at, Self& req) noexcept {
    at(CmBits<0, 0, 32>{}, req.local_comm_id);
    at(CmBits<5, 0, 24>{}, req.ece.vendor_id);
    at(CmBits<8, 0, 64>{}, req.service_id);
    at(CmBits<16, 0, 64>{}, req.local_ca_guid);
    at(CmBits<28, 0, 32>{}, req.local_qkey);
    at(CmBits<32, 0, 24>{}, req.local_qpn);
    at(CmBits<35, 0, 8>{}, req.responder_resources);
    at(CmBits<36, 0, 24>{}, req.local_eecn);
    at(CmBits<39, 0, 8>{}, req.initiator_depth);
    at(CmBits<40, 0, 24>{}, req.remote_eecn);
    at(CmBits<43, 0, 5>{}, req.remote_cm_response_timeout);
    at(CmBits<43, 5, 2>{}, req.transport);
    at(CmBits<43, 7, 1>{}, req.end_to_end_flow_control);
    at(CmBits<44, 0, 24>{}, req.starting_psn);
    at(CmBits<47, 0, 5>{}, req.local_cm_response_timeout);
    at(CmBits<47, 5, 3>{}, req.retry_count);
    at(CmBits<48, 0, 16>{}, req.pkey);
    at(CmBits<50, 0, 4>{}, req.path_mtu);
    at(CmBits<50, 4, 1>{}, req.rdc_exists);
    at(CmBits<50, 5, 3>{}, req.rnr_retry_count);
    at(CmBits<51, 0, 4>{}, req.max_cm_retries);
    at(CmBits<51, 4, 1>{}, req.uses_srq);
    at(CmBits<51, 5, 3>{}, req.extended_transport);
    lay_out_path<52>(at, req.primary);
    lay_out_path<96>(at, req.alternate);
    at(CmBits<139, 5, 1>{}, req.sap_supported);
    at(CmOctets<140, kPrivateOctets>{}, req.private_data);
  }

 private:
  template <std::size_t kFirst, typename At, typename Path>
  static void lay_out_path(At& at, Path& path) noexcept {
    at(CmBits<kFirst + 0, 0, 16>{}, path.local_lid);
    at(CmBits<kFirst + 2, 0, 16>{}, path.remote_lid);
    at(CmOctets<kFirst + 4, 16>{}, path.local_gid);
    at(CmOctets<kFirst + 20, 16>{}, path.remote_gid);
    at(CmBits<kFirst + 36, 0, 20>{}, path.flow_label);
    at(CmBits<kFirst + 39, 2, 6>{}, path.packet_rate);
    at(CmBits<kFirst + 40, 0, 8>{}, path.traffic_class);
    at(CmBits<kFirst + 41, 0, 8>{}, path.hop_limit);
    at(CmBits<kFirst + 42, 0, 4>{}, path.level);
    at(CmBits<kFirst + 42, 4, 1>{}, path.subnet_local);
    at(CmBits<kFirst + 43, 0, 5>{}, path.local_ack_timeout);
  }
};

}  // namespace verbatim::wire

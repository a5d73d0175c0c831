// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cm/address.h"
#include "cm/timing.h"
#include "wire/cm/cm_req.h"
#include "wire/headers/ids.h"
#include "wire/headers/psn.h"

namespace verbatim::cm {

/// The settings of a communication's queue pair that both ends have agreed on (IBA Vol 1, 12.9.5
/// and 12.9.6; the comments name the attributes of ibv_modify_qp).
struct QpSettings {
  Address address{};  // ah_attr
  Travel travel{};
  wire::CmTransport transport = wire::CmTransport::kRc;
  wire::PathMtu path_mtu = wire::PathMtu::k1024;
  wire::QpNumber remote_qpn{};           // dest_qp_num
  wire::Psn receive_psn{};               // rq_psn: this end's starting PSN
  wire::Psn send_psn{};                  // sq_psn: the peer's starting PSN
  std::uint8_t responder_resources = 0;  // max_dest_rd_atomic
  std::uint8_t initiator_depth = 0;      // max_rd_atomic
  std::uint8_t retry_count = 0;          // retry_cnt
  std::uint8_t rnr_retry_count = 0;      // rnr_retry
  TimeCode ack_timeout{};                // timeout
  bool peer_uses_srq = false;            // the peer grants no end-to-end credits
  bool end_to_end_flow_control = false;
  friend bool operator==(const QpSettings&, const QpSettings&) noexcept = default;
};

}  // namespace verbatim::cm

// SPDX-License-Identifier: Apache-2.0
#include "transport/qp_attributes.h"

#include "transport/rc/responder_state.h"

namespace verbatim::transport {

Status check_values(QpMask mask, const QpAttributes& wanted, wire::PathMtu port_mtu) noexcept {
  const auto exceeds = [&](QpMask bit, std::uint32_t value, std::uint32_t most) {
    return names(mask, bit) && value > most;
  };
  const auto mtu = static_cast<std::uint32_t>(wanted.path_mtu);
  if (exceeds(QpMask::kPathMtu, mtu, static_cast<std::uint32_t>(port_mtu)) ||
      (names(mask, QpMask::kPathMtu) && mtu == 0) ||
      exceeds(QpMask::kTimeout, wanted.timeout, 31) ||
      exceeds(QpMask::kRetryCount, wanted.retry_count, 7) ||
      exceeds(QpMask::kRnrRetry, wanted.rnr_retry, 7) ||
      exceeds(QpMask::kMinRnrTimer, wanted.min_rnr_timer, 31) ||
      exceeds(QpMask::kMaxReadAtomic, wanted.max_read_atomic, kMaxReadAtomic) ||
      exceeds(QpMask::kMaxDestReadAtomic, wanted.max_dest_read_atomic, kMaxReadAtomic) ||
      exceeds(QpMask::kDestQp, static_cast<std::uint32_t>(wanted.dest_qp), wire::kQpNumberMask)) {
    return Errc::kInvalidArgument;
  }
  return Ok{};
}

void adopt(QpAttributes& into, QpMask mask, const QpAttributes& wanted) noexcept {
  const auto take = [&](QpMask bit, auto QpAttributes::*field) {
    if (names(mask, bit)) into.*field = wanted.*field;
  };
  take(QpMask::kAccess, &QpAttributes::access);
  take(QpMask::kPKeyIndex, &QpAttributes::pkey);
  take(QpMask::kPKeyIndex, &QpAttributes::pkey_index);
  take(QpMask::kQKey, &QpAttributes::qkey);
  take(QpMask::kPathMtu, &QpAttributes::path_mtu);
  take(QpMask::kTimeout, &QpAttributes::timeout);
  take(QpMask::kRetryCount, &QpAttributes::retry_count);
  take(QpMask::kRnrRetry, &QpAttributes::rnr_retry);
  take(QpMask::kMinRnrTimer, &QpAttributes::min_rnr_timer);
  take(QpMask::kMaxReadAtomic, &QpAttributes::max_read_atomic);
  take(QpMask::kMaxDestReadAtomic, &QpAttributes::max_dest_read_atomic);
  take(QpMask::kSqdNotify, &QpAttributes::sqd_notify);
  take(QpMask::kReceivePsn, &QpAttributes::receive_psn);
  take(QpMask::kSendPsn, &QpAttributes::send_psn);
  take(QpMask::kDestQp, &QpAttributes::dest_qp);
}

}  // namespace verbatim::transport

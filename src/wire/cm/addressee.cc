// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/addressee.h"

#include "wire/cm/cm_message.h"
#include "wire/headers/mad.h"

namespace verbatim::wire {
namespace {

struct Reader {
  Addressee operator()(const CmReq& req) const noexcept { return req.service_id; }
  Addressee operator()(const CmSidrReq& req) const noexcept { return req.service_id; }
  Addressee operator()(const CmSidrRep& rep) const noexcept { return rep.request_id; }
  Addressee operator()(const CmRej& rej) const noexcept {
    if (rej.remote_comm_id == CommId{}) return EveryAgent{};
    return rej.remote_comm_id;
  }
  template <typename Message>
  Addressee operator()(const Message& message) const noexcept {
    return message.remote_comm_id;
  }
};

}  // namespace

Addressee addressee_of(std::span<const std::byte> octets) noexcept {
  const auto mad = MadView::parse(octets);
  if (!mad) return NoAgent{};
  const auto message = parse_cm_message(*mad);
  if (!message) return NoAgent{};
  return std::visit(Reader{}, *message);
}

}  // namespace verbatim::wire

// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/ping.h"

#include <algorithm>
#include <span>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric::test {
namespace {

constexpr auto kClass = wire::MgmtClass{0x32};
constexpr std::size_t kTargetAt = 40;    // data: which port is asked, and
constexpr std::size_t kAnswererAt = 44;  // which port has answered

Registration registration(bool serves) {
  Registration registration{.mgmt_class = kClass, .class_version = 1, .oui = {0x00, 0x14, 0x05}};
  registration.methods.set(1, serves);
  return registration;
}

}  // namespace

Pings::Pings(Fabric& fabric, std::vector<PortEnd> ports)
    : fabric_(fabric), ports_(std::move(ports)) {
  for (const PortEnd port : ports_) {
    servers_.push_back(fabric_.register_agent(port, kServer, registration(true)).value());
    askers_.push_back(fabric_.register_agent(port, kAsker, registration(false)).value());
  }
}

std::size_t Pings::index_of(PortEnd port) const noexcept {
  return static_cast<std::size_t>(std::ranges::find(ports_, port) - ports_.begin());
}

void Pings::start(Instant now, std::chrono::milliseconds timeout, std::uint32_t retries) {
  for (std::size_t from = 0; from < ports_.size(); ++from) {
    for (std::size_t to = 0; to < ports_.size(); ++to) {
      if (from == to) continue;
      UserMad mad{.agent = askers_[from],
                  .timeout = timeout,
                  .retries = retries,
                  .address = {.lid = fabric_.port_status(ports_[to]).lid,
                              .qpn = wire::QpNumber::kGsi,
                              .qkey = wire::QKey::kGsi},
                  .octets = std::vector<std::byte>(wire::Mad::kSize)};
      wire::Mad{.header = {.mgmt_class = kClass,
                           .class_version = 1,
                           .method = wire::MadMethod::kGet,
                           .transaction = wire::TransactionId{to + 1}}}
          .emit(std::span<std::byte, wire::Mad::kSize>(mad.octets));
      mad.octets[38] = std::byte{0x14};
      mad.octets[39] = std::byte{0x05};
      store_be_at<std::uint32_t>(mad.octets.data() + kTargetAt, static_cast<std::uint32_t>(to));
      const Status posted = fabric_.post_send(now, ports_[from], kAsker, std::move(mad));
      VB_ASSERT(posted);
      ++outstanding_;
    }
  }
}

void Pings::answer(Instant now, PortEnd port, const UserMad& request) {
  const std::size_t index = index_of(port);
  UserMad mad{.agent = servers_[index], .address = request.address, .octets = request.octets};
  mad.address.qkey = wire::QKey::kGsi;
  mad.octets[3] = static_cast<std::byte>(wire::MadMethod::kGetResp);
  store_be_at<std::uint32_t>(mad.octets.data() + kAnswererAt, static_cast<std::uint32_t>(index));
  (void)fabric_.post_send(now, port, kServer, std::move(mad));  // the asker repeats its datagram
}

void Pings::handle(Instant now, PortEnd port, ClientId client, const UserMad& mad) {
  if (client == kServer) return answer(now, port, mad);
  --outstanding_;
  const std::string asker = fabric_.topology().nodes[port.node].id;
  if (mad.status != 0) {
    const auto lid = static_cast<unsigned>(mad.address.lid);
    if (complaint_.empty()) complaint_ = asker + " gets no answer from LID " + std::to_string(lid);
    return;
  }
  ++answered_;
  const auto target = load_be_at<std::uint32_t>(mad.octets.data() + kTargetAt);
  const auto answerer = load_be_at<std::uint32_t>(mad.octets.data() + kAnswererAt);
  if (target != answerer && complaint_.empty()) complaint_ = asker + " gets another port's answer";
}

}  // namespace verbatim::fabric::test

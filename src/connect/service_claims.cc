// SPDX-License-Identifier: Apache-2.0
#include "connect/service_claims.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "device/forwarded_packet.h"
#include "wire/cm/addressee.h"
#include "wire/headers/packet.h"

namespace verbatim::connect {
namespace {

// How often steer() tries while other processes come and go.
constexpr int kSteeringTries = 8;

/// The user that has the port sends to a RequestBox, and says from which address each packet came.
/// This process believes it only for a request for the box's own service.
bool is_request_for(const host::Service& service, std::span<const std::byte> message) noexcept {
  const auto incoming = device::unpack_forwarded(message);
  if (!incoming) return false;
  const auto packet = wire::PacketView::parse(incoming->octets);
  if (!packet || packet->bth().dest_qp() != wire::QpNumber::kGsi) return false;
  const wire::Addressee to = wire::addressee_of(packet->payload());
  const auto* id = std::get_if<wire::ServiceId>(&to);
  return id != nullptr && service_at(incoming->destination, *id) == service;
}

}  // namespace

Status ServiceClaims::claim(const wire::Gid& address, wire::ServiceId service, int epoll) noexcept {
  const host::Service wanted = service_at(address, service);
  auto name = host::ServiceName::claim(wanted, parts_.slot.descriptor());
  if (!name) return name.error();
  Claim claim{.service = wanted, .name = std::move(*name)};
  // The name of the box is exclusive among all users. If another user has the port, requests come
  // to that user's process, which hands them over.
  auto box =
      host::RequestBox::open(wanted, parts_.network.lender_at(address).value_or(::geteuid()));
  if (!box && box.error() == Errc::kAddressInUse) return box.error();
  if (box) claim.box = std::move(*box);
  for (const int socket : {claim.name.descriptor(), claim.box.descriptor()}) {
    epoll_event readable{.events = EPOLLIN, .data = {.fd = socket}};
    if (socket < 0) continue;
    // Without this no thread would read the requests that other processes forward.
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &readable) != 0) return Errc::kNoMemory;
  }
  claims_.push_back(std::move(claim));
  return Ok{};
}

void ServiceClaims::release(const wire::Gid& address, wire::ServiceId service) noexcept {
  const host::Service gone = service_at(address, service);
  bool was_attracted = false;
  std::erase_if(claims_, [&](const Claim& claim) {
    was_attracted |= claim.service == gone && claim.advertisement.descriptor() >= 0;
    return claim.service == gone;
  });
  if (was_attracted) steer(address);
}

void ServiceClaims::attract(const wire::Gid& address, wire::ServiceId service) noexcept {
  const host::Service wanted = service_at(address, service);
  for (Claim& claim : claims_) {
    if (claim.service != wanted) continue;
    auto name =
        host::ServiceName::advertise(wanted, parts_.slot.number(), parts_.slot.descriptor());
    if (name) claim.advertisement = std::move(*name);  // else requests are forwarded
    steer(address);
  }
}

bool ServiceClaims::holds(const host::Service& service) const noexcept {
  return std::any_of(claims_.begin(), claims_.end(),
                     [&](const Claim& claim) { return claim.service == service; });
}

std::optional<std::span<const std::byte>> ServiceClaims::take_forwarded(
    std::size_t claim, std::span<std::byte> room) const noexcept {
  const Claim& from = claims_[claim];
  if (const std::size_t octets = from.name.take_forwarded(room)) return room.first(octets);
  const std::span<const std::byte> message = room.first(from.box.take(room));
  if (message.empty()) return std::nullopt;
  return is_request_for(from.service, message) ? message : std::span<const std::byte>();
}

void ServiceClaims::leave() noexcept {
  has_left_ = true;
  claims_.clear();
  steer_all();
}

std::optional<host::ServiceDirectory> ServiceClaims::read_directory(
    const std::array<std::uint8_t, 16>& address) const {
  return host::ServiceDirectory::read(parts_.slot.descriptor(), address);
}

/// Afterwards it looks once more whether the directory has changed. So the process that steers last
/// has seen what all processes advertise.
void ServiceClaims::steer(const wire::Gid& address) const noexcept {
  for (int tries = 0; tries < kSteeringTries; ++tries) {
    const auto directory = read_directory(address.octets);
    if (!directory) return;  // the present program stays
    std::vector<link::ServiceRoute> routes;
    for (const host::ServicePlace& place : directory->services) {
      routes.push_back({.service = static_cast<std::uint32_t>(place.service), .slot = place.slot});
    }
    std::uint32_t fallback = parts_.slot.number();
    for (const std::uint32_t slot : directory->slots) {
      if (has_left_ && slot != parts_.slot.number()) fallback = slot;
    }
    parts_.network.steer(address, routes, fallback);
    if (read_directory(address.octets) == directory) return;
  }
}

void ServiceClaims::steer_all() const noexcept {
  for (const device::GidEntry& entry : parts_.port.gids) steer(entry.gid);
}

}  // namespace verbatim::connect

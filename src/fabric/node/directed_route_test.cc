// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/directed_route.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/headers/smp.h"

namespace verbatim::fabric {
namespace {

using Kind = DirectedHop::Kind;
using Octets = std::array<std::byte, wire::Mad::kSize>;

Octets octets_of(const wire::Smp& smp) {
  Octets octets{};
  smp.emit(octets);
  return octets;
}
wire::Smp smp_of(const Octets& octets) {
  return wire::SmpView::parse(*wire::MadView::parse(octets))->value();
}

constexpr DirectedRoutePlace kSelf{.is_switch = false};
DirectedRoutePlace switch_at(std::uint8_t ingress) {
  return {.is_switch = true, .ingress = ingress};
}
DirectedRoutePlace host_at(std::uint8_t ingress) {
  return {.is_switch = false, .ingress = ingress};
}
DirectedHop leave(std::uint8_t port) { return {.kind = Kind::kLeave, .port = port}; }
constexpr DirectedHop kArrived{.kind = Kind::kArrived};
constexpr DirectedHop kDiscard{};

/// Out of port 1, through a switch by port 7, to a host.
wire::Smp two_hops() {
  wire::Smp smp{.hop_count = 2};
  smp.initial_path[1] = std::byte{1};
  smp.initial_path[2] = std::byte{7};
  return smp;
}

TEST(DirectedRoute, APacketFollowsItsPathAndNotesTheWayBack) {
  auto octets = octets_of(two_hops());
  EXPECT_EQ(next_directed_hop(octets, kSelf), leave(1));
  EXPECT_EQ(smp_of(octets).hop_pointer, 1);
  EXPECT_EQ(next_directed_hop(octets, switch_at(5)), leave(7));
  EXPECT_EQ(smp_of(octets).hop_pointer, 2);
  EXPECT_EQ(next_directed_hop(octets, host_at(3)), kArrived);
  EXPECT_EQ(smp_of(octets).hop_pointer, 3);
  EXPECT_EQ(smp_of(octets).return_path[1], std::byte{5});
  EXPECT_EQ(smp_of(octets).return_path[2], std::byte{3});
}

TEST(DirectedRoute, AnAnswerTakesTheNotedWay) {
  wire::Smp answer = two_hops();
  answer.returning = true;
  answer.hop_pointer = 3;
  answer.return_path[1] = std::byte{5};
  answer.return_path[2] = std::byte{3};
  auto octets = octets_of(answer);
  EXPECT_EQ(next_directed_hop(octets, kSelf), leave(3));
  EXPECT_EQ(smp_of(octets).hop_pointer, 2);
  EXPECT_EQ(next_directed_hop(octets, switch_at(7)), leave(5));
  EXPECT_EQ(smp_of(octets).hop_pointer, 1);
  EXPECT_EQ(next_directed_hop(octets, host_at(1)), kArrived);
  EXPECT_EQ(smp_of(octets).hop_pointer, 0);
}

TEST(DirectedRoute, WithoutHopsItStaysInTheNode) {
  auto octets = octets_of({.hop_count = 0});
  EXPECT_EQ(next_directed_hop(octets, kSelf), kArrived);
  EXPECT_EQ(smp_of(octets).hop_pointer, 1);
  wire::Smp answer = smp_of(octets);
  answer.returning = true;
  octets = octets_of(answer);
  EXPECT_EQ(next_directed_hop(octets, kSelf), kArrived);
  EXPECT_EQ(smp_of(octets).hop_pointer, 0);
}

TEST(DirectedRoute, AHostForwardsNothing) {
  auto octets = octets_of(two_hops());
  (void)next_directed_hop(octets, kSelf);
  EXPECT_EQ(next_directed_hop(octets, host_at(5)), kDiscard);
  wire::Smp answer = two_hops();
  answer.returning = true;
  answer.hop_pointer = 2;
  octets = octets_of(answer);
  EXPECT_EQ(next_directed_hop(octets, host_at(5)), kDiscard);
}

TEST(DirectedRoute, APointerBeyondThePathIsDiscarded) {
  for (const std::uint8_t pointer : {std::uint8_t{0}, std::uint8_t{3}, std::uint8_t{200}}) {
    for (const bool returning : {false, true}) {
      wire::Smp smp = two_hops();
      smp.hop_pointer = pointer;
      smp.returning = returning;
      auto octets = octets_of(smp);
      EXPECT_EQ(next_directed_hop(octets, switch_at(1)), kDiscard) << int{pointer} << returning;
    }
  }
}

TEST(DirectedRoute, APathOfMoreThan63HopsIsDiscarded) {
  auto octets = octets_of({.hop_count = 64});
  EXPECT_EQ(next_directed_hop(octets, kSelf), kDiscard);
  octets = octets_of({.hop_count = 63});
  EXPECT_EQ(next_directed_hop(octets, kSelf).kind, Kind::kLeave);
}

TEST(DirectedRoute, ItCanBeginAtASwitchThatTheLidNames) {
  wire::Smp smp = two_hops();
  smp.dr_source = wire::Lid{9};
  auto octets = octets_of(smp);
  EXPECT_EQ(next_directed_hop(octets, {.is_switch = true}), leave(1));
  wire::Smp answer = two_hops();
  answer.dr_source = wire::Lid{9};
  answer.returning = true;
  answer.hop_pointer = 1;
  octets = octets_of(answer);
  EXPECT_EQ(next_directed_hop(octets, switch_at(1)),
            (DirectedHop{.kind = Kind::kByLid, .lid = wire::Lid{9}}));
  EXPECT_EQ(smp_of(octets).hop_pointer, 0);
  EXPECT_EQ(next_directed_hop(octets, kSelf), kArrived) << "at the manager, by LID";
}

TEST(DirectedRoute, ItCanEndAtASwitchThatRoutesOnByLid) {
  wire::Smp smp = two_hops();
  smp.hop_pointer = 2;
  smp.dr_destination = wire::Lid{9};
  auto octets = octets_of(smp);
  EXPECT_EQ(next_directed_hop(octets, switch_at(4)),
            (DirectedHop{.kind = Kind::kByLid, .lid = wire::Lid{9}}));
  EXPECT_EQ(next_directed_hop(octets, kSelf), kArrived) << "at the destination, by LID";
  smp.hop_pointer = 2;
  octets = octets_of(smp);
  EXPECT_EQ(next_directed_hop(octets, host_at(4)), kDiscard) << "a host does not route";
}

}  // namespace
}  // namespace verbatim::fabric

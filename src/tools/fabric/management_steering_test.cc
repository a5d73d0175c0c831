// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/management_steering.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "tools/fabric/test_management.h"

namespace verbatim::tools {
namespace {

using wire::Addressee;

using test::packet_with;

TEST(ManagementSteering, AMessageIsForAServiceOrForTheProcessThatGaveItsId) {
  const wire::ServiceId service{0x0106'1c06};
  const wire::CommId ours{0x0700'0001};
  for (const bool is_global : {false, true}) {
    EXPECT_EQ(addressee_of_packet(packet_with(wire::CmReq{.service_id = service}, {}, is_global)),
              Addressee{service});
    EXPECT_EQ(addressee_of_packet(packet_with(wire::CmRtu{.remote_comm_id = ours}, {}, is_global)),
              Addressee{ours});
  }
}

TEST(ManagementSteering, OtherOctetsAreForNoProcess) {
  auto packet = packet_with(wire::CmReq{});
  while (!packet.empty()) {
    packet.pop_back();
    EXPECT_EQ(addressee_of_packet(packet), Addressee{wire::NoAgent{}});
  }
  Prng prng(1);
  for (int i = 0; i < 10'000; ++i) {
    std::vector<std::byte> octets(prng.between(0, 400));
    for (std::byte& octet : octets) octet = static_cast<std::byte>(prng.next());
    (void)addressee_of_packet(octets);  // any answer is right
  }
}

TEST(ServiceSeats, AProcessIsFoundAsLongAsItListens) {
  ServiceSeats seats;
  EXPECT_EQ(seats.slot_of(7, 99), 99U);
  seats.set(7, 3, true);
  seats.set(9, 4, true);
  EXPECT_EQ(seats.slot_of(7, 99), 3U);
  EXPECT_EQ(seats.slot_of(8, 99), 99U);
  EXPECT_EQ(seats.slot_of(9, 99), 4U);
  seats.set(7, 3, false);
  EXPECT_EQ(seats.slot_of(7, 99), 99U);
}

TEST(ServiceSeats, AnEndedProcessLeavesAll) {
  ServiceSeats seats;
  for (std::uint32_t service = 0; service < 100; ++service) seats.set(service, service % 2, true);
  seats.remove(0);
  for (std::uint32_t service = 0; service < 100; ++service) {
    EXPECT_EQ(seats.slot_of(service, 99), service % 2 == 0 ? 99U : 1U);
  }
}

TEST(ServiceSeats, ARepeatedClaimIsOne) {
  ServiceSeats seats;
  seats.set(7, 3, true);
  seats.set(7, 3, true);
  seats.set(7, 3, false);
  EXPECT_EQ(seats.slot_of(7, 99), 99U);
}

TEST(ServiceSeats, ThereIsALimit) {
  ServiceSeats seats;
  for (std::uint32_t service = 0; service <= ServiceSeats::kSeatsMax; ++service) {
    seats.set(service, 1, true);
  }
  EXPECT_EQ(seats.slot_of(ServiceSeats::kSeatsMax - 1, 99), 1U);
  EXPECT_EQ(seats.slot_of(ServiceSeats::kSeatsMax, 99), 99U);
}

}  // namespace
}  // namespace verbatim::tools

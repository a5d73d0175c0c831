// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/memberships.h"

#include <gtest/gtest.h>

#include <array>

#include "base/prng.h"
#include "wire/management/sa_message.h"

namespace verbatim::fabric {
namespace {

using wire::JoinState;
using wire::MadMethod;
using Octets = std::array<std::byte, wire::Mad::kSize>;

constexpr ClientId kOne{1};
constexpr ClientId kOther{2};

wire::Gid group(std::uint8_t last) {
  wire::Gid made;
  made.octets[0] = 0xff;
  made.octets[15] = last;
  return made;
}

Octets request(MadMethod method, std::uint8_t of, std::uint32_t transaction) {
  Octets octets{};
  wire::SaMessage{.method = method, .transaction = wire::TransactionId{transaction}}.emit(
      wire::MulticastRecord{.group = group(of), .join_state = JoinState::kFullMember}, octets);
  return octets;
}

class MembershipsTest : public testing::Test {
 protected:
  void ask(ClientId client, std::uint8_t of, std::uint32_t transaction) {
    auto octets = request(MadMethod::kSet, of, transaction);
    EXPECT_FALSE(memberships_.handle_request(client, octets));
  }
  void answer(ClientId client, std::uint8_t of, std::uint32_t transaction,
              std::uint16_t status = 0) {
    auto octets = request(MadMethod::kGetResp, of, transaction);
    octets[4] = static_cast<std::byte>(status >> 8);
    // The upper half of the transaction is that of the agent.
    octets[8] = std::byte{0x55};
    memberships_.handle_answer(client, octets);
  }
  void join(ClientId client, std::uint8_t of, std::uint32_t transaction) {
    ask(client, of, transaction);
    answer(client, of, transaction);
  }
  /// Whether the request to leave is answered here.
  bool stays(ClientId client, std::uint8_t of) {
    auto octets = request(MadMethod::kDelete, of, 99);
    const bool is_answered = memberships_.handle_request(client, octets);
    EXPECT_EQ(octets[3], is_answered ? std::byte{0x95} : std::byte{0x15});
    return is_answered;
  }

  void answer_departure(ClientId client, std::uint8_t of) {
    memberships_.handle_answer(client, request(MadMethod::kDeleteResp, of, 99));
  }

  Memberships memberships_;
};

TEST_F(MembershipsTest, TheLastMemberLeaves) {
  join(kOne, 1, 1);
  join(kOther, 1, 1);
  EXPECT_TRUE(stays(kOne, 1));
  EXPECT_FALSE(stays(kOther, 1));
  answer_departure(kOther, 1);
  EXPECT_EQ(memberships_.count(), 0U);
}

TEST_F(MembershipsTest, ADepartureOnItsWayIsRepeatedWhenItsClientEnds) {
  join(kOne, 1, 1);
  EXPECT_FALSE(stays(kOne, 1));
  EXPECT_EQ(memberships_.close(kOne).size(), 1U);
}

TEST_F(MembershipsTest, ADepartureOnItsWayDoesNotEndALaterMember) {
  join(kOne, 1, 1);
  EXPECT_FALSE(stays(kOne, 1));
  join(kOther, 1, 1);
  EXPECT_TRUE(memberships_.close(kOne).empty());
  EXPECT_EQ(memberships_.close(kOther).size(), 1U);
}

TEST_F(MembershipsTest, AClientMayJoinSeveralTimes) {
  join(kOne, 1, 1);
  join(kOne, 1, 2);
  EXPECT_TRUE(stays(kOne, 1));
  EXPECT_FALSE(stays(kOne, 1));
}

TEST_F(MembershipsTest, WhatAClientAloneIsAMemberOfEndsWithIt) {
  join(kOne, 1, 1);
  join(kOne, 2, 2);
  join(kOther, 2, 1);
  const auto left = memberships_.close(kOne);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].group, group(1));
  EXPECT_EQ(left[0].join_state, JoinState::kFullMember);
  EXPECT_EQ(memberships_.close(kOther).size(), 1U);
  EXPECT_TRUE(memberships_.close(kOther).empty());
}

TEST_F(MembershipsTest, AJoinOnItsWayCountsAndARefusedOneDoesNot) {
  ask(kOne, 1, 1);
  ask(kOne, 2, 2);
  answer(kOne, 2, 2, 0x0700);
  const auto left = memberships_.close(kOne);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].group, group(1));
}

TEST_F(MembershipsTest, ARequestWithoutAnAnswerDoesNotCount) {
  ask(kOne, 1, 7);
  const auto octets = request(MadMethod::kSet, 1, 7);
  memberships_.handle_answer(kOne, std::span(octets).first<24>());
  EXPECT_EQ(memberships_.count(), 0U);
}

TEST_F(MembershipsTest, AnAnswerCountsOnceAndForItsClientOnly) {
  ask(kOne, 1, 7);
  answer(kOther, 1, 7, 0x0700);
  answer(kOne, 1, 7);
  answer(kOne, 1, 7, 0x0700);
  EXPECT_EQ(memberships_.count(), 1U);
}

TEST_F(MembershipsTest, ThereIsALimit) {
  for (std::uint32_t i = 0; i < Memberships::kMembershipsMax + 5; ++i) join(kOne, 1, i);
  EXPECT_EQ(memberships_.count(), Memberships::kMembershipsMax);
}

TEST_F(MembershipsTest, OtherDatagramsPassUnchanged) {
  Prng prng(1);
  for (int i = 0; i < 10'000; ++i) {
    Octets octets;
    for (std::byte& octet : octets) octet = static_cast<std::byte>(prng.next());
    octets[0] = std::byte{1};
    const Octets before = octets;
    EXPECT_FALSE(memberships_.handle_request(kOne, octets));
    EXPECT_EQ(octets, before);
    memberships_.handle_answer(kOne, octets);
  }
}

}  // namespace
}  // namespace verbatim::fabric

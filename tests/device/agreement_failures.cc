// SPDX-License-Identifier: Apache-2.0
// The ends of programs that fail.
#include <algorithm>
#include <utility>

#include "agreement_generator.h"

namespace verbatim::testing {

namespace {

bool is_local(ibv_wr_opcode opcode) noexcept { return opcode == IBV_WR_LOCAL_INV; }

}  // namespace

/// Some requests, one that fails, and some behind it.
void Generator::add_failing_round() {
  const int side = program_.failing;
  const int peer = 1 - side;
  Program::Round& round = program_.rounds.emplace_back();
  octets_left_ = 64 * 1024;
  allows_late_ = allows_losses_ = false;
  for (Arrivals& arrivals : arrivals_) arrivals = {};
  for (auto more = prng_.below(3); more > 0; --more) add_spare_receive(peer, round.turns[peer]);
  Program::Turn& turn = round.turns[side];
  if (program_.is_reliable()) add_requests(side, round, prng_.below(4));
  count_completions(side, turn);
  auto failure = static_cast<Failure>(prng_.below(static_cast<unsigned>(Failure::kCount)));
  if (!program_.is_reliable()) {
    constexpr Failure kFailures[] = {Failure::kBadReceive, Failure::kWrongLocalKey,
                                     Failure::kBeyondLocalRegion, Failure::kLocalInvalidate};
    failure = kFailures[prng_.below(4)];
  }
  program_.failure = add_failure(failure, side, round);
  turn.requests.back().flags |= IBV_SEND_SIGNALED;
  ++turn.sends_done;
  round.turns[peer].receives_done = arrivals_[peer].receives;
  if (!program_.is_reliable() && program_.fails_peer) return;  // the sender does not fail
  // Requests after a READ may be done before the octets of the READ come back and cannot be stored.
  if (turn.requests.back().opcode == IBV_WR_RDMA_READ) return;
  const Program::Turn expected = round.turns[peer];
  const std::size_t before = turn.requests.size();
  add_requests(side, round, prng_.below(4));
  round.turns[peer] = expected;  // the requests behind the failed one have no effect
  if (!program_.is_reliable() && turn.requests.size() > before) turn.requests.pop_back();
  turn.sends_marker = false;
  turn.sends_done += static_cast<std::uint32_t>(turn.requests.size() - before);
}

std::string Generator::add_failure(Failure failure, int side, Program::Round& round) {
  const int peer = 1 - side;
  const Program::Side& there = program_.sides[peer];
  Program::Turn& turn = round.turns[side];
  const auto some_octets = [&](std::uint32_t most) { return std::clamp(pick_octets(), 1U, most); };
  const auto has_right = [&](ibv_wr_opcode opcode) {
    return (right_of(opcode) & ~there.access) == 0;
  };
  Request request{.opcode = IBV_WR_SEND, .octets = some_octets(20'000), .begins_call = true};
  ++orders_[side];
  // A request that fails at the peer is one of these.
  constexpr ibv_wr_opcode kRdma[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                     IBV_WR_ATOMIC_CMP_AND_SWP};
  const auto choose_rdma = [&] {
    do {
      request.opcode = kRdma[prng_.below(std::size(kRdma))];
    } while (!has_right(request.opcode));
    if (is_atomic(request.opcode)) request.octets = 8;
  };
  const auto region_octets = [&](int region) {
    return there.regions[static_cast<std::size_t>(region)].octets;
  };
  const auto ensure_receive = [&] {
    if (!standing_[peer].receives.empty()) return;
    standing_[peer].receives.push_back(make_receive(peer, request.octets));
    round.turns[peer].early.push_back(standing_[peer].receives.back());
  };
  const auto finish = [&](std::string words) {
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) ensure_receive();
    if (request.local.empty() && !is_local(request.opcode) && !pick_local(side, request)) {
      // It never reaches the peer, so its kind does not matter.
      request.local = {{.region = kMain, .offset = 0, .octets = request.octets}};
    }
    turn.requests.push_back(request);
    return words;
  };
  const auto fail_remotely = [&] {
    program_.fails_peer = true;
    const bool is_write_of_one_packet =
        request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && request.octets <= mtu_octets();
    program_.fails_receive =
        is_write_of_one_packet || (takes_receive(request.opcode) && !is_rdma(request.opcode));
  };
  switch (failure) {
    case Failure::kWrongKey:
      break;  // made below
    case Failure::kBeyondRegion: {
      choose_rdma();
      const std::uint32_t whole = region_octets(kMain);
      request.octets = std::min(request.octets, whole);
      const auto last = static_cast<std::int64_t>(whole) - request.octets;
      request.target = {.region = kMain,
                        .offset = is_atomic(request.opcode) ? (last + 8) / 8 * 8 : last + 1};
      fail_remotely();
      return finish("ends beyond the region");
    }
    case Failure::kRegionDenies:
      choose_rdma();
      request.target.region =
          request.opcode != IBV_WR_RDMA_READ && prng_.one_in(2) ? kReadOnly : kPrivate;
      request.octets = std::min(request.octets, region_octets(request.target.region));
      fail_remotely();
      return finish("the region denies it");
    case Failure::kOtherDomain:
      choose_rdma();
      request.target.region = kForeign;
      request.octets = std::min(request.octets, region_octets(kForeign));
      fail_remotely();
      return finish("the region is of another domain");
    case Failure::kUnboundWindow: {
      const auto& windows = standing_[peer].windows;
      const auto found =
          std::ranges::find_if(windows, [](const Window& window) { return !window.is_bound; });
      if (found == windows.end()) break;
      choose_rdma();
      request.target.window = static_cast<int>(found - windows.begin());
      fail_remotely();
      return finish("the window is not bound");
    }
    case Failure::kQueuePairDenies: {
      constexpr unsigned kRights =
          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      if (there.access == kRights) break;
      do {
        request.opcode = kRdma[prng_.below(std::size(kRdma))];
      } while (has_right(request.opcode));
      if (is_atomic(request.opcode)) request.octets = 8;
      fail_remotely();
      program_.fails_receive = false;  // the right is checked before a receive is taken
      return finish("the queue pair denies it");
    }
    case Failure::kInvalidatesNothing:
      request.opcode = IBV_WR_SEND_WITH_INV;
      ensure_receive();
      request.octets = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(request.octets, standing_[peer].receives.front().octets()));
      request.invalidates = -1;
      fail_remotely();
      return finish("invalidates a key that does not exist");
    case Failure::kTooLong:
      ensure_receive();
      request.octets = static_cast<std::uint32_t>(standing_[peer].receives.front().octets() +
                                                  some_octets(5'000));
      mark_undefined(peer, standing_[peer].receives.front().list);
      fail_remotely();
      return finish("too long for the receive");
    case Failure::kBadReceive: {
      if (!standing_[peer].receives.empty()) {
        if (program_.is_reliable()) return add_failure(Failure::kTooLong, side, round);
        return add_failure(Failure::kWrongLocalKey, side, round);
      }
      Program::Receive receive = make_receive(peer, request.octets);
      receive.list.resize(std::min<std::size_t>(receive.list.size(), Program::kSgeLimit - 1));
      mark_undefined(peer, receive.list);
      receive.list.push_back({.region = kMain, .octets = 3'000, .has_wrong_key = true});
      std::swap(receive.list.back(), receive.list[prng_.below(receive.list.size())]);
      request.octets = static_cast<std::uint32_t>(receive.octets());
      standing_[peer].receives.push_back(receive);
      round.turns[peer].early.push_back(receive);
      fail_remotely();
      return finish("the receive has a wrong key");
    }
    case Failure::kWrongLocalKey:
    case Failure::kBeyondLocalRegion: {
      request.opcode = IBV_WR_RDMA_WRITE;
      if (program_.is_reliable() && prng_.one_in(3)) request.opcode = IBV_WR_RDMA_READ;
      if (!has_right(request.opcode)) request.opcode = IBV_WR_SEND;
      if (prng_.one_in(3)) request.opcode = IBV_WR_SEND;
      request.octets = some_octets(mtu_octets());  // no packet of it is sent
      if (request.opcode == IBV_WR_SEND) ensure_receive();
      request.target.region = kMain;
      mark_undefined(peer, {{.region = kMain, .octets = request.octets}});
      const std::uint32_t whole = program_.sides[side].regions[kPrivate].octets;
      Slice bad{.region = kPrivate, .octets = request.octets, .has_wrong_key = true};
      if (failure == Failure::kBeyondLocalRegion) {
        bad = {.region = kPrivate, .offset = whole - request.octets + 1, .octets = request.octets};
      }
      request.local = {{.region = kMain, .has_wrong_key = true}, bad};
      return finish(failure == Failure::kWrongLocalKey ? "a wrong local key"
                                                       : "beyond its local region");
    }
    case Failure::kReadOnlyLanding:
      if (!has_right(IBV_WR_RDMA_READ)) break;
      request.opcode = IBV_WR_RDMA_READ;
      request.octets = some_octets(mtu_octets());
      request.target.region = kMain;
      request.local = {{.region = kReadOnly, .octets = request.octets}};
      return finish("reads into a region without local write");
    case Failure::kLocalInvalidate:
      request.opcode = IBV_WR_LOCAL_INV;
      request.octets = 0;
      request.invalidates = -1;
      return finish("invalidates a local key that does not exist");
    case Failure::kCount:
      break;
  }
  choose_rdma();
  request.target = {.region = kMain, .has_wrong_key = true};
  fail_remotely();
  return finish("a wrong key");
}

/// To a peer that does not answer, or has no receive.
void Generator::add_last_requests() {
  program_.failing = 0;
  Program::Round& round = program_.rounds.emplace_back();
  Program::Turn& turn = round.turns[0];
  for (Arrivals& arrivals : arrivals_) arrivals = {};
  octets_left_ = 64 * 1024;
  const bool is_gone = program_.ending == Program::Ending::kPeerGone;
  if (!is_gone) {
    while (!standing_[1].receives.empty()) {
      Request empty{.opcode = IBV_WR_SEND, .flags = 0, .begins_call = true};
      take_receive(0, round, empty);
      empty.octets = 0;
      turn.requests.push_back(empty);
    }
  }
  count_completions(0, turn);
  round.turns[1].receives_done = arrivals_[1].receives;
  const Program::Turn expected = round.turns[1];
  const std::size_t before = turn.requests.size();
  if (!is_gone) {
    turn.requests.push_back({.opcode = IBV_WR_SEND, .flags = 0, .begins_call = true});
  }
  add_requests(0, round, 1 + prng_.below(3));
  round.turns[1] = expected;
  turn.sends_done += static_cast<std::uint32_t>(turn.requests.size() - before);
  program_.failure = is_gone ? "the peer is gone" : "there is no receive";
}

}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
#include "agreement_generator.h"

#include <algorithm>

namespace verbatim::testing {

namespace {

constexpr unsigned kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// Datagrams that wait in a socket's buffer however long its process does not run.
constexpr std::uint32_t kUnreliableRoundOctets = 48 * 1024;
constexpr std::uint32_t kReliableRoundOctets = 900 * 1024;
constexpr std::uint32_t kLargeOctets = 700 * 1024;
constexpr std::uint32_t kChunkOctets = 256 * 1024;  // direct::Requester::kTurnOctets
constexpr std::size_t kReceiveLimit = 24;           // posted and not used

bool overlap(const Program::Slice& a, const Program::Slice& b) noexcept {
  return a.region == b.region && a.offset < b.offset + b.octets && b.offset < a.offset + a.octets;
}

}  // namespace

bool takes_receive(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
         opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_rdma(ibv_wr_opcode opcode) noexcept { return right_of(opcode) != 0; }

bool is_atomic(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool is_answered(ibv_wr_opcode opcode) noexcept {
  return is_atomic(opcode) || opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_WRITE;
}

unsigned right_of(ibv_wr_opcode opcode) noexcept {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_ATOMIC_WRITE:
      return IBV_ACCESS_REMOTE_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_ACCESS_REMOTE_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_ACCESS_REMOTE_ATOMIC;
    default:
      return 0;
  }
}

// ---- Uses ----

bool Uses::allows(const Use& next) const noexcept {
  return std::ranges::all_of(uses_, [&](const Use& before) {
    if (before.side != next.side || !overlap(before.slice, next.slice)) return true;
    if (!before.writes && !next.writes) return true;
    if (before.flow < 0 || before.flow != next.flow) return false;
    if (!before.is_answered) return before.is_remote && next.is_remote;
    if (fenced_[next.flow] > before.order) return true;
    return before.is_remote && next.is_remote && before.is_atomic && next.is_answered;
  });
}

void Uses::let_go(int side, const Program::Slice& slice) noexcept {
  for (Use& use : uses_) {
    const bool is_it = use.side == side && overlap(use.slice, slice) && !use.is_undefined;
    if (is_it) use.stays = false;
  }
}

void Uses::end_round() {
  std::erase_if(uses_, [](const Use& use) { return !use.stays; });
}

// ---- Objects ----

Program Generator::make() {
  choose_options();
  const bool has_rounds = program_.ending != Program::Ending::kPeerGone;
  const std::uint64_t rounds = has_rounds ? 1 + prng_.below(4) : 0;
  for (std::uint64_t i = 0; i < rounds; ++i) add_round(i == 0 && program_.is_late);
  switch (program_.ending) {
    case Program::Ending::kQuiet:
      break;
    case Program::Ending::kFailure:
      add_failing_round();
      break;
    case Program::Ending::kPeerGone:
    case Program::Ending::kNoReceive:
      add_last_requests();
      break;
  }
  return std::move(program_);
}

void Generator::choose_options() {
  program_.type = prng_.one_in(5) ? IBV_QPT_UC : IBV_QPT_RC;
  program_.is_in_one_process = prng_.one_in(4);
  program_.mtu = static_cast<ibv_mtu>(prng_.between(IBV_MTU_256, IBV_MTU_4096));
  program_.read_depth = static_cast<std::uint8_t>(prng_.between(1, 8));
  program_.inline_octets = prng_.one_in(3) ? 0 : 200;
  for (std::uint32_t& psn : program_.first_psn) {
    psn = static_cast<std::uint32_t>(prng_.one_in(2) ? 0xffff'f0 + prng_.below(16)
                                                     : prng_.below(1 << 24));
  }
  if (program_.is_reliable()) program_.is_late = prng_.one_in(6);
  const std::uint64_t ending = prng_.below(100);
  if (ending < 50) program_.ending = Program::Ending::kFailure;
  if (program_.is_reliable() && ending >= 95) program_.ending = Program::Ending::kPeerGone;
  if (program_.is_reliable() && ending >= 90 && ending < 95) {
    program_.ending = Program::Ending::kNoReceive;
    allows_late_ = false;
  }
  if (program_.ending == Program::Ending::kPeerGone) program_.is_late = false;
  program_.failing = static_cast<int>(prng_.below(2));
  for (int i = 0; i < Program::kSides; ++i) {
    Program::Side& side = program_.sides[i];
    choose_regions(side);
    side.windows.resize(prng_.below(3));
    for (auto& type : side.windows) type = prng_.one_in(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
    standing_[i].windows.resize(side.windows.size());
    side.access = kRemote;
    if (prng_.one_in(6) && program_.is_reliable()) {
      constexpr unsigned kRights[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
                                      IBV_ACCESS_REMOTE_ATOMIC};
      side.access &= ~kRights[prng_.below(3)];
    }
    side.has_shared_receives = prng_.one_in(4);
    side.has_one_completion_queue = prng_.one_in(3);
    side.signals_all = prng_.one_in(3);
    side.has_builder = prng_.one_in(3);
  }
}

void Generator::choose_regions(Program::Side& side) {
  const auto home = [&] { return static_cast<Program::Home>(prng_.below(3)); };
  const auto some = [&](std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(prng_.between(low, high));
  };
  const bool is_large = program_.is_reliable() && prng_.one_in(3);
  side.regions = {
      {home(), kAll | IBV_ACCESS_MW_BIND, some(40'000, 100'000), false},
      {home(), kAll, is_large ? kLargeOctets : some(10'000, 60'000), false},
      {home(), IBV_ACCESS_LOCAL_WRITE, some(5'000, 30'000), false},
      {home(), IBV_ACCESS_REMOTE_READ, some(5'000, 30'000), false},
      {home(), kAll, some(100, 5'000), true},
      {home(), kAll, 64, false},
  };
  constexpr unsigned kRights[] = {0,
                                  IBV_ACCESS_LOCAL_WRITE,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
                                  kAll,
                                  kAll | IBV_ACCESS_MW_BIND};
  for (auto more = prng_.below(3); more > 0; --more) {
    side.regions.push_back(
        {home(), kRights[prng_.below(std::size(kRights))], some(1, 20'000), false});
  }
}

// ---- A round without errors ----

void Generator::add_round(bool is_one_way) {
  Program::Round& round = program_.rounds.emplace_back();
  octets_left_ = program_.is_reliable() ? kReliableRoundOctets : kUnreliableRoundOctets;
  for (int side = 0; side < Program::kSides; ++side) {
    arrivals_[side] = {};
    const bool may_send = side == 0 || !is_one_way;
    if (may_send) change_windows(side, round.turns[side]);
    for (auto more = prng_.below(3); more > 0; --more) add_spare_receive(side, round.turns[side]);
  }
  for (int side = 0; side < Program::kSides; ++side) {
    if (side == 0 || !is_one_way) add_requests(side, round, prng_.below(8));
  }
  for (int side = 0; side < Program::kSides; ++side) close_turn(side, round.turns[side]);
  uses_.end_round();
}

void Generator::change_windows(int side, Program::Turn& turn) {
  Standing& standing = standing_[side];
  for (std::size_t i = 0; i < standing.windows.size(); ++i) {
    Window& window = standing.windows[i];
    const bool is_type2 = program_.sides[side].windows[i] == IBV_MW_TYPE_2;
    if (prng_.one_in(2)) continue;
    if (is_type2 && window.is_bound) {
      turn.binds.push_back({.window = static_cast<int>(i), .invalidates = true});
      window.is_bound = false;
      continue;
    }
    const std::uint32_t whole = program_.sides[side].regions[kMain].octets;
    const auto offset = static_cast<std::uint32_t>(prng_.below(whole - 64));
    window.slice = {.region = kMain,
                    .offset = offset,
                    .octets = static_cast<std::uint32_t>(prng_.between(64, whole - offset))};
    window.access = prng_.one_in(3) ? unsigned{IBV_ACCESS_REMOTE_WRITE} : kRemote;
    window.is_bound = true;
    turn.binds.push_back({.window = static_cast<int>(i),
                          .invalidates = false,
                          .slice = window.slice,
                          .access = window.access});
  }
}

Program::Receive Generator::make_receive(int side, std::uint32_t octets) {
  const Uses::Use use{.side = side, .writes = true, .stays = true};
  auto list = pick_list(use, octets, IBV_ACCESS_LOCAL_WRITE);
  return list ? Program::Receive{.list = std::move(*list)} : Program::Receive{};
}

void Generator::add_spare_receive(int side, Program::Turn& turn) {
  Standing& standing = standing_[side];
  if (standing.receives.size() >= kReceiveLimit) return;
  standing.receives.push_back(make_receive(side, std::min(pick_octets(), 20'000U)));
  turn.early.push_back(standing.receives.back());
}

void Generator::add_requests(int side, Program::Round& round, std::uint64_t count) {
  Program::Turn& turn = round.turns[side];
  for (; count > 0; --count) {
    if (auto request = make_request(side, round)) turn.requests.push_back(std::move(*request));
  }
  if (!turn.requests.empty() && !program_.is_reliable()) add_marker(side, turn);
  if (!turn.requests.empty()) turn.requests.back().flags |= IBV_SEND_SIGNALED;
}

/// Unreliable requests complete when they are sent. So the last one of a round is a marker, whose
/// arrival the peer awaits.
void Generator::add_marker(int side, Program::Turn& turn) {
  turn.requests.push_back({.opcode = IBV_WR_RDMA_WRITE,
                           .flags = 0,
                           .local = {{.region = kMarkers, .offset = 8, .octets = 8}},
                           .target = {.region = kMarkers},
                           .octets = 8,
                           .begins_call = true});
  ++orders_[side];
  turn.sends_marker = true;
}

Uses::Use Generator::use_by(int flow, ibv_wr_opcode opcode, bool is_remote) const noexcept {
  return {.side = is_remote ? 1 - flow : flow,
          .writes = is_remote ? opcode != IBV_WR_RDMA_READ
                              : opcode == IBV_WR_RDMA_READ || is_atomic(opcode),
          .flow = flow,
          .order = orders_[flow],
          .is_remote = is_remote,
          .is_answered = is_answered(opcode),
          .is_atomic = is_atomic(opcode)};
}

std::optional<Program::Request> Generator::make_request(int side, Program::Round& round) {
  const int peer = 1 - side;
  const Uses before = uses_;
  Request request;
  request.opcode = pick_opcode(side);
  ++orders_[side];
  request.begins_call = prng_.one_in(2);
  if (prng_.one_in(2)) request.flags |= IBV_SEND_SIGNALED;
  if (prng_.one_in(4)) request.flags |= IBV_SEND_SOLICITED;
  // A key may only be invalidated when READs and atomics through it are over.
  const bool must_wait = request.opcode == IBV_WR_SEND_WITH_INV;
  if ((must_wait || prng_.one_in(4)) && program_.is_reliable()) {
    request.flags |= IBV_SEND_FENCE;
    uses_.fence(side, orders_[side]);
  }
  request.immediate = static_cast<std::uint32_t>(prng_.next());
  request.compare_or_add = prng_.one_in(2) ? 0 : prng_.next();
  request.swap = prng_.next();
  const bool is_eight = is_atomic(request.opcode) || request.opcode == IBV_WR_ATOMIC_WRITE;
  request.octets = is_eight ? 8 : std::min(pick_octets(), octets_left_);
  const bool may_be_inline = !is_answered(request.opcode);
  if (may_be_inline && request.octets <= program_.inline_octets && prng_.one_in(2)) {
    request.flags |= IBV_SEND_INLINE;
  }
  const bool is_lost =
      !program_.is_reliable() && allows_losses_ && prng_.one_in(6) && lose(side, request);
  const bool takes = takes_receive(request.opcode) && !is_lost;
  if (takes) take_receive(side, round, request);
  bool fits = !is_rdma(request.opcode) || is_lost || pick_target(side, request);
  fits = fits && pick_local(side, request);
  if (!fits && !takes) {  // nothing has happened yet
    uses_ = before;
    return {};
  }
  if (!fits) {
    request.octets = 0;
    request.local.clear();
    if (is_rdma(request.opcode)) (void)pick_target(side, request);
  }
  if (request.opcode == IBV_WR_SEND_WITH_INV) invalidate_some(peer, request);
  octets_left_ -= std::min(octets_left_, request.octets);
  return request;
}

void Generator::invalidate_some(int peer, Request& request) {
  auto& windows = standing_[peer].windows;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (!windows[i].is_bound || program_.sides[peer].windows[i] != IBV_MW_TYPE_2) continue;
    request.invalidates = static_cast<int>(i);
    windows[i].is_bound = false;
    return;
  }
}

/// A message that the peer cannot receive and that is lost without an error. False when that is not
/// possible.
bool Generator::lose(int side, Request& request) {
  const int peer = 1 - side;
  // There it is not defined whether a receive that the lost message took shows in the end.
  if (program_.sides[peer].has_shared_receives) return false;
  Standing& there = standing_[peer];
  // Without a receive it may wait for one, for a while.
  if (takes_receive(request.opcode) && there.receives.empty()) return false;
  if (!is_rdma(request.opcode)) {
    const Program::Receive& front = there.receives.front();
    if (front.octets() >= octets_left_ || octets_left_ == 0) return false;
    request.octets = static_cast<std::uint32_t>(front.octets() + 1 + prng_.below(100));
    request.flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
    mark_undefined(peer, front.list);
    arrivals_[peer].lost = true;
    return true;
  }
  if (request.octets == 0) return false;
  // A receive may be taken for it, and stays for the next.
  constexpr int kRegions[] = {kPrivate, kReadOnly, kForeign, kMain, kLarge};
  request.target = {.region = kRegions[prng_.below(5)]};
  request.target.has_wrong_key = request.target.region == kLarge;
  if (request.target.region == kMain) {
    request.target.offset = program_.sides[peer].regions[kMain].octets - request.octets + 1;
  }
  arrivals_[peer].lost = true;
  return true;
}

/// The receive that the request will use at the peer: the oldest there, or a new one.
void Generator::take_receive(int side, Program::Round& round, Request& request) {
  const int peer = 1 - side;
  Standing& there = standing_[peer];
  Program::Turn& turn = round.turns[peer];
  const bool lands = !is_rdma(request.opcode);
  if (there.receives.empty()) {
    const std::uint32_t room =
        lands ? request.octets + (prng_.one_in(2) ? 0 : static_cast<std::uint32_t>(prng_.below(99)))
              : static_cast<std::uint32_t>(prng_.below(2) * 16);
    Program::Receive receive = make_receive(peer, room);
    const bool is_late =
        !turn.late.empty() || (program_.is_reliable() && allows_late_ && prng_.one_in(3));
    (is_late ? turn.late : turn.early).push_back(receive);
    there.receives.push_back(std::move(receive));
  }
  const Program::Receive receive = there.receives.front();
  there.receives.erase(there.receives.begin());
  if (lands) {
    request.octets =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(request.octets, receive.octets()));
  }
  for (const Slice& slice : receive.list) uses_.let_go(peer, slice);
  ++arrivals_[peer].receives;
  if ((request.flags & IBV_SEND_SOLICITED) != 0) arrivals_[peer].solicited = true;
}

bool Generator::pick_target(int side, Request& request) {
  const int peer = 1 - side;
  const unsigned right = right_of(request.opcode);
  if (request.octets == 0) {  // then neither key nor place matters
    request.target = {.region = static_cast<int>(prng_.below(kForeign + 1)),
                      .has_wrong_key = prng_.one_in(2)};
    return true;
  }
  const auto& windows = standing_[peer].windows;
  if (!windows.empty() && prng_.one_in(2)) {
    const auto i = prng_.below(windows.size());
    const Window& window = windows[i];
    if (window.is_bound && (window.access & right) != 0 && window.slice.octets >= request.octets) {
      Uses::Use use = use_by(side, request.opcode, true);
      use.slice = {.region = window.slice.region,
                   .offset = window.slice.offset + static_cast<std::uint32_t>(prng_.below(
                                                       window.slice.octets - request.octets + 1)),
                   .octets = request.octets};
      const bool is_eight = is_atomic(request.opcode) || request.opcode == IBV_WR_ATOMIC_WRITE;
      if (is_eight) use.slice.offset = (use.slice.offset + 7) / 8 * 8;
      const bool is_inside =
          use.slice.offset + use.slice.octets <= window.slice.offset + window.slice.octets;
      if (is_inside && uses_.allows(use)) {
        uses_.add(use);
        request.target = {
            .region = use.slice.region, .window = static_cast<int>(i), .offset = use.slice.offset};
        return true;
      }
    }
  }
  const auto slice = pick_slice(use_by(side, request.opcode, true), request.octets, right);
  if (slice) request.target = {.region = slice->region, .offset = slice->offset};
  return slice.has_value();
}

bool Generator::pick_local(int side, Request& request) {
  const bool lands = request.opcode == IBV_WR_RDMA_READ || is_atomic(request.opcode);
  const unsigned access = lands ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0U;
  const Uses::Use use = use_by(side, request.opcode, false);
  if (is_atomic(request.opcode) || request.opcode == IBV_WR_ATOMIC_WRITE) {
    const auto slice = pick_slice(use, 8, access);
    if (slice) request.local = {*slice};
    return slice.has_value();
  }
  auto list = pick_list(use, request.octets, access);
  if (list) request.local = std::move(*list);
  return list.has_value();
}

ibv_wr_opcode Generator::pick_opcode(int side) {
  const Program::Side& peer = program_.sides[1 - side];
  for (;;) {
    constexpr ibv_wr_opcode kOpcodes[] = {
        IBV_WR_SEND,          IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_WRITE,    IBV_WR_RDMA_READ,     IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_SEND_WITH_INV, IBV_WR_ATOMIC_WRITE,  IBV_WR_SEND,       IBV_WR_ATOMIC_FETCH_AND_ADD};
    const ibv_wr_opcode opcode = kOpcodes[prng_.below(std::size(kOpcodes))];
    if (!program_.is_reliable() && (is_answered(opcode) || opcode == IBV_WR_SEND_WITH_INV))
      continue;
    if ((right_of(opcode) & ~peer.access) != 0) continue;
    if (opcode == IBV_WR_ATOMIC_WRITE && !program_.sides[side].has_builder) continue;
    if (opcode != IBV_WR_SEND_WITH_INV) return opcode;
    const auto& windows = standing_[1 - side].windows;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      if (windows[i].is_bound && peer.windows[i] == IBV_MW_TYPE_2) return opcode;
    }
  }
}

std::uint32_t Generator::pick_octets() {
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(prng_.below(bound));
  };
  switch (prng_.below(12)) {
    case 0:
      return 0;
    case 1:
    case 2:
    case 3:
      return 1 + below(64);
    case 4:
    case 5:
      return mtu_octets() * (1 + below(4)) + below(3) - 1;
    case 6:
      return kChunkOctets + below(3) - 1;
    case 7:
      return below(600'000);
    case 8:
      return below(20'000);
    default:
      return below(2'000);
  }
}

/// Octets of the side with these rights that no other request uses; many attempts.
std::optional<Program::Slice> Generator::pick_slice(Uses::Use use, std::uint32_t octets,
                                                    unsigned access) {
  const auto& regions = program_.sides[use.side].regions;
  for (int tries = 0; tries < 24; ++tries) {
    const auto i = tries < 23 ? static_cast<int>(prng_.below(regions.size())) : int{kLarge};
    const Program::Region& region = regions[static_cast<std::size_t>(i)];
    if (i == kForeign || i == kMarkers || region.octets < octets) continue;
    if ((region.access & access) != access) continue;
    use.slice = {.region = i,
                 .offset = static_cast<std::uint32_t>(prng_.below(region.octets - octets + 1)),
                 .octets = octets};
    const bool is_at_eight = use.is_remote && use.is_answered && octets == 8;
    if (is_at_eight) use.slice.offset = use.slice.offset / 8 * 8;
    if (!uses_.allows(use)) continue;
    uses_.add(use);
    return use.slice;
  }
  return std::nullopt;
}

/// The same in several pieces, some of them empty, and those with keys that must not be checked.
std::optional<std::vector<Program::Slice>> Generator::pick_list(const Uses::Use& use,
                                                                std::uint32_t octets,
                                                                unsigned access) {
  std::vector<Slice> list;
  const auto pieces = prng_.between(octets == 0 ? 0 : 1, Program::kSgeLimit);
  for (std::uint64_t left = pieces; left > 0; --left) {
    if (prng_.one_in(8) && left > 1) {
      list.push_back({.region = kMain, .has_wrong_key = true});
      continue;
    }
    const auto part =
        left == 1 ? octets : static_cast<std::uint32_t>(prng_.below(std::uint64_t{octets} + 1));
    const auto slice = pick_slice(use, part, access);
    if (!slice) return std::nullopt;
    list.push_back(*slice);
    octets -= part;
  }
  return list;
}

void Generator::mark_undefined(int side, const std::vector<Slice>& list) {
  for (const Slice& slice : list) {
    if (slice.octets == 0) continue;
    program_.undefined.push_back({.side = side, .slice = slice});
    uses_.add({.side = side, .slice = slice, .writes = true, .stays = true, .is_undefined = true});
  }
}

// ---- What to wait for ----

void Generator::close_turn(int side, Program::Turn& turn) {
  count_completions(side, turn);
  const Standing& standing = standing_[side];
  const bool may_limit = program_.sides[side].has_shared_receives && turn.late.empty() &&
                         !arrivals_[side].lost && program_.is_reliable();
  const auto most = standing.receives.size() + arrivals_[side].receives;
  if (may_limit && most > 0 && prng_.one_in(2)) {
    turn.limit = static_cast<std::uint32_t>(prng_.between(1, most));
    turn.expects_limit_event = standing.receives.size() < turn.limit;
  }
  arm(side, turn);
}

void Generator::count_completions(int side, Program::Turn& turn) {
  for (const Request& request : turn.requests) {
    const bool is_signaled = (request.flags & IBV_SEND_SIGNALED) != 0;
    if (is_signaled || program_.sides[side].signals_all) ++turn.sends_done;
  }
  turn.receives_done = arrivals_[side].receives;
}

void Generator::arm(int side, Program::Turn& turn) {
  Program::Arm& armed = standing_[side].armed;
  turn.arms = static_cast<Program::Arm>(prng_.below(3));
  // Arming for solicited events after arming for all changes nothing.
  if (armed == Program::Arm::kAny) turn.arms = Program::Arm::kNo;
  if (turn.arms != Program::Arm::kNo) armed = turn.arms;
  const bool has_sends =
      program_.sides[side].has_one_completion_queue && (turn.sends_done > 0 || !turn.binds.empty());
  const bool fires = armed == Program::Arm::kAny
                         ? has_sends || turn.receives_done > 0
                         : armed == Program::Arm::kSolicited && arrivals_[side].solicited;
  turn.expects_channel_event = fires;
  if (fires) armed = Program::Arm::kNo;
}

}  // namespace verbatim::testing

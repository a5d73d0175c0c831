// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <algorithm>
#include <cstring>

#include "base/pointer.h"

namespace verbatim::sim {

using memory::Access;
using transport::Completion;
using transport::SendFlags;
using transport::SendOpcode;
using transport::WcStatus;

namespace {

constexpr std::size_t kSourceOctets = 64 * 1024;
constexpr std::size_t kTargetOctets = 16 * 1024;
constexpr std::size_t kUntouchableOctets = 512;
constexpr std::uint64_t kReceiveIdBit = std::uint64_t{1} << 63;

void fill_random(std::span<std::byte> buffer, Prng& prng) noexcept {
  for (std::byte& octet : buffer) octet = std::byte{static_cast<std::uint8_t>(prng.next())};
}

}  // namespace

Workload::Workload(const Limits& limits, Endpoint& from, std::size_t from_qp, Endpoint& to,
                   std::size_t to_qp, std::uint64_t seed)
    : limits_(limits), from_(from), from_qp_(from_qp), to_(to), to_qp_(to_qp), prng_(seed) {
  source_ = from.allocate(kSourceOctets);
  fill_random(source_, prng_);
  source_key_ = from.register_memory(source_, Access::kNone);
  answers_ = from.allocate(std::size_t{limits.request_count} * (limits.message_octets_max + 8));
  answers_key_ = from.register_memory(answers_, Access::kLocalWrite);
  target_ = to.allocate(kTargetOctets);
  fill_random(target_, prng_);
  model_.assign(target_.begin(), target_.end());
  target_key_ = to.register_memory(target_, Access::kLocalWrite | Access::kRemoteWrite |
                                                Access::kRemoteRead | Access::kRemoteAtomic |
                                                Access::kFlushGlobal | Access::kFlushPersistent);
  untouchable_ = to.allocate(kUntouchableOctets);
  (void)to.register_memory(untouchable_, Access::kLocalWrite);  // has a key, but no remote rights
  const auto receives =
      to.allocate(std::size_t{limits.request_count} * std::max(limits.message_octets_max, 1U));
  receive_key_ = to.register_memory(receives, Access::kLocalWrite);
  for (std::uint32_t i = 0; i < limits.request_count; ++i) {
    receive_buffers_.push_back(
        receives.subspan(std::size_t{i} * limits.message_octets_max, limits.message_octets_max));
  }
  requests_.reserve(limits.request_count);
  for (std::uint32_t i = 0; i < limits.request_count; ++i) make_request(i);
}

void Workload::complain(const std::string& what) {
  if (complaint_.empty()) complaint_ = what;
}

// ---- Making requests ----

void Workload::make_request(std::uint64_t id) {
  Request& request = requests_.emplace_back();
  request.request.wr_id = id;
  if (!prng_.one_in(3)) request.request.flags = SendFlags::kSignaled;
  if (prng_.one_in(12)) request.request.flags = request.request.flags | SendFlags::kFence;
  if (prng_.one_in(5)) request.request.flags = request.request.flags | SendFlags::kSolicited;
  switch (prng_.below(12)) {
    case 0:
    case 1:
    case 2:
      make_send(request);
      break;
    case 3:
    case 4:
    case 5:
      make_write(request);
      break;
    case 6:
    case 7:
    case 8:
      make_read(request);
      break;
    case 9:
    case 10:
      make_atomic(request);
      break;
    default:
      prng_.one_in(2) ? make_atomic_write(request) : make_flush(request);
  }
}

/// Picks octets of the source, divided into random elements, some of them empty, or inline.
void Workload::make_source(Request& request, std::uint32_t octets) {
  const bool is_inline = octets <= limits_.inline_limit && prng_.one_in(2);
  if (is_inline) request.request.flags = request.request.flags | SendFlags::kInline;
  const auto elements = static_cast<std::uint32_t>(prng_.between(1, limits_.sge_limit));
  std::uint32_t left = octets;
  for (std::uint32_t i = 0; i < elements; ++i) {
    const bool last = i + 1 == elements;
    const auto piece = last ? left : static_cast<std::uint32_t>(prng_.below(left + 1));
    const std::size_t at = prng_.below(source_.size() - piece + 1);
    const bool nonsense_key = piece == 0 || is_inline;  // the key must not be checked
    const std::uint64_t start =
        is_inline ? numeric_address(source_.data()) : from_.address_of(source_);
    request.list.push_back({.address = start + at,
                            .octets = piece,
                            .lkey = nonsense_key ? wire::MemoryKey{0xdead} : source_key_});
    left -= piece;
  }
}

void Workload::make_landing(Request& request, std::uint32_t octets) {
  request.answer_lands = answers_.subspan(answers_used_, octets);
  const std::uint64_t address = from_.address_of(answers_) + answers_used_;
  answers_used_ += octets;
  std::uint32_t done = 0;
  const auto elements = static_cast<std::uint32_t>(prng_.between(1, limits_.sge_limit));
  for (std::uint32_t i = 0; i < elements; ++i) {
    const bool last = i + 1 == elements;
    const auto piece =
        last ? octets - done : static_cast<std::uint32_t>(prng_.below(octets - done + 1));
    request.list.push_back({.address = address + done, .octets = piece, .lkey = answers_key_});
    done += piece;
  }
}

std::vector<std::byte> Workload::bytes_of(const Request& request) const {
  std::vector<std::byte> bytes;
  const bool is_inline = has(request.request.flags, SendFlags::kInline);
  const std::uint64_t start =
      is_inline ? numeric_address(source_.data()) : from_.address_of(source_);
  for (const memory::Sge& sge : request.list) {
    const auto piece = source_.subspan(sge.address - start, sge.octets);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

std::span<std::byte> Workload::model(std::size_t offset, std::size_t octets) {
  return std::span(model_).subspan(offset, octets);
}

/// A change must not overtake an earlier READ of the same octets.
void Workload::fence_if_read(Request& request, std::size_t offset, std::size_t octets) {
  const bool overlaps = std::ranges::any_of(unfenced_reads_, [&](const Range& read) {
    return offset < read.offset + read.octets && read.offset < offset + octets;
  });
  if (overlaps) request.request.flags = request.request.flags | SendFlags::kFence;
  if (has(request.request.flags, SendFlags::kFence)) unfenced_reads_.clear();
}

void Workload::expect_receive(const Request& request, bool is_write) {
  Receive receive;
  const auto bytes = bytes_of(request);
  receive.octets = static_cast<std::uint32_t>(bytes.size());
  if (!is_write) receive.data = bytes;
  receive.is_write = is_write;
  receive.solicited = has(request.request.flags, SendFlags::kSolicited);
  const SendOpcode opcode = request.request.opcode;
  if (opcode == SendOpcode::kSendImm || opcode == SendOpcode::kWriteImm) {
    receive.with_immediate = true;
    receive.imm_or_key = static_cast<std::uint32_t>(request.request.immediate);
  }
  if (opcode == SendOpcode::kSendInvalidate) {
    receive.with_invalidate = true;
    receive.imm_or_key = static_cast<std::uint32_t>(request.request.invalidate_key);
  }
  receives_expected_.push_back(std::move(receive));
}

void Workload::make_send(Request& request) {
  request.request.opcode = SendOpcode::kSend;
  if (prng_.one_in(3)) {
    request.request.opcode = SendOpcode::kSendImm;
    request.request.immediate = wire::Immediate{static_cast<std::uint32_t>(prng_.next())};
  } else if (prng_.one_in(4)) {
    // A window of the peer that this request invalidates.
    auto window = to_.keys().allocate_window(to_.domain(), memory::KeyKind::kWindowType2B);
    if (window) {
      const memory::BindRequest bind{.window_key = *window,
                                     .new_key = memory::KeyRegistry::next_key(*window),
                                     .region_key = target_key_,
                                     .address = to_.address_of(target_),
                                     .octets = 8,
                                     .access = Access::kRemoteWrite};
      // The region was registered without the right to bind, so another one is registered for it.
      const auto bindable =
          to_.register_memory(target_.first(8), Access::kLocalWrite | Access::kBindWindow);
      memory::BindRequest allowed = bind;
      allowed.region_key = bindable;
      const auto refused =
          memory::bind_type2(to_.key_table(), {.domain = to_.domain(), .qp = receiver()}, allowed);
      VB_ASSERT(refused == memory::BindRefusal::kNone);
      request.request.opcode = SendOpcode::kSendInvalidate;
      request.request.invalidate_key = allowed.new_key;
    }
  }
  make_source(request, static_cast<std::uint32_t>(prng_.below(limits_.message_octets_max + 1)));
  expect_receive(request, false);
}

void Workload::make_write(Request& request) {
  const bool with_immediate = prng_.one_in(3);
  request.request.opcode = with_immediate ? SendOpcode::kWriteImm : SendOpcode::kWrite;
  request.request.immediate = wire::Immediate{static_cast<std::uint32_t>(prng_.next())};
  const auto octets = static_cast<std::uint32_t>(
      prng_.below(std::min<std::uint64_t>(limits_.message_octets_max, kTargetOctets) + 1));
  make_source(request, octets);
  const std::size_t offset = prng_.below(kTargetOctets - octets + 1);
  request.request.remote_address = to_.address_of(target_) + offset;
  request.request.rkey = octets == 0 ? wire::MemoryKey{0xdead} : target_key_;
  fence_if_read(request, offset, octets);
  std::ranges::copy(bytes_of(request), model(offset, octets).begin());
  if (with_immediate) expect_receive(request, true);
}

void Workload::make_read(Request& request) {
  request.request.opcode = SendOpcode::kRead;
  const auto octets = static_cast<std::uint32_t>(
      prng_.below(std::min<std::uint64_t>(limits_.message_octets_max, kTargetOctets) + 1));
  make_landing(request, octets);
  const std::size_t offset = prng_.below(kTargetOctets - octets + 1);
  request.request.remote_address = to_.address_of(target_) + offset;
  request.request.rkey = target_key_;
  if (has(request.request.flags, SendFlags::kFence)) unfenced_reads_.clear();
  unfenced_reads_.push_back({offset, octets});
  const auto now = model(offset, octets);
  request.answer_expected.assign(now.begin(), now.end());
}

void Workload::make_atomic(Request& request) {
  make_landing(request, 8);
  const std::size_t offset = 8 * prng_.below(kTargetOctets / 8);
  request.request.remote_address = to_.address_of(target_) + offset;
  request.request.rkey = target_key_;
  fence_if_read(request, offset, 8);
  std::uint64_t value;
  std::memcpy(&value, model(offset, 8).data(), 8);
  request.answer_expected.assign(model(offset, 8).begin(), model(offset, 8).end());
  if (prng_.one_in(2)) {
    request.request.opcode = SendOpcode::kFetchAdd;
    request.request.compare_or_add = prng_.next();
    value += request.request.compare_or_add;
  } else {
    request.request.opcode = SendOpcode::kCompareSwap;
    request.request.compare_or_add = prng_.one_in(2) ? value : prng_.next();
    request.request.swap = prng_.next();
    if (request.request.compare_or_add == value) value = request.request.swap;
  }
  std::memcpy(model(offset, 8).data(), &value, 8);
}

void Workload::make_atomic_write(Request& request) {
  request.request.opcode = SendOpcode::kAtomicWrite;
  make_source(request, 8);
  const std::size_t offset = 8 * prng_.below(kTargetOctets / 8);
  request.request.remote_address = to_.address_of(target_) + offset;
  request.request.rkey = target_key_;
  fence_if_read(request, offset, 8);
  std::ranges::copy(bytes_of(request), model(offset, 8).begin());
}

void Workload::make_flush(Request& request) {
  request.request.opcode = SendOpcode::kFlush;
  request.request.remote_address = to_.address_of(target_);
  request.request.rkey = target_key_;
  request.request.flush_octets = static_cast<std::uint32_t>(prng_.below(kTargetOctets));
  request.request.flush.placement =
      prng_.one_in(2) ? wire::Feth::kPersistence : wire::Feth::kGlobalVisibility;
  if (has(request.request.flags, SendFlags::kFence)) unfenced_reads_.clear();
}

// ---- Running ----

void Workload::post_receive(std::uint32_t number) {
  const auto buffer = receive_buffers_[number];
  const auto all = static_cast<std::uint32_t>(buffer.size());
  const auto half = limits_.sge_limit < 2 ? all : static_cast<std::uint32_t>(prng_.below(all + 1));
  const memory::Sge list[2] = {
      {.address = to_.address_of(buffer), .octets = half, .lkey = receive_key_},
      {.address = to_.address_of(buffer) + half, .octets = all - half, .lkey = receive_key_}};
  auto posted = to_.qp(to_qp_).post_receive(
      {.wr_id = kReceiveIdBit | number,
       .list = std::span(list).first(std::min<std::size_t>(2, limits_.sge_limit))});
  if (posted) {
    ++receives_posted_;
  } else if (posted.error() != Errc::kNoMemory) {
    complain("a good receive was refused");
  }
}

void Workload::post() {
  if (has_failed_connection()) return;
  while (receives_posted_ < receives_expected_.size() && !prng_.one_in(4)) {
    const auto before = receives_posted_;
    post_receive(receives_posted_);
    if (receives_posted_ == before) break;
  }
  while (posted_ < requests_.size() && !prng_.one_in(5)) {
    Request& next = requests_[posted_];
    next.request.list = next.list;
    auto posted = from_.qp(from_qp_).post_send(next.request);
    if (!posted) {
      if (posted.error() != Errc::kNoMemory) complain("a good request was refused");
      break;
    }
    ++posted_;
  }
}

void Workload::handle_send_completion(const Completion& completion) {
  ++completions_seen_;
  if (completion.wr_id < next_completion_ || completion.wr_id >= posted_) {
    complain("completion of request " + std::to_string(completion.wr_id) + " out of order");
    return;
  }
  // No request that had to be reported may be missing.
  for (std::uint64_t id = next_completion_; id < completion.wr_id; ++id) {
    const bool due = sender_failed_ || has(requests_[id].request.flags, SendFlags::kSignaled);
    if (due) complain("request " + std::to_string(id) + " was never reported");
  }
  next_completion_ = completion.wr_id + 1;
  const Request& request = requests_[completion.wr_id];
  if (sender_failed_) {
    if (completion.status != WcStatus::kFlushed) complain("a request behind a failure succeeded");
    return;
  }
  if (completion.status != WcStatus::kSuccess) {
    sender_failed_ = true;
    const bool expected = completion.status == WcStatus::kRetryExceeded ||
                          completion.status == WcStatus::kFlushed;  // the other direction failed
    if (!limits_.may_fail || !expected) {
      complain("request " + std::to_string(completion.wr_id) + " failed with status " +
               std::to_string(static_cast<int>(completion.status)) + ", reason " +
               transport::describe(transport::Reason(completion.vendor_error())));
    }
    return;
  }
  if (!has(request.request.flags, SendFlags::kSignaled)) {
    complain("an unsignaled request was reported");
  }
  // All requests up to this one are done, so all their answers are in memory.
  if (!std::ranges::equal(request.answer_expected, request.answer_lands)) {
    complain("request " + std::to_string(completion.wr_id) + " brought back wrong data");
  }
  delivered_octets_ += completion.octets;
}

void Workload::handle_receive_completion(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) {
    if (!limits_.may_fail) complain("a receive failed");
    receiver_failed_ = true;
    return;
  }
  if (receives_seen_ >= receives_expected_.size()) {
    complain("more receives than messages");
    return;
  }
  const Receive& expected = receives_expected_[receives_seen_];
  const auto number = static_cast<std::uint32_t>(completion.wr_id & ~kReceiveIdBit);
  if (number != receives_seen_) complain("receives completed out of order");
  const auto data = receive_buffers_[number].first(
      std::min<std::size_t>(expected.data.size(), receive_buffers_[number].size()));
  const auto flags = static_cast<std::uint8_t>(completion.flags);
  const bool with_immediate =
      (flags & static_cast<std::uint8_t>(transport::WcFlags::kWithImm)) != 0;
  const bool with_invalidate =
      (flags & static_cast<std::uint8_t>(transport::WcFlags::kWithInvalidate)) != 0;
  const std::string which = "receive " + std::to_string(receives_seen_);
  if (completion.octets != expected.octets) complain(which + " has a wrong length");
  if (!std::ranges::equal(data, expected.data)) complain(which + " has wrong data");
  if (with_immediate != expected.with_immediate || with_invalidate != expected.with_invalidate) {
    complain(which + " has wrong flags");
  }
  if (with_immediate || with_invalidate) {
    if (completion.imm_or_key != expected.imm_or_key) complain(which + " has a wrong immediate");
  }
  if (with_invalidate && to_.key_table().check_whole({.key = wire::MemoryKey{completion.imm_or_key},
                                                      .domain = to_.domain(),
                                                      .qp = receiver()})) {
    complain(which + " left its key valid");
  }
  if (completion.solicited != expected.solicited) complain(which + " is wrongly solicited");
  const auto opcode =
      expected.is_write ? transport::WcOpcode::kReceiveWithImm : transport::WcOpcode::kReceive;
  if (completion.opcode != opcode) complain(which + " has a wrong opcode");
  ++receives_seen_;
}

bool Workload::is_finished() const noexcept {
  if (has_failed_connection()) return true;
  const bool sent = posted_ == requests_.size();
  const bool received = receives_seen_ == receives_expected_.size();
  return sent && received && from_.qp(from_qp_).machine().has_no_sends();
}

void Workload::check_final() {
  if (!std::ranges::all_of(untouchable_, [](std::byte octet) { return octet == std::byte{0}; })) {
    complain("memory without remote rights was written");
  }
  if (has_failed_connection()) return;
  if (!std::ranges::equal(model_, target_)) complain("the target's memory is not as modelled");
  for (const Request& request : requests_) {
    if (!std::ranges::equal(request.answer_expected, request.answer_lands)) {
      complain("request " + std::to_string(request.request.wr_id) + " brought back wrong data");
    }
  }
  for (std::uint64_t id = next_completion_; id < requests_.size(); ++id) {
    if (has(requests_[id].request.flags, SendFlags::kSignaled)) {
      complain("request " + std::to_string(id) + " was never reported");
    }
  }
}

}  // namespace verbatim::sim

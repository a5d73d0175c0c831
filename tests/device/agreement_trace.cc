// SPDX-License-Identifier: Apache-2.0
// The record of everything that a side of a program sees.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "agreement_side.h"

namespace verbatim::testing {

namespace {

template <typename... Values>
std::string print(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::uint64_t hash_of(const std::vector<std::uint8_t>& octets) noexcept {
  std::uint64_t hash = 0x9e37'79b9'7f4a'7c15U;
  for (std::size_t i = 0; i < octets.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, octets.data() + i, std::min<std::size_t>(8, octets.size() - i));
    hash = (hash ^ word) * 0xff51'afd7'ed55'8ccdU;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

/// Waits until a round without errors is over, at both sides.
void Executor::check(std::size_t round) {
  if (board_.is_given_up) return;
  const Program::Turn& turn = program_.rounds[round].turns[side_];
  collect();  // completions that should not be there
  note("side %d, round %zu", side_, round);
  note_completions();
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, 0) == 1) {
    ibv_cq* cq = nullptr;
    void* tag = nullptr;
    demand(ibv_get_cq_event(channel_, &cq, &tag) == 0, "take an event");
    ibv_ack_cq_events(cq, 1);
    note("  the channel told%s", turn.expects_channel_event ? "" : ", for no reason");
  }
  const bool is_established =
      program_.is_late && side_ == 1 && round == 0 && !program_.rounds[0].turns[0].requests.empty();
  if (is_established) ++events_due_;
  if (turn.expects_limit_event) {
    ++events_due_;
  } else if (turn.limit != 0) {
    ibv_srq_attr none{};
    demand(ibv_modify_srq(srq_, &none, IBV_SRQ_LIMIT) == 0, "lift the limit");
  }
  await_events();
  note_queue_pair(true);
  note_memory();
}

void Executor::await_events() {
  await_that(
      [&] {
        collect_events();
        return events_.size() >= events_due_;
      },
      "events");
}

/// After a failure: waits until the queue pair that must fail is in error.
void Executor::await_failure() {
  const bool fails = program_.fails_peer && side_ == 1 - program_.failing && !board_.is_given_up;
  if (fails) {
    await_that([&] { return state() == IBV_QPS_ERR; }, "the failure");
  }
}

ibv_qp_state Executor::state() {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  demand(ibv_query_qp(qp_, &attr, IBV_QP_STATE, &init) == 0, "query the queue pair");
  return attr.qp_state;
}

/// Everything that is still posted is flushed, and so are new requests.
void Executor::enter_error() {
  if (board_.is_given_up) return;
  note("side %d, end", side_);
  note_queue_pair(false);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  modify(attr, IBV_QP_STATE);
  ibv_send_wr request{};
  request.wr_id = sends_posted_++;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  demand(ibv_post_send(qp_, &request, &bad) == 0, "post in error");
  ++sends_due_;
  if (srq_ == nullptr) receive({});
}

void Executor::await_end() {
  if (board_.is_given_up) return;
  const bool has_failed_with_peer = program_.fails_peer && side_ == 1 - program_.failing;
  receives_due_ = srq_ == nullptr
                      ? receives_posted_
                      : receives_due_ + (has_failed_with_peer && program_.fails_receive ? 1 : 0);
  if (has_failed_with_peer && !program_.fails_receive) ++events_due_;
  if (srq_ != nullptr) ++events_due_;  // its last receive
  await_that(
      [&] {
        collect();
        return sends_.size() >= sends_due_ && receives_.size() >= receives_due_;
      },
      "the rest");
  await_events();
}

void Executor::check_end() {
  if (board_.is_given_up) return;
  collect();
  collect_events();
  note_completions();
  note_queue_pair(false);
  std::ranges::sort(events_);
  for (const std::string& event : events_) note("  event: %s", event.c_str());
  note_memory();
}

// ---- As text ----

std::string Executor::text_of(const ibv_wc& wc, bool is_receive) {
  std::string text =
      print("  %s %llu: %s", is_receive ? "receive" : "send",
            static_cast<unsigned long long>(wc.wr_id & 0xffff'ffff), ibv_wc_status_str(wc.status));
  if (wc.qp_num != qp_->qp_num) text += ", of another queue pair";
  if (wc.status != IBV_WC_SUCCESS) return text;  // nothing else is defined
  text += print(", opcode %d, %u octets, flags %#x", static_cast<int>(wc.opcode), wc.byte_len,
                static_cast<unsigned>(wc.wc_flags));
  if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) {
    const auto found = std::ranges::find_if(
        windows_, [&](const ibv_mw* mw) { return mw->rkey == wc.invalidated_rkey; });
    text += print(", invalidated %d", static_cast<int>(found - windows_.begin()));
  } else if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
    text += print(", immediate %#x", wc.imm_data);
  }
  if (wc.src_qp != 0)
    text += wc.src_qp == there().number ? ", from the peer" : ", from an unknown queue pair";
  return text;
}

void Executor::note_completions() {
  for (; sends_noted_ < sends_.size(); ++sends_noted_) {
    note("%s", text_of(sends_[sends_noted_], false).c_str());
  }
  for (; receives_noted_ < receives_.size(); ++receives_noted_) {
    note("%s", text_of(receives_[receives_noted_], true).c_str());
  }
}

void Executor::note_queue_pair(bool has_psns) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  demand(ibv_query_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init) == 0,
         "query the queue pair");
  note("  state %d", static_cast<int>(attr.qp_state));
  if (has_psns) note("  next PSN %#x, expected %#x", attr.sq_psn, attr.rq_psn);
}

void Executor::note_memory() {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    std::vector<std::uint8_t> octets(memory_[i].at, memory_[i].at + plan().regions[i].octets);
    for (const Program::Undefined& undefined : program_.undefined) {
      if (undefined.side != side_ || undefined.slice.region != static_cast<int>(i)) continue;
      const auto first = octets.begin() + undefined.slice.offset;
      std::fill(first, first + undefined.slice.octets, std::uint8_t{0});
    }
    note("  region %zu holds %016llx", i, static_cast<unsigned long long>(hash_of(octets)));
  }
}

}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
#include "agreement_side.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agreement_generator.h"

namespace verbatim::testing {

namespace {

constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 32;  // in a wr_id
constexpr std::uint32_t kNoSuchKey = 0x5a;  // changes a key into one that does not exist
constexpr int kMarkers = 5;                 // the region of markers

std::size_t mapped_octets(std::uint32_t octets) noexcept { return (octets + 4095U) / 4096 * 4096; }

}  // namespace

bool OpenDevice::open() {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return false;
  context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (context == nullptr) return false;
  pd = ibv_alloc_pd(context);
  foreign_pd = ibv_alloc_pd(context);
  ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  return pd != nullptr && foreign_pd != nullptr && find_gid();
}

bool OpenDevice::find_gid() {
  for (std::uint32_t i = 0; ibv_query_gid_ex(context, 1, i, &gid, 0) == 0; ++i) {
    if (gid.gid.raw[10] == 0xff && gid.gid.raw[12] == 127) return true;
  }
  return false;
}

Executor::Executor(const Program& program, int side, const OpenDevice& device, Board& board)
    : program_(program), side_(side), device_(device), board_(board) {}

Executor::~Executor() {
  if (qp_ != nullptr) demand(ibv_destroy_qp(qp_) == 0, "destroy the queue pair");
  if (srq_ != nullptr) demand(ibv_destroy_srq(srq_) == 0, "destroy the shared queue");
  for (ibv_mw* mw : windows_) demand(ibv_dealloc_mw(mw) == 0, "free the window");
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    demand(ibv_dereg_mr(memory_[i].mr) == 0, "deregister the region");
    if (plan().regions[i].home == Program::Home::kHeap) {
      std::free(memory_[i].at);
    } else {
      ::munmap(memory_[i].at, mapped_octets(plan().regions[i].octets));
    }
  }
  if (send_cq_ != nullptr && send_cq_ != receive_cq_) ibv_destroy_cq(send_cq_);
  if (receive_cq_ != nullptr) ibv_destroy_cq(receive_cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

void Executor::demand(bool holds, const char* what) {
  if (holds) return;
  note("side %d could not %s: %s", side_, what, std::strerror(errno));
  board_.is_given_up = true;
}

// ---- Setting up ----

void Executor::set_up() {
  make_memory();
  make_queues();
  const ibv_qp_attr attr = [&] {
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    init.qp_access_flags = plan().access;
    return init;
  }();
  modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  here().number = qp_ != nullptr ? qp_->qp_num : 0;
}

void Executor::make_memory() {
  std::uint64_t word = program_.seed * 77 + static_cast<std::uint64_t>(side_);
  for (const Program::Region& region : plan().regions) {
    Memory& memory = memory_.emplace_back();
    if (region.home == Program::Home::kHeap) {
      memory.at = static_cast<std::uint8_t*>(std::malloc(region.octets));
    } else {
      const int sharing = region.home == Program::Home::kShared ? MAP_SHARED : MAP_PRIVATE;
      memory.at = static_cast<std::uint8_t*>(::mmap(nullptr, mapped_octets(region.octets),
                                                    PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS,
                                                    -1, 0));
    }
    for (std::uint32_t i = 0; i < region.octets; ++i) {
      word = word * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
      memory.at[i] = static_cast<std::uint8_t>(word >> 56);
    }
    memory.mr = ibv_reg_mr(region.is_foreign ? device_.foreign_pd : device_.pd, memory.at,
                           region.octets, region.access);
    demand(memory.mr != nullptr, "register memory");
    if (memory.mr == nullptr) return;
    const std::size_t i = memory_.size() - 1;
    here().addresses[i] = reinterpret_cast<std::uintptr_t>(memory.at);
    here().keys[i] = memory.mr->rkey;
  }
  std::memset(memory_[kMarkers].at, 0, 64);
  for (const ibv_mw_type type : plan().windows) {
    windows_.push_back(ibv_alloc_mw(device_.pd, type));
    demand(windows_.back() != nullptr, "make a window");
    here().window_keys[windows_.size() - 1] = windows_.back()->rkey;
  }
}

void Executor::make_queues() {
  constexpr int kCapacity = 4 * Program::kDepth;
  channel_ = ibv_create_comp_channel(device_.context);
  receive_cq_ = ibv_create_cq(device_.context, kCapacity, nullptr, channel_, 0);
  send_cq_ = plan().has_one_completion_queue
                 ? receive_cq_
                 : ibv_create_cq(device_.context, kCapacity, nullptr, nullptr, 0);
  if (plan().has_shared_receives) {
    ibv_srq_init_attr wanted{};
    wanted.attr.max_wr = Program::kDepth;
    wanted.attr.max_sge = Program::kSgeLimit;
    srq_ = ibv_create_srq(device_.pd, &wanted);
    demand(srq_ != nullptr, "make a shared receive queue");
  }
  ibv_qp_init_attr_ex init{};
  init.qp_type = program_.type;
  init.send_cq = send_cq_;
  init.recv_cq = receive_cq_;
  init.srq = srq_;
  init.sq_sig_all = plan().signals_all ? 1 : 0;
  init.cap = {.max_send_wr = Program::kDepth,
              .max_recv_wr = Program::kDepth,
              .max_send_sge = Program::kSgeLimit,
              .max_recv_sge = Program::kSgeLimit,
              .max_inline_data = program_.inline_octets};
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = device_.pd;
  if (plan().has_builder) {
    init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    if (program_.is_reliable()) {
      init.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
                             IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE;
    }
  }
  qp_ = ibv_create_qp_ex(device_.context, &init);
  demand(qp_ != nullptr, "make a queue pair");
  if (plan().has_builder && qp_ != nullptr) builder_ = ibv_qp_to_qp_ex(qp_);
}

void Executor::modify(ibv_qp_attr attr, int mask) {
  if (board_.is_given_up) return;
  errno = ibv_modify_qp(qp_, &attr, mask);
  demand(errno == 0, "modify the queue pair");
}

void Executor::get_ready() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = program_.mtu;
  attr.dest_qp_num = there().number;
  attr.rq_psn = program_.first_psn[1 - side_];
  attr.max_dest_rd_atomic = program_.read_depth;
  attr.min_rnr_timer = program_.ending == Program::Ending::kNoReceive ? 10 : 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 1;
  attr.ah_attr.grh.dgid = device_.gid.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device_.gid.gid_index);
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (program_.is_reliable()) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  modify(attr, mask);
  if (side_ == 0 || !program_.is_late) get_ready_to_send();
}

void Executor::get_ready_to_send() {
  const bool is_alone = program_.ending == Program::Ending::kPeerGone;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = program_.first_psn[side_];
  attr.timeout = is_alone ? 10 : 14;
  attr.retry_cnt = is_alone ? 1 : 7;
  attr.rnr_retry = program_.ending == Program::Ending::kNoReceive ? 1 : 7;
  attr.max_rd_atomic = program_.read_depth;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (program_.is_reliable()) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  modify(attr, mask);
}

// ---- Posting ----

std::vector<ibv_sge> Executor::list_of(const std::vector<Program::Slice>& slices) const {
  std::vector<ibv_sge> list;
  for (const Program::Slice& slice : slices) {
    const Memory& memory = memory_[static_cast<std::size_t>(slice.region)];
    list.push_back({.addr = reinterpret_cast<std::uintptr_t>(memory.at) + slice.offset,
                    .length = slice.octets,
                    .lkey = memory.mr->lkey ^ (slice.has_wrong_key ? kNoSuchKey : 0U)});
  }
  return list;
}

std::uint32_t Executor::key_of(const Program::Target& target) {
  const std::uint32_t key = target.window >= 0
                                ? there().window_keys[target.window]
                                : there().keys[static_cast<std::size_t>(target.region)];
  return key ^ (target.has_wrong_key ? kNoSuchKey : 0U);
}

std::uint32_t Executor::invalidated_key(int window) {
  return window >= 0 ? there().window_keys[window] : there().keys[0] ^ kNoSuchKey;
}

void Executor::prepare(std::size_t round) {
  const Program::Turn& turn = program_.rounds[round].turns[side_];
  if (board_.is_given_up) return;
  if (program_.is_late && side_ == 1 && round == 1) get_ready_to_send();
  if (program_.ending == Program::Ending::kPeerGone && side_ == 1) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    modify(attr, IBV_QP_STATE);
  }
  if (turn.arms != Program::Arm::kNo) {
    const bool is_solicited = turn.arms == Program::Arm::kSolicited;
    demand(ibv_req_notify_cq(receive_cq_, is_solicited ? 1 : 0) == 0, "arm");
  }
  const std::uint64_t marker = round + 1;
  std::memcpy(memory_[kMarkers].at + 8, &marker, sizeof marker);
  for (const Program::Bind& change : turn.binds) bind(change);
  for (const Program::Receive& early : turn.early) receive(early);
  if (turn.limit != 0) {
    ibv_srq_attr attr{};
    attr.srq_limit = turn.limit;
    demand(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT) == 0, "set a limit");
  }
}

void Executor::bind(const Program::Bind& change) {
  ibv_mw* mw = windows_[static_cast<std::size_t>(change.window)];
  const ibv_mw_bind_info info{
      .mr = memory_[static_cast<std::size_t>(change.slice.region)].mr,
      .addr = reinterpret_cast<std::uintptr_t>(
                  memory_[static_cast<std::size_t>(change.slice.region)].at) +
              change.slice.offset,
      .length = change.slice.octets,
      .mw_access_flags = change.access};
  ++sends_due_;
  if (!change.invalidates && mw->type == IBV_MW_TYPE_1) {
    ibv_mw_bind request{};
    request.wr_id = sends_posted_++;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_info = info;
    demand(ibv_bind_mw(qp_, mw, &request) == 0, "bind a window");
  } else {
    ibv_send_wr request{};
    request.wr_id = sends_posted_++;
    request.send_flags = IBV_SEND_SIGNALED;
    request.opcode = change.invalidates ? IBV_WR_LOCAL_INV : IBV_WR_BIND_MW;
    if (change.invalidates) {
      request.invalidate_rkey = mw->rkey;
    } else {
      request.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = info};
    }
    ibv_send_wr* bad = nullptr;
    demand(ibv_post_send(qp_, &request, &bad) == 0, "change a window");
    if (!change.invalidates) mw->rkey = request.bind_mw.rkey;
  }
  await_that(
      [&] {
        collect();
        return sends_.size() >= sends_due_;
      },
      "a window");
  here().window_keys[change.window] = mw->rkey;
}

void Executor::receive(const Program::Receive& wanted) {
  auto list = list_of(wanted.list);
  ibv_recv_wr request{.wr_id = kReceiveBit | receives_posted_++,
                      .next = nullptr,
                      .sg_list = list.data(),
                      .num_sge = static_cast<int>(list.size())};
  ibv_recv_wr* bad = nullptr;
  demand((srq_ != nullptr ? ibv_post_srq_recv(srq_, &request, &bad)
                          : ibv_post_recv(qp_, &request, &bad)) == 0,
         "post a receive");
}

void Executor::post(std::size_t round) {
  if (board_.is_given_up) return;
  const auto& requests = program_.rounds[round].turns[side_].requests;
  for (std::size_t from = 0; from < requests.size();) {
    std::size_t to = from + 1;
    while (to < requests.size() && !requests[to].begins_call) ++to;
    const bool is_built =
        builder_ != nullptr && (from % 2 == 0 || requests[from].opcode == IBV_WR_ATOMIC_WRITE);
    const bool has_atomic_write =
        std::any_of(requests.begin() + static_cast<std::ptrdiff_t>(from),
                    requests.begin() + static_cast<std::ptrdiff_t>(to),
                    [](const auto& request) { return request.opcode == IBV_WR_ATOMIC_WRITE; });
    if (is_built || has_atomic_write) {
      build(requests, from, to);
    } else {
      send_chained(requests, from, to);
    }
    from = to;
  }
}

void Executor::send_chained(const std::vector<Program::Request>& requests, std::size_t from,
                            std::size_t to) {
  std::vector<std::vector<ibv_sge>> lists(to - from);
  std::vector<ibv_send_wr> chain(to - from);
  for (std::size_t i = from; i < to; ++i) {
    const Program::Request& request = requests[i];
    ibv_send_wr& wr = chain[i - from];
    lists[i - from] = list_of(request.local);
    wr.wr_id = sends_posted_++;
    wr.next = i + 1 < to ? &chain[i - from + 1] : nullptr;
    wr.sg_list = lists[i - from].data();
    wr.num_sge = static_cast<int>(lists[i - from].size());
    wr.opcode = request.opcode;
    wr.send_flags = request.flags;
    const std::uint64_t address =
        there().addresses[static_cast<std::size_t>(request.target.region)] +
        static_cast<std::uint64_t>(request.target.offset);
    if (is_atomic(request.opcode)) {
      wr.wr.atomic = {.remote_addr = address,
                      .compare_add = request.compare_or_add,
                      .swap = request.swap,
                      .rkey = key_of(request.target)};
    } else {
      wr.wr.rdma = {.remote_addr = address, .rkey = key_of(request.target)};
    }
    if (request.opcode == IBV_WR_SEND_WITH_INV || request.opcode == IBV_WR_LOCAL_INV) {
      wr.invalidate_rkey = invalidated_key(request.invalidates);
    } else {
      wr.imm_data = request.immediate;
    }
  }
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(qp_, chain.data(), &bad);
  demand(errno == 0, "post");
}

void Executor::build(const std::vector<Program::Request>& requests, std::size_t from,
                     std::size_t to) {
  ibv_qp_ex* qp = builder_;
  ibv_wr_start(qp);
  for (std::size_t i = from; i < to; ++i) {
    const Program::Request& request = requests[i];
    qp->wr_id = sends_posted_++;
    qp->wr_flags = request.flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    const std::uint64_t address =
        there().addresses[static_cast<std::size_t>(request.target.region)] +
        static_cast<std::uint64_t>(request.target.offset);
    const std::uint32_t key = key_of(request.target);
    const auto list = list_of(request.local);
    switch (request.opcode) {
      case IBV_WR_SEND:
        ibv_wr_send(qp);
        break;
      case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(qp, request.immediate);
        break;
      case IBV_WR_SEND_WITH_INV:
        ibv_wr_send_inv(qp, invalidated_key(request.invalidates));
        break;
      case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qp, key, address);
        break;
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(qp, key, address, request.immediate);
        break;
      case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qp, key, address);
        break;
      case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(qp, key, address, request.compare_or_add, request.swap);
        break;
      case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(qp, key, address, request.compare_or_add);
        break;
      case IBV_WR_ATOMIC_WRITE:
        ibv_wr_atomic_write(qp, key, address, &request.swap);
        continue;  // the request contains its octets
      case IBV_WR_LOCAL_INV:
        ibv_wr_local_inv(qp, invalidated_key(request.invalidates));
        continue;
      default:
        break;
    }
    if ((request.flags & IBV_SEND_INLINE) != 0) {
      std::vector<ibv_data_buf> pieces;
      for (const ibv_sge& sge : list) {
        pieces.push_back({.addr = reinterpret_cast<void*>(sge.addr), .length = sge.length});
      }
      ibv_wr_set_inline_data_list(qp, pieces.size(), pieces.data());
    } else {
      ibv_wr_set_sge_list(qp, list.size(), list.data());
    }
  }
  errno = ibv_wr_complete(qp);
  demand(errno == 0, "post what was built");
}

void Executor::post_late(std::size_t round) {
  if (board_.is_given_up) return;
  for (const Program::Receive& late : program_.rounds[round].turns[side_].late) receive(late);
}

// ---- Waiting ----

void Executor::collect() {
  for (ibv_cq* cq : {receive_cq_, send_cq_}) {
    ibv_wc wc[16];
    const int count = ibv_poll_cq(cq, 16, wc);
    for (int i = 0; i < count; ++i) {
      ((wc[i].wr_id & kReceiveBit) != 0 ? receives_ : sends_).push_back(wc[i]);
    }
  }
}

void Executor::collect_events() {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context, &event) == 0) {
    ibv_ack_async_event(&event);
    // Unless one side is late, the first request may or may not come before RTS.
    const bool is_due = program_.is_late && !program_.rounds[0].turns[0].requests.empty();
    if (event.event_type == IBV_EVENT_COMM_EST && !is_due) continue;
    const bool is_of_srq = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
    const bool is_ours = is_of_srq ? event.element.srq == srq_ : event.element.qp == qp_;
    events_.push_back(std::string(ibv_event_type_str(event.event_type)) +
                      (is_ours ? "" : ", of the other side"));
  }
}

void Executor::await(std::size_t round) {
  const Program::Turn& turn = program_.rounds[round].turns[side_];
  sends_due_ += turn.sends_done;
  receives_due_ += turn.receives_done;
  await_that(
      [&] {
        collect();
        return sends_.size() >= sends_due_ && receives_.size() >= receives_due_;
      },
      "completions");
  if (program_.rounds[round].turns[1 - side_].sends_marker) {
    await_that(
        [&] {
          collect();
          std::uint64_t seen = 0;
          std::memcpy(&seen, memory_[kMarkers].at, sizeof seen);
          return seen == round + 1;
        },
        "the marker");
  }
  if (turn.expects_channel_event) {
    await_that(
        [&] {
          pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
          return ::poll(&readable, 1, 10) == 1;
        },
        "an event of the channel");
  }
}

}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "datagrams.h"
#include "heap_in_use.h"
#include "qp_capacity.h"

/// Many processes, each connected to all others by reliable connections. They write into each
/// other's memory, read from it and count in it at random, and check every octet. They also send
/// each other datagrams. Some of them are victims: they may be killed at any moment.
namespace verbatim::testing {

inline constexpr std::uint32_t kProcessesMax = 128;
inline constexpr std::uint32_t kRoundsAfterwards = 2;
inline constexpr std::chrono::seconds kWorkerPatience{120};  // after it was enough

/// What the processes tell each other, in shared memory.
struct Board {
  struct Entry {
    std::atomic<bool> is_ready{false};  // the rest may be read
    std::atomic<bool> is_finished{false};
    bool is_victim = false;
    std::uint32_t rkey = 0;
    std::uint64_t areas = 0;  // what others write, by peer
    std::uint32_t constants_rkey = 0;
    std::uint64_t constants = 0;  // what others read
    std::uint32_t counters_rkey = 0;
    std::uint64_t counters = 0;                          // what others add to, by peer
    std::array<std::uint32_t, kProcessesMax> numbers{};  // of its queue pairs, by peer
    std::uint32_t datagram_number = 0;                   // of the one for datagrams
    std::atomic<std::uint64_t> rounds{0};
    std::atomic<std::uint64_t> datagrams{0};  // that arrived
  };
  std::atomic<bool> is_enough{false};  // no more deaths: finish
  std::uint64_t seed = 0;
  std::uint32_t area_octets = 6000;  // several packets, and no whole number of them
  std::uint8_t timeout =
      18;  // a second: a process that is stopped, or waits for a processor, has not failed
  std::array<Entry, kProcessesMax> entries{};
};

/// One of the processes `first` to `last` (not included), all of which exchange data with each
/// other.
class Worker {
 public:
  Worker(Board& board, std::uint32_t index, std::uint32_t first, std::uint32_t last)
      : board_(board),
        self_(index),
        first_(first),
        last_(last),
        random_(board.seed * kProcessesMax + index) {}

  /// The first error; empty when there is none. Returns when all processes but the victims have
  /// finished.
  std::string run() {
    const std::size_t descriptors = count_descriptors();
    const bool worked = open() && work();
    const bool grew = warm_octets_ != 0 && resident_octets() > warm_octets_ + kRoomOctets;
    if (worked && grew && !kIsSanitized) {
      (void)fail("takes more and more memory");
    }
    close();
    if (worked && count_descriptors() != descriptors) (void)fail("descriptors are left open");
    return failure_;
  }

 private:
  enum class Kind : std::uint32_t { kData = 1, kAck = 2 };
  struct Note {
    Kind kind{};
    std::uint32_t octets = 0;
    std::uint64_t round = 0;
  };
  /// The connection to one peer.
  struct Connection {
    ibv_qp* qp = nullptr;
    bool is_connected = false;
    bool is_lost = false;
    bool is_waiting = false;      // for the peer to confirm the current round
    std::uint64_t sent = 0;       // rounds begun
    std::uint64_t received = 0;   // rounds checked
    std::uint64_t added = 0;      // to the peer's counter
    std::uint32_t read_from = 0;  // offset of what is being read
    std::uint32_t read_octets = 0;
    bool is_reading = false;
    bool is_counting = false;
    std::uint32_t afterwards = 0;  // rounds completed since it was enough
  };
  static constexpr std::uint32_t kReceives = 4;  // outstanding at each queue pair
  static constexpr std::uint64_t kReceiveTag = 1U << 16;
  static constexpr std::uint64_t kReadTag = 1U << 17;
  static constexpr std::uint64_t kAtomicTag = 1U << 18;
  static constexpr std::uint64_t kWarmRounds = 500;  // from then on no memory may be taken
  static constexpr std::size_t kRoomOctets = 16U << 20;

  bool fail(const std::string& what) {
    if (failure_.empty()) failure_ = "process " + std::to_string(self_) + ": " + what;
    return false;
  }

  bool open() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list == nullptr || count != 1) return fail("no device");
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context_ == nullptr) return fail(std::string("cannot open: ") + std::strerror(errno));
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, 16 * static_cast<int>(kProcessesMax), nullptr, channel_, 0);
    const std::size_t peers = last_ - first_;
    areas_.resize(peers * area_octets());
    outgoing_.resize(peers * area_octets());
    notes_in_.resize(peers * kReceives);
    notes_out_.resize(peers * 2);
    constants_.resize(area_octets());
    for (std::uint32_t i = 0; i < area_octets(); ++i) constants_[i] = octet(self_, self_, 0, i);
    counters_.resize(peers);
    read_.resize(peers * area_octets());
    counted_.resize(peers);
    constexpr unsigned kLocal = IBV_ACCESS_LOCAL_WRITE;
    areas_mr_ = registered(areas_, kLocal | IBV_ACCESS_REMOTE_WRITE);
    outgoing_mr_ = registered(outgoing_, 0);
    in_mr_ = registered(notes_in_, kLocal);
    out_mr_ = registered(notes_out_, 0);
    constants_mr_ = registered(constants_, IBV_ACCESS_REMOTE_READ);
    counters_mr_ = registered(counters_, kLocal | IBV_ACCESS_REMOTE_ATOMIC);
    read_mr_ = registered(read_, kLocal);
    counted_mr_ = registered(counted_, kLocal);
    for (const ibv_mr* mr : regions()) {
      if (mr == nullptr) return fail("cannot register");
    }
    if (cq_ == nullptr) return fail("no completion queue");
    if (!datagrams_.open(pd_, self_, random_())) return fail("no datagrams");
    connections_.resize(peers);
    Board::Entry& mine = board_.entries[self_];
    for (std::uint32_t peer = first_; peer < last_; ++peer) {
      if (peer == self_) continue;
      if (!make_queue_pair(peer)) return false;
      mine.numbers[peer] = connection(peer).qp->qp_num;
    }
    mine.areas = reinterpret_cast<std::uintptr_t>(areas_.data());
    mine.rkey = areas_mr_->rkey;
    mine.constants = reinterpret_cast<std::uintptr_t>(constants_.data());
    mine.constants_rkey = constants_mr_->rkey;
    mine.counters = reinterpret_cast<std::uintptr_t>(counters_.data());
    mine.counters_rkey = counters_mr_->rkey;
    mine.datagram_number = datagrams_.number();
    mine.is_ready.store(true);
    return true;
  }

  template <typename T>
  ibv_mr* registered(std::vector<T>& memory, unsigned access) {
    return ibv_reg_mr(pd_, memory.data(), memory.size() * sizeof(T), access);
  }

  bool make_queue_pair(std::uint32_t peer) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = qp_capacity(16, kReceives);
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    ibv_qp* qp = connection(peer).qp = ibv_create_qp(pd_, &init);
    if (qp == nullptr) return fail("no queue pair");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (ibv_modify_qp(qp, &attr, mask) != 0) return fail("INIT");
    for (std::uint32_t i = 0; i < kReceives; ++i) {
      if (!post_receive(peer, i)) return false;
    }
    return true;
  }

  [[nodiscard]] bool find_address(ibv_gid_entry& gid) const {
    for (std::uint32_t i = 0; ibv_query_gid_ex(context_, 1, i, &gid, 0) == 0; ++i) {
      if (gid.gid.raw[10] == 0xff) return true;
    }
    return false;
  }

  bool connect(std::uint32_t peer) {
    ibv_gid_entry gid{};
    if (!find_address(gid)) return fail("no IPv4 address");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = board_.entries[peer].numbers[self_];
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid.gid;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid.gid_index);
    attr.ah_attr.grh.hop_limit = 1;
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (ibv_modify_qp(connection(peer).qp, &attr, mask) != 0) return fail("RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = board_.timeout;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC;
    if (ibv_modify_qp(connection(peer).qp, &attr, mask) != 0) return fail("RTS");
    connection(peer).is_connected = true;
    return true;
  }

  bool work() {
    auto end = std::chrono::steady_clock::time_point::max();
    ibv_gid_entry gid{};
    if (!find_address(gid) || !datagrams_.aim(pd_, gid)) return fail("no way for datagrams");
    while (!all_are_finished()) {
      const auto now = std::chrono::steady_clock::now();
      if (board_.is_enough.load()) end = std::min(end, now + kWorkerPatience);
      if (now > end) return fail("stuck: " + what_is_missing());
      for (std::uint32_t peer = first_; peer < last_; ++peer) {
        if (peer == self_) continue;
        Connection& to = connection(peer);
        if (!to.is_connected && board_.entries[peer].is_ready.load() && !connect(peer)) {
          return false;
        }
        if (to.is_connected && !to.is_lost && !begin_round(peer)) return false;
      }
      if (!exchange_datagrams() || !take_completions()) return false;
      if (is_finished()) board_.entries[self_].is_finished.store(true);
    }
    return true;
  }

  bool exchange_datagrams() {
    const std::string wrong = datagrams_.check();
    if (!wrong.empty()) return fail(wrong);
    board_.entries[self_].datagrams.store(datagrams_.received(), std::memory_order_relaxed);
    const std::uint32_t peer = first_ + below(last_ - first_);
    if (peer == self_ || !board_.entries[peer].is_ready.load()) return true;
    if (!datagrams_.send_to(peer, board_.entries[peer].datagram_number)) {
      return fail("cannot post a datagram");
    }
    return true;
  }

  /// Sleeps until something completes, or a peer may have become ready.
  bool take_completions() {
    if (ibv_req_notify_cq(cq_, 0) != 0) return fail("req_notify");
    bool found_any = false;
    std::array<ibv_wc, 32> found{};
    for (int count = 0; (count = ibv_poll_cq(cq_, 32, found.data())) != 0;) {
      if (count < 0) return fail("poll");
      found_any = true;
      for (int i = 0; i < count; ++i) {
        if (!handle(found[static_cast<std::size_t>(i)])) return false;
      }
    }
    pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, found_any ? 0 : 10) != 1) return true;
    ibv_cq* cq = nullptr;
    void* tag = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &tag) == 0) ibv_ack_cq_events(cq, 1);
    return true;
  }

  bool handle(const ibv_wc& wc) {
    const std::uint32_t peer = static_cast<std::uint32_t>(wc.wr_id) & 0xff;
    if (wc.status != IBV_WC_SUCCESS) {
      connection(peer).is_lost = true;
      if (board_.entries[peer].is_victim) return true;
      return fail("lost " + std::to_string(peer) + ": " + ibv_wc_status_str(wc.status));
    }
    if ((wc.wr_id & kReadTag) != 0) return check_read(peer);
    if ((wc.wr_id & kAtomicTag) != 0) return check_count(peer);
    if ((wc.wr_id & kReceiveTag) == 0) return true;
    const auto place = static_cast<std::uint32_t>(wc.wr_id >> 8) & 0xff;
    const Note note = notes_in_[index_of(peer) * kReceives + place];
    if (!post_receive(peer, place)) return false;
    return note.kind == Kind::kData ? check(peer, note) : confirm(peer, note);
  }

  bool check(std::uint32_t peer, const Note& note) {
    Connection& from = connection(peer);
    if (note.round != from.received || note.octets > area_octets()) return fail("a wrong note");
    ++from.received;
    const std::uint8_t* area = areas_.data() + index_of(peer) * area_octets();
    for (std::uint32_t i = 0; i < note.octets; ++i) {
      if (area[i] != octet(peer, self_, note.round, i)) {
        return fail("a wrong octet from " + std::to_string(peer));
      }
    }
    return send(peer, {.kind = Kind::kAck, .octets = 0, .round = note.round}, 1);
  }

  bool check_read(std::uint32_t peer) {
    connection(peer).is_reading = false;
    const std::uint8_t* read = read_.data() + index_of(peer) * area_octets();
    for (std::uint32_t i = 0; i < connection(peer).read_octets; ++i) {
      if (read[i] != octet(peer, peer, 0, connection(peer).read_from + i)) {
        return fail("a wrong octet read from " + std::to_string(peer));
      }
    }
    return true;
  }

  bool check_count(std::uint32_t peer) {
    connection(peer).is_counting = false;
    if (counted_[index_of(peer)] != connection(peer).added++) {
      return fail("a wrong count at " + std::to_string(peer));
    }
    return true;
  }

  bool confirm(std::uint32_t peer, const Note& note) {
    Connection& to = connection(peer);
    if (!to.is_waiting || note.round + 1 != to.sent) return fail("a wrong confirmation");
    to.is_waiting = false;
    if (board_.entries[self_].rounds.fetch_add(1) == kWarmRounds) warm_octets_ = resident_octets();
    if (board_.is_enough.load()) ++to.afterwards;
    return true;
  }

  bool begin_round(std::uint32_t peer) {
    Connection& to = connection(peer);
    if (to.is_waiting || to.afterwards >= kRoundsAfterwards) return true;
    const std::uint64_t round = to.sent++;
    // Requests of the last round may not have completed yet, although the peer has confirmed it.
    if (below(3) == 0 && !to.is_reading && !read_from(peer)) return false;
    if (below(3) == 0 && !to.is_counting && !count_at(peer)) return false;
    const std::uint32_t octets = some_octets();
    std::uint8_t* from = outgoing_.data() + index_of(peer) * area_octets();
    for (std::uint32_t i = 0; i < octets; ++i) from[i] = octet(self_, peer, round, i);
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(from),
                .length = octets,
                .lkey = outgoing_mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = peer;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = board_.entries[peer].areas + (self_ - first_) * area_octets();
    wr.wr.rdma.rkey = board_.entries[peer].rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(to.qp, &wr, &bad) != 0) return fail("cannot post a write");
    to.is_waiting = true;
    return send(peer, {.kind = Kind::kData, .octets = octets, .round = round}, 0);
  }

  bool read_from(std::uint32_t peer) {
    Connection& to = connection(peer);
    to.is_reading = true;
    to.read_octets = some_octets();
    to.read_from = below(area_octets() - to.read_octets + 1);
    ibv_sge sge{
        .addr = reinterpret_cast<std::uintptr_t>(read_.data()) + index_of(peer) * area_octets(),
        .length = to.read_octets,
        .lkey = read_mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = peer | kReadTag;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = board_.entries[peer].constants + to.read_from;
    wr.wr.rdma.rkey = board_.entries[peer].constants_rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(to.qp, &wr, &bad) != 0) return fail("cannot post a read");
    return true;
  }

  bool count_at(std::uint32_t peer) {
    connection(peer).is_counting = true;
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(&counted_[index_of(peer)]),
                .length = 8,
                .lkey = counted_mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = peer | kAtomicTag;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = board_.entries[peer].counters + (self_ - first_) * 8;
    wr.wr.atomic.rkey = board_.entries[peer].counters_rkey;
    wr.wr.atomic.compare_add = 1;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(connection(peer).qp, &wr, &bad) != 0) return fail("cannot post an atomic");
    return true;
  }

  bool send(std::uint32_t peer, const Note& note, std::size_t place) {
    Note& from = notes_out_[index_of(peer) * 2 + place];
    from = note;
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(&from),
                .length = sizeof(Note),
                .lkey = out_mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = peer;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(connection(peer).qp, &wr, &bad) != 0) return fail("cannot post a send");
    return true;
  }

  bool post_receive(std::uint32_t peer, std::uint32_t place) {
    Note& into = notes_in_[index_of(peer) * kReceives + place];
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(&into),
                .length = sizeof(Note),
                .lkey = in_mr_->lkey};
    ibv_recv_wr wr{
        .wr_id = peer | place << 8 | kReceiveTag, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(connection(peer).qp, &wr, &bad) != 0) return fail("cannot post a receive");
    return true;
  }

  void close() {
    if (!datagrams_.close()) (void)fail("datagrams");
    for (Connection& to : connections_) {
      if (to.qp != nullptr && ibv_destroy_qp(to.qp) != 0) (void)fail("destroy_qp");
    }
    for (ibv_mr* mr : regions()) {
      if (mr != nullptr && ibv_dereg_mr(mr) != 0) (void)fail("dereg_mr");
    }
    if (cq_ != nullptr && ibv_destroy_cq(cq_) != 0) (void)fail("destroy_cq");
    if (channel_ != nullptr && ibv_destroy_comp_channel(channel_) != 0) (void)fail("channel");
    if (pd_ != nullptr && ibv_dealloc_pd(pd_) != 0) (void)fail("dealloc_pd");
    if (context_ != nullptr && ibv_close_device(context_) != 0) (void)fail("close_device");
  }

  [[nodiscard]] bool is_finished() {
    if (!board_.is_enough.load()) return false;
    for (std::uint32_t peer = first_; peer < last_; ++peer) {
      if (peer == self_ || board_.entries[peer].is_victim) continue;
      if (connection(peer).afterwards < kRoundsAfterwards) return false;
    }
    return true;
  }
  [[nodiscard]] bool all_are_finished() const {
    for (std::uint32_t peer = first_; peer < last_; ++peer) {
      const Board::Entry& entry = board_.entries[peer];
      if (!entry.is_victim && !entry.is_finished.load()) return false;
    }
    return true;
  }
  [[nodiscard]] std::string what_is_missing() {
    std::string missing;
    for (std::uint32_t peer = first_; peer < last_; ++peer) {
      if (peer == self_ || board_.entries[peer].is_victim) continue;
      const Connection& to = connection(peer);
      if (to.afterwards >= kRoundsAfterwards && board_.entries[peer].is_finished.load()) continue;
      missing += std::to_string(peer) + (to.is_connected ? "" : " not connected") +
                 (to.is_waiting ? " unconfirmed" : "") + " sent " + std::to_string(to.sent) +
                 " received " + std::to_string(to.received) + ";";
    }
    return missing;
  }

  [[nodiscard]] std::array<ibv_mr*, 8> regions() const {
    return {areas_mr_,     outgoing_mr_, in_mr_,   out_mr_,
            constants_mr_, counters_mr_, read_mr_, counted_mr_};
  }
  [[nodiscard]] std::size_t index_of(std::uint32_t peer) const { return peer - first_; }
  Connection& connection(std::uint32_t peer) { return connections_[index_of(peer)]; }
  [[nodiscard]] std::uint32_t area_octets() const { return board_.area_octets; }
  [[nodiscard]] std::uint32_t below(std::uint32_t limit) {
    return static_cast<std::uint32_t>(random_() % limit);
  }
  /// From one octet to a whole area, small ones as often as large ones.
  [[nodiscard]] std::uint32_t some_octets() {
    std::uint32_t most = area_octets();
    while (most > 8 && below(2) == 0) most /= 4;
    return 1 + below(most);
  }
  [[nodiscard]] static std::uint8_t octet(std::uint32_t from, std::uint32_t to, std::uint64_t round,
                                          std::uint32_t at) {
    return static_cast<std::uint8_t>(from * 151 + to * 59 + round * 31 + at * 7 + (at >> 8) +
                                     (at >> 16));
  }
  [[nodiscard]] static std::size_t resident_octets() {
    std::size_t total = 0;
    std::size_t resident = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "re");
    if (file == nullptr || std::fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    if (file != nullptr) std::fclose(file);
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
  /// Without those that the process keeps for its memory, once, whatever it opens and closes.
  [[nodiscard]] static std::size_t count_descriptors() {
    std::size_t count = 0;
    DIR* folder = ::opendir("/proc/self/fd");
    while (const dirent* entry = folder == nullptr ? nullptr : ::readdir(folder)) {
      char link[64] = "";
      const bool is_link = ::readlinkat(::dirfd(folder), entry->d_name, link, sizeof link - 1) >= 0;
      const bool is_kept = is_link && (std::strstr(link, "verbatim-regions") != nullptr ||
                                       std::strstr(link, "[userfaultfd]") != nullptr ||
                                       std::strstr(link, "/maps") != nullptr);
      if (!is_kept) ++count;
    }
    if (folder != nullptr) ::closedir(folder);
    return count;
  }

  Board& board_;
  std::uint32_t self_;
  std::uint32_t first_;
  std::uint32_t last_;
  std::mt19937_64 random_;
  std::string failure_;
  Datagrams datagrams_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* areas_mr_ = nullptr;
  ibv_mr* outgoing_mr_ = nullptr;
  ibv_mr* in_mr_ = nullptr;
  ibv_mr* out_mr_ = nullptr;
  std::vector<std::uint8_t> areas_;     // peers write here
  std::vector<std::uint8_t> outgoing_;  // what we write to each peer
  std::vector<Note> notes_in_;
  std::vector<Note> notes_out_;  // per peer: the data's, the confirmation's
  ibv_mr* constants_mr_ = nullptr;
  ibv_mr* counters_mr_ = nullptr;
  ibv_mr* read_mr_ = nullptr;
  ibv_mr* counted_mr_ = nullptr;
  std::vector<std::uint8_t> constants_;
  std::vector<std::uint64_t> counters_;
  std::vector<std::uint8_t> read_;      // by peer
  std::vector<std::uint64_t> counted_;  // by peer: what its counter said
  std::vector<Connection> connections_;
  std::size_t warm_octets_ = 0;
};

}  // namespace verbatim::testing

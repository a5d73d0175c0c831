// SPDX-License-Identifier: Apache-2.0
// Does a queue pair on the packet path slow down its neighbour on the direct path? One process has
// both, with one completion queue, and plays ping-pong over the direct one.
//
// Usage: two_paths GID_INDEX direct|both write|send OCTETS COUNT
//   direct: the process has no other queue pair
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>

#include "ends.h"
#include "queue_pairs.h"

namespace {

using namespace verbatim::bench;

constexpr std::size_t kIncoming = 0;     // where the other end writes, in the buffer
constexpr std::size_t kOutgoing = 4096;  // where this end writes from
constexpr std::uint64_t kReceive = 1;    // wr_id of every receive; sends have 0

/// What a queue pair must know of its peer.
struct Address {
  ibv_gid gid{};
  std::uint32_t qp_number = 0;
  std::uint32_t rkey = 0;
  std::uint64_t buffer = 0;
};

/// The adapter, a registered buffer and the one completion queue of a process.
struct Adapter {
  explicit Adapter(std::uint8_t index) : gid_index(index) {
    context = open_device();
    gid = gid_of(context, gid_index);
    domain = ibv_alloc_pd(context);
    completions = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    if (::posix_memalign(&buffer, 4096, 2UL * 4096) != 0) stop("no memory");
    std::memset(buffer, 0, 2UL * 4096);
    region = ibv_reg_mr(domain, buffer, 2UL * 4096, kAccess);
    if (completions == nullptr || region == nullptr) stop("no completion queue, or no region");
  }

  std::atomic_ref<std::uint64_t> word(std::size_t at) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(buffer) + at));
  }

  /// Polls until a request of this kind has completed.
  void await(std::uint64_t wr_id) {
    ibv_wc completion{};
    while (!take_early(wr_id)) {
      const int count = ibv_poll_cq(completions, 1, &completion);
      if (count < 0) stop("ibv_poll_cq failed");
      if (count == 0) continue;
      if (completion.status != IBV_WC_SUCCESS) stop(ibv_wc_status_str(completion.status));
      ++early[completion.wr_id];
    }
  }

  bool take_early(std::uint64_t wr_id) {
    if (early[wr_id] == 0) return false;
    --early[wr_id];
    return true;
  }

  std::uint8_t gid_index;
  ibv_gid gid{};
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_cq* completions = nullptr;
  void* buffer = nullptr;
  ibv_mr* region = nullptr;
  unsigned early[2]{};  // completions polled and not yet awaited, by wr_id
};

/// A reliable connection to the other end.
class Connection {
 public:
  Connection(Adapter& adapter, End& end) : adapter_(adapter) {
    pair_ = make_queue_pair(adapter.domain, adapter.completions, 16);
    to_ = end.exchange_value(Address{.gid = adapter.gid,
                                     .qp_number = pair_->qp_num,
                                     .rkey = adapter.region->rkey,
                                     .buffer = std::bit_cast<std::uint64_t>(adapter.buffer)});
    connect(pair_, {.gid = to_.gid, .number = to_.qp_number, .gid_index = adapter.gid_index});
    end.meet();
  }

  void post(ibv_wr_opcode opcode, std::uint32_t octets) {
    ibv_sge from = place(kOutgoing, octets);
    ibv_send_wr request{};
    request.sg_list = &from;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = to_.buffer + kIncoming;
    request.wr.rdma.rkey = to_.rkey;
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(pair_, &request, &refused) != 0) stop("ibv_post_send failed");
  }

  void post_receive(std::uint32_t octets) {
    ibv_sge to = place(kIncoming, octets);
    ibv_recv_wr request{};
    request.wr_id = kReceive;
    request.sg_list = &to;
    request.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    if (ibv_post_recv(pair_, &request, &refused) != 0) stop("ibv_post_recv failed");
  }

 private:
  ibv_sge place(std::size_t at, std::uint32_t octets) {
    return {.addr = std::bit_cast<std::uint64_t>(adapter_.buffer) + at,
            .length = octets,
            .lkey = adapter_.region->lkey};
  }

  Adapter& adapter_;
  ibv_qp* pair_ = nullptr;
  Address to_{};
};

/// One message to the other end, and its answer awaited; or the other way round.
class Game {
 public:
  Game(Adapter& adapter, Connection& connection, const Question& question)
      : adapter_(adapter),
        connection_(connection),
        is_send_(question.kind == "send"),
        octets_(static_cast<std::uint32_t>(question.octets)) {
    if (is_send_) connection_.post_receive(octets_);
  }

  void serve() {
    adapter_.word(kOutgoing).store(++turn_, std::memory_order_relaxed);
    connection_.post(is_send_ ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, octets_);
    adapter_.await(0);
  }

  void await() {
    if (is_send_) {
      adapter_.await(kReceive);
      connection_.post_receive(octets_);
    } else {
      while (adapter_.word(kIncoming).load(std::memory_order_acquire) != expected_) {
      }
    }
    ++expected_;
  }

 private:
  Adapter& adapter_;
  Connection& connection_;
  bool is_send_;
  std::uint32_t octets_;
  std::uint64_t turn_ = 0;      // the last one sent
  std::uint64_t expected_ = 1;  // the next one from the other end
};

/// The process at the other end of the packets; its adapter answers while it sleeps.
int speak_packets(End& end, std::uint8_t gid_index) {
  ::setenv("VERBATIM_PATH", "packet", 1);
  Adapter adapter(gid_index);
  const Connection connection(adapter, end);
  return end.finish();
}

/// So that nothing is measured beside a connection that does not work.
void use(Adapter& adapter, Connection& packets) {
  packets.post(IBV_WR_RDMA_WRITE, 8);
  adapter.await(0);
}

void answer_all(Adapter& adapter, End& end, const Question& question) {
  Connection connection(adapter, end);
  Game game(adapter, connection, question);
  end.meet();
  for (std::size_t i = 0; i < whole_groups(question.count); ++i) {
    game.await();
    game.serve();
  }
}

double ask_all(Adapter& adapter, End& end, End* distant, const Question& question) {
  std::optional<Connection> packets;
  if (distant != nullptr) {
    packets.emplace(adapter, *distant);
    use(adapter, *packets);
  }
  Connection connection(adapter, end);
  Game game(adapter, connection, question);
  end.meet();
  const double microseconds = half_trip(question.count, [&] {
    game.serve();
    game.await();
  });
  if (packets) use(adapter, *packets);
  return microseconds;
}

}  // namespace

int main(int count, char** words) {
  const Question question = question_of(count, words, 2);
  const auto gid_index = static_cast<std::uint8_t>(std::atoi(words[1]));
  std::optional<End> distant;
  if (std::string_view(words[2]) == "both") {
    distant.emplace();
    if (distant->is_server()) return speak_packets(*distant, gid_index);
  }
  End end;
  Adapter adapter(gid_index);
  if (end.is_server()) {
    answer_all(adapter, end, question);
  } else {
    answer(ask_all(adapter, end, distant ? &*distant : nullptr, question));
  }
  const int status = end.finish();
  return distant && !end.is_server() && distant->finish() != 0 ? 1 : status;
}

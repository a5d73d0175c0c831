// SPDX-License-Identifier: Apache-2.0
// How many round trips do the threads of two processes make in a second that poll one completion
// queue each? Each thread plays ping-pong with a thread of the other process.
//
// Usage: threads GID_INDEX THREADS OCTETS SECONDS
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "ends.h"
#include "queue_pairs.h"

namespace {

using namespace verbatim::bench;

constexpr std::uint64_t kSend = 1;
constexpr std::uint64_t kReceive = 2;
constexpr std::uint32_t kDepth = 4;

struct Address {
  ibv_gid gid{};
  std::uint32_t number = 0;
};

/// What one thread uses, all of one device.
class Player {
 public:
  Player(ibv_context* context, ibv_pd* domain, std::uint32_t octets) : octets_(octets) {
    completions_ = ibv_create_cq(context, 2 * kDepth, nullptr, nullptr, 0);
    if (completions_ == nullptr) stop("no completion queue");
    pair_ = make_queue_pair(domain, completions_, kDepth);
    buffer_.resize(octets_ * std::size_t{2});
    region_ = ibv_reg_mr(domain, buffer_.data(), buffer_.size(), kAccess);
    if (region_ == nullptr) stop("no region");
    for (std::uint32_t i = 0; i < kDepth; ++i) receive();
  }

  [[nodiscard]] ibv_qp* pair() const { return pair_; }

  /// Round trips until `is_over`, the client's. The last message of a client is empty: the server's
  /// thread ends with it.
  std::uint64_t begin(const std::atomic<bool>& is_over) {
    std::uint64_t trips = 0;
    while (!is_over.load(std::memory_order_relaxed)) {
      send(octets_);
      (void)await_message();
      ++trips;
    }
    send(0);
    while (sends_ > 0) collect();
    return trips;
  }

  void answer_all() {
    while (await_message() > 0) send(octets_);
    while (sends_ > 0) collect();
  }

 private:
  void receive() {
    ibv_sge place = {.addr = reinterpret_cast<std::uintptr_t>(buffer_.data()),
                     .length = octets_,
                     .lkey = region_->lkey};
    ibv_recv_wr request{};
    request.wr_id = kReceive;
    request.sg_list = &place;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(pair_, &request, &bad) != 0) stop("ibv_post_recv failed");
  }

  void send(std::uint32_t octets) {
    while (sends_ == kDepth) collect();
    ibv_sge place = {.addr = reinterpret_cast<std::uintptr_t>(buffer_.data()) + octets_,
                     .length = octets,
                     .lkey = region_->lkey};
    ibv_send_wr request{};
    request.wr_id = kSend;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &place;
    request.num_sge = octets > 0 ? 1 : 0;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(pair_, &request, &bad) != 0) stop("ibv_post_send failed");
    ++sends_;
  }

  void collect() {
    ibv_wc completion{};
    const int count = ibv_poll_cq(completions_, 1, &completion);
    if (count < 0) stop("ibv_poll_cq failed");
    if (count == 0) return;
    if (completion.status != IBV_WC_SUCCESS) stop(ibv_wc_status_str(completion.status));
    if (completion.wr_id == kSend) {
      --sends_;
    } else {
      ++arrived_;
      arrived_octets_ = completion.byte_len;
      receive();
    }
  }

  /// Its length.
  std::uint32_t await_message() {
    while (arrived_ == 0) collect();
    --arrived_;
    return arrived_octets_;
  }

  std::uint32_t octets_;
  ibv_cq* completions_ = nullptr;
  ibv_qp* pair_ = nullptr;
  std::vector<char> buffer_;
  ibv_mr* region_ = nullptr;
  std::uint32_t sends_ = 0;    // under way
  std::uint32_t arrived_ = 0;  // not looked at yet, one at most
  std::uint32_t arrived_octets_ = 0;
};

}  // namespace

int main(int count, char** words) {
  if (count != 5) stop("usage: threads GID_INDEX THREADS OCTETS SECONDS");
  const auto gid_index = static_cast<std::uint8_t>(std::atoi(words[1]));
  const auto threads = static_cast<std::size_t>(std::atoi(words[2]));
  const auto octets = static_cast<std::uint32_t>(std::atoi(words[3]));
  const auto seconds = std::chrono::duration<double>(std::atof(words[4]));
  if (threads == 0 || octets == 0) stop("THREADS and OCTETS are numbers above zero");
  End end;
  end.move_freely();
  ibv_context* const context = open_device();
  ibv_pd* const domain = ibv_alloc_pd(context);
  const ibv_gid gid = gid_of(context, gid_index);
  std::vector<std::unique_ptr<Player>> players;
  for (std::size_t i = 0; i < threads; ++i) {
    auto& player = *players.emplace_back(std::make_unique<Player>(context, domain, octets));
    const Address peer = end.exchange_value(Address{.gid = gid, .number = player.pair()->qp_num});
    connect(player.pair(), {.gid = peer.gid, .number = peer.number, .gid_index = gid_index});
  }
  end.meet();
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> trips{0};
  const auto start = Clock::now();
  std::vector<std::thread> running;
  for (auto& player : players) {
    running.emplace_back([&] {
      if (end.is_server()) return player->answer_all();
      trips += player->begin(is_over);
    });
  }
  if (!end.is_server()) std::this_thread::sleep_for(seconds);
  is_over = true;
  for (std::thread& thread : running) thread.join();
  if (!end.is_server()) answer(static_cast<double>(trips) / seconds_since(start));
  return end.finish();
}

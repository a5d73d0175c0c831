// SPDX-License-Identifier: Apache-2.0
// How fast does UCX put into memory that the program itself allocated? (ucx_perftest asks the same
// of memory that UCX allocates.)
//
// Usage: ucx_put latency|rate|bandwidth OCTETS COUNT
#include <ucp/api/ucp.h>

#include <atomic>
#include <bit>
#include <cstring>

#include "ends.h"

namespace {

using namespace verbatim::bench;

// A end's buffer: what the client says, what the server says, and the payload.
constexpr std::size_t kPing = 0;
constexpr std::size_t kPong = 4096;
constexpr std::size_t kPayload = 8192;

constexpr std::size_t kWindow = 64;  // puts under way

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) stop(what);
}

/// A worker with one endpoint, and the other end's buffer within reach: puts go from a place of
/// this end's buffer to the same place of the other's.
class Connection {
 public:
  Connection(End& end, std::size_t octets) {
    void* memory = nullptr;
    if (::posix_memalign(&memory, 4096, kPayload + octets) != 0) stop("no memory");
    std::memset(memory, 0, kPayload + octets);
    buffer_ = static_cast<std::byte*>(memory);
    open();
    connect(end);
    publish(end, kPayload + octets);
  }

  /// Null when it is done already.
  ucs_status_ptr_t start_put(std::size_t at, std::size_t octets) {
    const ucp_request_param_t no_options{};
    for (;;) {
      const auto started =
          ucp_put_nbx(endpoint_, buffer_ + at, octets, remote_ + at, key_, &no_options);
      if (!UCS_PTR_IS_ERR(started)) return started;
      if (UCS_PTR_STATUS(started) != UCS_ERR_NO_RESOURCE) stop("ucp_put_nbx failed");
      progress();
    }
  }

  void await(ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request)) stop("a request of UCX failed");
    if (request == nullptr) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    ucp_request_free(request);
  }

  void flush() {
    const ucp_request_param_t no_options{};
    await(ucp_ep_flush_nbx(endpoint_, &no_options));
  }

  void say(std::size_t at, std::uint64_t turn, std::size_t octets) {
    word(at).store(turn, std::memory_order_relaxed);
    await(start_put(at, octets));
  }

  /// Puts into such memory need the target's help: it makes progress while it waits.
  void await_word(std::size_t at, std::uint64_t turn) {
    while (word(at).load(std::memory_order_acquire) != turn) progress();
  }

 private:
  void open() {
    ucp_params_t wanted{};
    wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
    wanted.features = UCP_FEATURE_RMA;
    check(ucp_init(&wanted, nullptr, &context_), "ucp_init failed");
    ucp_worker_params_t threads{};
    threads.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    threads.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context_, &threads, &worker_), "ucp_worker_create failed");
  }

  void connect(End& end) {
    ucp_address_t* address = nullptr;
    std::size_t octets = 0;
    check(ucp_worker_get_address(worker_, &address, &octets), "the worker has no address");
    const auto other = end.exchange(std::span(reinterpret_cast<const std::byte*>(address), octets));
    ucp_ep_params_t target{};
    target.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    target.address = reinterpret_cast<const ucp_address_t*>(other.data());
    check(ucp_ep_create(worker_, &target, &endpoint_), "ucp_ep_create failed");
  }

  void publish(End& end, std::size_t octets) {
    ucp_mem_map_params_t mapping{};
    mapping.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    mapping.address = buffer_;
    mapping.length = octets;
    ucp_mem_h memory = nullptr;
    check(ucp_mem_map(context_, &mapping, &memory), "ucp_mem_map failed");
    void* key = nullptr;
    std::size_t key_octets = 0;
    check(ucp_rkey_pack(context_, memory, &key, &key_octets), "ucp_rkey_pack failed");
    const auto other = end.exchange(std::span(static_cast<const std::byte*>(key), key_octets));
    check(ucp_ep_rkey_unpack(endpoint_, other.data(), &key_), "ucp_ep_rkey_unpack failed");
    remote_ = end.exchange_value(std::bit_cast<std::uint64_t>(buffer_));
  }

  void progress() { ucp_worker_progress(worker_); }

  std::atomic_ref<std::uint64_t> word(std::size_t at) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(buffer_ + at));
  }

  std::byte* buffer_ = nullptr;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  std::uint64_t remote_ = 0;  // where the other end's buffer is
};

double ping_pong(Connection& connection, const End& end, const Question& question) {
  std::uint64_t turn = 0;
  if (end.is_server()) {
    while (turn < whole_groups(question.count)) {
      connection.await_word(kPing, ++turn);
      connection.say(kPong, turn, question.octets);
    }
    connection.flush();
    return 0;
  }
  return half_trip(question.count, [&] {
    connection.say(kPing, ++turn, question.octets);
    connection.await_word(kPong, turn);
  });
}

double stream(Connection& connection, const End& end, const Question& question) {
  if (end.is_server()) {
    connection.await_word(kPing, 1);
    return 0;
  }
  std::vector<ucs_status_ptr_t> under_way(kWindow, nullptr);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < question.count; ++i) {
    auto& slot = under_way[i % kWindow];
    connection.await(slot);
    slot = connection.start_put(kPayload, question.octets);
  }
  for (auto* request : under_way) connection.await(request);
  connection.flush();  // all of it has arrived
  const double number = throughput(question, seconds_since(start));
  connection.say(kPing, 1, sizeof(std::uint64_t));
  connection.flush();
  return number;
}

}  // namespace

int main(int count, char** words) {
  const Question question = question_of(count, words);
  if (question.kind == "latency" && question.octets != sizeof(std::uint64_t)) {
    stop("the latency is that of 8 octets");
  }
  End end;
  Connection connection(end, question.octets);
  end.meet();
  const double number = question.kind == "latency" ? ping_pong(connection, end, question)
                                                   : stream(connection, end, question);
  if (!end.is_server()) answer(number);
  return end.finish();
}

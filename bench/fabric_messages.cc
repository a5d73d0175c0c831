// SPDX-License-Identifier: Apache-2.0
// How fast are messages of libfabric through shared memory?
//
// Usage: fabric_messages latency|rate|bandwidth OCTETS COUNT
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstring>

#include "ends.h"

namespace {

using namespace verbatim::bench;

constexpr std::size_t kWindow = 64;  // messages under way

void check(ssize_t status, const char* what) {
  if (status != 0) stop(what);
}

/// A reliable datagram endpoint of the `shm` provider and one completion queue for each direction.
class Endpoint {
 public:
  Endpoint(End& end, std::size_t octets) : buffer_(octets) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->fabric_attr->prov_name = ::strdup("shm");
    fi_info* info = nullptr;
    check(fi_getinfo(FI_VERSION(1, 9), nullptr, nullptr, 0, hints, &info), "no provider 'shm'");
    open(*info);
    connect(end);
  }

  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  /// What is not closed stays behind in /dev/shm, and the next process of the same number fails.
  ~Endpoint() {
    for (fid* each : {&endpoint_->fid, &addresses_->fid, &received_->fid, &sent_->fid,
                      &domain_->fid, &fabric_->fid}) {
      fi_close(each);
    }
  }

  void post_send() {
    post([&] { return fi_send(endpoint_, data(), size(), nullptr, peer_, this); });
  }
  void post_receive() {
    post([&] { return fi_recv(endpoint_, data(), size(), nullptr, peer_, this); });
  }
  void await_sends(std::size_t count) { await(sent_, count); }
  void await_receives(std::size_t count) { await(received_, count); }

 private:
  void open(fi_info& info) {
    check(fi_fabric(info.fabric_attr, &fabric_, nullptr), "fi_fabric failed");
    check(fi_domain(fabric_, &info, &domain_, nullptr), "fi_domain failed");
    fi_cq_attr queue{};
    queue.size = 4 * kWindow;
    queue.format = FI_CQ_FORMAT_CONTEXT;
    check(fi_cq_open(domain_, &queue, &sent_, nullptr), "fi_cq_open failed");
    check(fi_cq_open(domain_, &queue, &received_, nullptr), "fi_cq_open failed");
    fi_av_attr addresses{};
    check(fi_av_open(domain_, &addresses, &addresses_, nullptr), "fi_av_open failed");
    check(fi_endpoint(domain_, &info, &endpoint_, nullptr), "fi_endpoint failed");
    check(fi_ep_bind(endpoint_, &sent_->fid, FI_TRANSMIT), "fi_ep_bind failed");
    check(fi_ep_bind(endpoint_, &received_->fid, FI_RECV), "fi_ep_bind failed");
    check(fi_ep_bind(endpoint_, &addresses_->fid, 0), "fi_ep_bind failed");
    check(fi_enable(endpoint_), "fi_enable failed");
  }

  void connect(End& end) {
    std::vector<std::byte> name(256);
    std::size_t octets = name.size();
    check(fi_getname(&endpoint_->fid, name.data(), &octets), "fi_getname failed");
    const auto other = end.exchange(std::span(name).first(octets));
    if (fi_av_insert(addresses_, other.data(), 1, &peer_, 0, nullptr) != 1) {
      stop("fi_av_insert failed");
    }
  }

  template <typename Call>
  void post(Call&& call) {
    for (;;) {
      const ssize_t posted = call();
      if (posted == 0) return;
      if (posted != -FI_EAGAIN) stop("fi_send or fi_recv failed");
      (void)fi_cq_read(sent_, nullptr, 0);  // makes progress
      (void)fi_cq_read(received_, nullptr, 0);
    }
  }

  static void await(fid_cq* queue, std::size_t count) {
    fi_cq_entry entries[kWindow];
    while (count > 0) {
      const ssize_t got = fi_cq_read(queue, entries, std::min(count, kWindow));
      if (got > 0) count -= static_cast<std::size_t>(got);
      if (got < 0 && got != -FI_EAGAIN) stop("a request of libfabric failed");
    }
  }

  void* data() { return buffer_.data(); }
  [[nodiscard]] std::size_t size() const { return buffer_.size(); }

  std::vector<std::byte> buffer_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* sent_ = nullptr;
  fid_cq* received_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
};

double ping_pong(Endpoint& endpoint, const End& end, const Question& question) {
  endpoint.post_receive();
  if (end.is_server()) {
    for (std::size_t i = 0; i < whole_groups(question.count); ++i) {
      endpoint.await_receives(1);
      endpoint.post_receive();
      endpoint.post_send();
      endpoint.await_sends(1);
    }
    return 0;
  }
  return half_trip(question.count, [&] {
    endpoint.post_send();
    endpoint.await_sends(1);
    endpoint.await_receives(1);
    endpoint.post_receive();
  });
}

double stream(Endpoint& endpoint, End& end, const Question& question) {
  const auto start = Clock::now();
  for (std::size_t done = 0; done < question.count; done += kWindow) {
    const std::size_t window = std::min(kWindow, question.count - done);
    for (std::size_t i = 0; i < window; ++i) {
      end.is_server() ? endpoint.post_receive() : endpoint.post_send();
    }
    end.is_server() ? endpoint.await_receives(window) : endpoint.await_sends(window);
  }
  end.meet();  // all of it has arrived
  return throughput(question, seconds_since(start));
}

}  // namespace

int main(int count, char** words) {
  const Question question = question_of(count, words);
  End end;
  {
    Endpoint endpoint(end, question.octets);
    end.meet();
    const double number = question.kind == "latency" ? ping_pong(endpoint, end, question)
                                                     : stream(endpoint, end, question);
    end.meet();
    if (!end.is_server()) answer(number);
  }
  return end.finish();
}

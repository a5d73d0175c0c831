// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "device/adapter.h"
#include "device/completion_queue.h"
#include "device/shared_receive_queue.h"
#include "transport/queue_pair.h"
#include "wire/cm_ids.h"

namespace verbatim::device {

/// A queue pair of a context: the pure machine, the blocks it works on, and its place in the
/// adapter.
class QueuePair {
 public:
  struct Setup {
    transport::QpType type = transport::QpType::kRc;
    memory::DomainId domain = memory::DomainId::kNone;
    std::uint32_t send_depth = 0;
    std::uint32_t receive_depth = 0;
    std::uint32_t send_sges = 0;
    std::uint32_t receive_sges = 0;
    std::uint32_t inline_octets = 0;
    bool signal_all = false;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* receive_cq = nullptr;
    SharedReceiveQueue* shared = nullptr;
    EventPipe* async = nullptr;
    std::uint64_t user_tag = 0;  // subject of its events
  };

  /// kInvalidArgument for limits out of range, kNoMemory when something runs out.
  [[nodiscard]] static Expected<std::unique_ptr<QueuePair>> create(std::shared_ptr<Adapter> adapter,
                                                                   const Setup& setup);
  QueuePair(std::shared_ptr<Adapter> adapter, const Setup& setup) noexcept
      : adapter_(std::move(adapter)), setup_(setup) {}
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  [[nodiscard]] wire::QpNumber number() const noexcept { return number_; }
  [[nodiscard]] const Setup& setup() const noexcept { return setup_; }
  [[nodiscard]] Adapter& adapter() noexcept { return *adapter_; }

  /// `to` is read when the mask names the address.
  [[nodiscard]] Status modify(transport::QpMask mask, const transport::QpAttributes& attributes,
                              const Adapter::Destination* to) noexcept;
  [[nodiscard]] transport::QpAttributes attributes() noexcept;
  [[nodiscard]] bool is_draining() noexcept;

  /// Posting in pieces: open() takes the adapter's lock, post_* queue, close() sends and lets go.
  class Posting {
   public:
    explicit Posting(QueuePair& qp) noexcept : qp_(qp), lock_(qp.adapter_->mutex()) {}
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;
    ~Posting();
    [[nodiscard]] Status send(const transport::SendRequest& request) noexcept;
    [[nodiscard]] Status receive(const transport::ReceiveRequest& request) noexcept;
    [[nodiscard]] bool has_room_for(std::uint32_t requests) const noexcept {
      return qp_.machine_->has_room_for(requests);
    }

   private:
    QueuePair& qp_;
    std::lock_guard<std::mutex> lock_;
    bool sends_ = false;
  };

  // For the adapter, with its lock held.
  [[nodiscard]] transport::QueuePair& machine() noexcept { return *machine_; }
  [[nodiscard]] Instant timer_at() const noexcept { return timer_at_; }
  void set_timer_at(Instant at) noexcept { timer_at_ = at; }
  [[nodiscard]] bool is_ready_listed() const noexcept { return ready_listed_; }
  void set_ready_listed(bool listed) noexcept { ready_listed_ = listed; }
  void set_number(wire::QpNumber number) noexcept { number_ = number; }
  /// The communication that the peer's first packet establishes, if its word that it is ready got
  /// lost; zero: none.
  [[nodiscard]] wire::CommId awaited() const noexcept { return awaited_; }
  void set_awaited(wire::CommId communication) noexcept { awaited_ = communication; }
  /// Events, completion channels, limits: whoever waits for something is told.
  void announce() noexcept;

 private:
  [[nodiscard]] Status build();
  void discard_completions() noexcept;
  [[nodiscard]] std::span<std::byte> take(std::size_t octets) noexcept;

  std::shared_ptr<Adapter> adapter_;
  Setup setup_;
  wire::QpNumber number_{};
  std::vector<std::span<std::byte>> blocks_;  // in the segment
  std::unique_ptr<std::byte[]> send_block_;   // private
  std::optional<transport::CompletionPort> send_port_;
  std::optional<transport::CompletionPort> receive_port_;
  std::uint32_t send_lane_places_ = 0;
  std::uint32_t receive_lane_places_ = 0;
  bool in_domain_ = false;
  bool in_shared_ = false;
  bool numbered_ = false;
  std::unique_ptr<transport::QueuePair> machine_;
  Instant timer_at_ = Instant::never();
  bool ready_listed_ = false;
  wire::CommId awaited_{};
};

}  // namespace verbatim::device

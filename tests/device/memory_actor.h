// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "memory_model.h"
#include "stress_board.h"
#include "two_ends.h"

namespace verbatim::testing {

/// What the actors of a program share.
struct Stage {
  StressBoard* board = nullptr;
  End* end = nullptr;          // the device, a protection domain
  const char* file = nullptr;  // block i of it has stamp_of_file(i)
  FreshAddresses fresh;
  static constexpr std::size_t kFileBlocks = 4096;
  [[nodiscard]] static Stamp stamp_of_file(std::size_t block) {
    return 0xf11e'0000'0000'0000U + block;
  }
};

/// A thread of a program that owns buffers and does at random what programs do with memory. Each
/// such action is a Deed. After each deed the buffer is compared with its model.
///
/// The actor outlives its thread: another thread takes the place of one that is cancelled between
/// two deeds. Other threads call is_waiting(), send_what_is_awaited(), note_cancelled() and
/// shown().
class MemoryActor {
 public:
  MemoryActor(Stage& stage, unsigned number, std::uint64_t seed)
      : stage_(stage), board_(*stage.board), number_(number), prng_(seed) {}
  MemoryActor(const MemoryActor&) = delete;
  MemoryActor& operator=(const MemoryActor&) = delete;

  /// Buffers, some of them registered, then queue pairs, then more buffers.
  void open();
  /// One deed. `is_alone`: the program has no thread but this one.
  void act(bool is_alone);
  void check_all();
  /// Everything is given back, and each step must succeed.
  void close();

  /// Waits in recv(2), with a registered buffer; the thread may be cancelled there.
  void receive_or_die();
  [[nodiscard]] bool is_waiting() const { return waits_.load() % 2 != 0; }
  /// Sends the message for which the thread waits, and returns when the thread has received it. Not
  /// for a thread that is cancelled.
  void send_what_is_awaited();
  void note_cancelled() { waits_.fetch_add(waits_.load() % 2); }

  /// Some address of a buffer, as it was a moment ago.
  [[nodiscard]] std::uintptr_t shown() const { return shown_.load(); }
  [[nodiscard]] Prng& prng() { return prng_; }

 private:
  struct Region {
    ibv_mr* mr = nullptr;
    Blocks part;
  };
  struct Buffer {
    ModelledMemory memory;
    std::vector<Region> regions;
  };
  struct Line {
    ibv_cq* cq = nullptr;
    ibv_qp* near = nullptr;
    ibv_qp* far = nullptr;
  };
  static constexpr std::size_t kBuffersMax = 6;
  static constexpr std::size_t kPagesMax = 48;
  static constexpr std::size_t kRegionsMax = 4;

  // Choices.
  Buffer& any_buffer() { return *buffers_[prng_.below(buffers_.size())]; }
  Buffer* any_registered_buffer();
  Blocks any_part(const Buffer& buffer);
  Blocks any_pages(const Buffer& buffer);
  Blocks any_file_part(Blocks part);
  std::vector<Stamp> new_stamps(std::size_t count);
  static std::vector<Stamp> file_stamps(Blocks of_file);

  // Deeds.
  void store();
  void map_one(bool is_fresh);
  void unmap_one();
  void empty_one();
  void relocate_one();
  void register_part(Buffer& buffer, Blocks part, bool is_alone);
  void deregister_one(Buffer& buffer);
  void deregister_all(Buffer& buffer);
  void transfer(Deed deed);
  void use_stale_key();
  void read_file(Deed deed);
  void read_with_ring();
  void read_while_registering();
  void read_into_fixed();
  void receive();
  void fork_and_compare();
  void let_other_write(bool at_once);

  // Helpers.
  bool join(Line& line);
  void part(Line& line);
  ibv_wc_status run(const Line& line, ibv_wr_opcode opcode, ibv_sge local, std::uint64_t remote,
                    std::uint32_t rkey);
  ibv_sge stage_sge(std::size_t octets) const;
  void check(Buffer& buffer, Blocks part, Deed deed);
  int run_child(int go);
  void show();

  Stage& stage_;
  StressBoard& board_;
  const unsigned number_;
  Prng prng_;
  Stamp next_stamp_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Line line_;
  ModelledMemory staging_;  // the other end of transfers
  ibv_mr* staging_mr_ = nullptr;
  int sockets_[2] = {-1, -1};
  std::atomic<std::uint64_t> waits_{0};  // begun and ended: odd while it waits
  std::vector<Stamp> awaited_;
  std::atomic<std::uintptr_t> shown_{0};
};

/// Whether the page at an address is a page of the memory file that peers map.
[[nodiscard]] bool is_in_arena(const void* address);

}  // namespace verbatim::testing

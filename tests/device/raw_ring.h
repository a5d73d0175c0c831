// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace verbatim::testing {

/// An io_uring(7) for one read at a time, by system calls alone.
class RawRing {
 public:
  RawRing() = default;
  RawRing(const RawRing&) = delete;
  RawRing& operator=(const RawRing&) = delete;
  ~RawRing() {
    if (entries_ != nullptr) ::munmap(entries_, kEntriesOctets);
    if (rings_ != nullptr) ::munmap(rings_, kRingsOctets);
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  /// False where the system has none, or does not allow it.
  bool open() noexcept {
    descriptor_ = static_cast<int>(::syscall(SYS_io_uring_setup, 4, &params_));
    if (descriptor_ < 0 || (params_.features & IORING_FEAT_SINGLE_MMAP) == 0) return false;
    rings_ = map(kRingsOctets, IORING_OFF_SQ_RING);
    entries_ = map(kEntriesOctets, IORING_OFF_SQES);
    return rings_ != nullptr && entries_ != nullptr;
  }
  /// 0, or the error. Reads with is_fixed go to this memory then.
  [[nodiscard]] int fix(void* at, std::size_t octets) const noexcept {
    const iovec buffer{.iov_base = at, .iov_len = octets};
    const long done =
        ::syscall(SYS_io_uring_register, descriptor_, IORING_REGISTER_BUFFERS, &buffer, 1);
    return done == 0 ? 0 : errno;
  }
  [[nodiscard]] bool unfix() const noexcept {
    return ::syscall(SYS_io_uring_register, descriptor_, IORING_UNREGISTER_BUFFERS, nullptr, 0) ==
           0;
  }

  struct Read {
    int file = -1;
    void* to = nullptr;
    std::size_t octets = 0;
    std::size_t offset = 0;
    bool is_fixed = false;
  };
  [[nodiscard]] bool submit(const Read& read) const noexcept {
    std::uint32_t& tail = word(params_.sq_off.tail);
    const std::uint32_t index = tail & word(params_.sq_off.ring_mask);
    io_uring_sqe& entry = static_cast<io_uring_sqe*>(entries_)[index];
    entry = {};
    entry.opcode = read.is_fixed ? IORING_OP_READ_FIXED : IORING_OP_READ;
    entry.fd = read.file;
    entry.addr = reinterpret_cast<std::uintptr_t>(read.to);
    entry.len = static_cast<std::uint32_t>(read.octets);
    entry.off = read.offset;
    (&word(params_.sq_off.array))[index] = index;
    std::atomic_ref(tail).store(tail + 1, std::memory_order_release);
    return ::syscall(SYS_io_uring_enter, descriptor_, 1, 0, 0, nullptr, 0) == 1;
  }
  /// Waits for the read: octets, or the error as a negative number.
  [[nodiscard]] int reap() const noexcept {
    std::uint32_t& head = word(params_.cq_off.head);
    while (std::atomic_ref(word(params_.cq_off.tail)).load(std::memory_order_acquire) == head) {
      const long waited =
          ::syscall(SYS_io_uring_enter, descriptor_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
      if (waited < 0 && errno != EINTR) return -errno;
    }
    const auto* completions = reinterpret_cast<const io_uring_cqe*>(&word(params_.cq_off.cqes));
    const int result = completions[head & word(params_.cq_off.ring_mask)].res;
    std::atomic_ref(head).store(head + 1, std::memory_order_release);
    return result;
  }

 private:
  static constexpr std::size_t kRingsOctets = 4096;
  static constexpr std::size_t kEntriesOctets = 4 * sizeof(io_uring_sqe);

  [[nodiscard]] void* map(std::size_t octets, long what) const noexcept {
    void* at = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, what);
    return at == MAP_FAILED ? nullptr : at;
  }
  [[nodiscard]] std::uint32_t& word(std::uint32_t offset) const noexcept {
    return *reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(rings_) + offset);
  }

  int descriptor_ = -1;
  io_uring_params params_{};
  void* rings_ = nullptr;    // both queues
  void* entries_ = nullptr;  // what is submitted
};

}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
// What does it cost to move memory into the arena, what to register it again when it is there, and
// after how many uses has it paid? Beside it, in the same run: pwrite(2) of the same memory into a
// new memory file, and mmap(2) over it, which is what moving would cost if no other thread existed;
// and what a peer pays for memory that did not move, process_vm_writev(2).
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <vector>

#include "rehome/rehoming.h"
#include "rounds.h"

namespace {

using namespace verbatim;
using bench::median;

constexpr std::size_t kMebi = std::size_t{1} << 20;

/// Processor time of this thread. Nothing here waits, and time that other programs of the machine
/// use does not count.
double now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

template <typename Work>
double microseconds(Work&& work) {
  const double start = now();
  work();
  return now() - start;
}

class Memory {
 public:
  explicit Memory(std::size_t octets) : octets_(octets) {
    data_ = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(data_, 1, octets);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, octets_); }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] rehome::Range range() const {
    const auto begin = std::bit_cast<std::uintptr_t>(data_);
    return {.begin = begin, .end = begin + octets_};
  }

 private:
  void* data_ = nullptr;
  std::size_t octets_;
};

/// The memory file exists before the measurement: only the pages are of interest.
double copy_and_map(std::size_t octets) {
  const Memory memory(octets);
  const int file = ::memfd_create("bench", MFD_CLOEXEC);
  bool works = ::ftruncate(file, static_cast<off_t>(octets)) == 0;
  const double time = microseconds([&] {
    for (std::size_t at = 0; works && at < octets;) {
      const auto done = ::pwrite(file, static_cast<char*>(memory.data()) + at,
                                 std::min(octets - at, kMebi), static_cast<off_t>(at));
      works = done > 0;
      at += works ? static_cast<std::size_t>(done) : 0;
    }
    works = works && ::mmap(memory.data(), octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            file, 0) == memory.data();
  });
  ::close(file);
  return works ? time : 0;
}

struct Cost {
  double in = 0;     // the first registration
  double again = 0;  // a later one, and its end
};

Cost move(std::size_t octets) {
  static rehome::Rehoming& rehoming = *new rehome::Rehoming;
  const Memory memory(octets);
  Cost cost;
  const double start = now();
  const auto moved = rehoming.move_in(memory.range());
  cost.in = now() - start;
  if (!moved) {
    std::printf("not moved: %s\n", rehome::to_text(moved.error()));
    return {};
  }
  cost.again = microseconds([&] {
    if (const auto again = rehoming.move_in(memory.range())) rehoming.drop(*again);
  });
  rehoming.drop(*moved);
  return cost;
}

void whole_gibibyte() {
  constexpr std::size_t kOctets = std::size_t{1024} * kMebi;
  constexpr int kRounds = 3;
  std::vector<double> peer;
  std::vector<double> in;
  std::vector<double> ratio;
  for (int round = 0; round < kRounds; ++round) {
    peer.push_back(copy_and_map(kOctets));
    in.push_back(move(kOctets).in);
    ratio.push_back(in.back() / peer.back());
  }
  std::printf("1 GiB, medians of %d rounds, us per MiB\n", kRounds);
  std::printf("  pwrite + mmap(MAP_FIXED)   %7.0f\n", median(peer) / 1024);
  std::printf("  move in                    %7.0f   ratio %.2f\n", median(in) / 1024,
              median(ratio));
  std::fflush(stdout);
}

/// One WRITE into the whole range by system call, less the same by memcpy: what each use saves.
double saved_per_write(std::size_t octets) {
  const Memory from(octets);
  const Memory to(octets);
  std::vector<double> saved;
  for (int round = 0; round < 101; ++round) {
    const iovec source{.iov_base = from.data(), .iov_len = octets};
    const iovec target{.iov_base = to.data(), .iov_len = octets};
    const double call =
        microseconds([&] { (void)::process_vm_writev(::getpid(), &source, 1, &target, 1, 0); });
    const double copy = microseconds([&] { std::memcpy(to.data(), from.data(), octets); });
    saved.push_back(call - copy);
  }
  return median(saved);
}

void by_size() {
  std::printf(
      "\n  size     in us  again us   saved by a WRITE of it, us   WRITEs until it has paid\n");
  for (std::size_t octets = 4096; octets <= 4 * kMebi; octets *= 2) {
    std::vector<double> in;
    std::vector<double> again;
    for (int round = 0; round < 21; ++round) {
      const Cost cost = move(octets);
      in.push_back(cost.in);
      again.push_back(cost.again);
    }
    const double saved = saved_per_write(octets);
    std::printf("  %5zu K %7.1f %9.1f %28.2f %26.0f\n", octets / 1024, median(in), median(again),
                saved, median(in) / std::max(saved, 0.01));
  }
}

}  // namespace

int main() {
  whole_gibibyte();
  by_size();
}

// SPDX-License-Identifier: Apache-2.0
// What the machine itself can do: memcpy into, or out of, pages that another process maps, and a
// store that the other core waits for.
//
// Usage: shared_pages write|read|latency OCTETS COUNT
#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "ends.h"

namespace {

using namespace verbatim::bench;

std::byte* map_shared(std::size_t octets) {
  void* pages = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) stop("mmap failed");
  return static_cast<std::byte*>(pages);
}

double copy(std::byte* shared, const Question& question) {
  std::vector<std::byte> own(question.octets, std::byte{1});
  std::byte* to = question.kind == "write" ? shared : own.data();
  const std::byte* from = question.kind == "write" ? own.data() : shared;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < question.count; ++i) {
    std::memcpy(to, from, question.octets);
    asm volatile("" : : "r"(to) : "memory");
  }
  return throughput(question, seconds_since(start));
}

using Word = std::atomic_ref<std::uint64_t>;

void await(std::uint64_t& word, std::uint64_t value) {
  while (Word(word).load(std::memory_order_acquire) != value) {
  }
}

double ping_pong(std::byte* shared, const End& end, const Question& question) {
  auto& ping = *reinterpret_cast<std::uint64_t*>(shared);
  auto& pong = *reinterpret_cast<std::uint64_t*>(shared + 4096);
  std::uint64_t turn = 0;
  if (end.is_server()) {
    while (turn < whole_groups(question.count)) {
      await(ping, ++turn);
      Word(pong).store(turn, std::memory_order_release);
    }
    return 0;
  }
  return half_trip(question.count, [&] {
    Word(ping).store(++turn, std::memory_order_release);
    await(pong, turn);
  });
}

}  // namespace

int main(int count, char** words) {
  const Question question = question_of(count, words);
  std::byte* shared = map_shared(std::max<std::size_t>(question.octets, 2UL * 4096));
  End end;
  // The other process has the pages too, as the target of a WRITE has.
  std::memset(shared, 0, question.octets);
  end.meet();
  if (question.kind == "latency") {
    const double microseconds = ping_pong(shared, end, question);
    if (!end.is_server()) answer(microseconds);
  } else if (!end.is_server()) {
    answer(copy(shared, question));
  }
  return end.finish();
}

// SPDX-License-Identifier: Apache-2.0
// A forked child and the memory of a peer process that its parent has mapped. The child has nothing
// at those addresses, and memory of its own may come there at any time: nothing that the child does
// with the queue pairs that it inherited may touch it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::size_t kPage = 4096;

struct Mapped {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// The mappings of files of the library.
std::vector<Mapped> library_mappings() {
  std::vector<Mapped> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapped mapped;
    if (line.find("memfd:verbatim") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &mapped.begin, &mapped.end) == 2) {
      found.push_back(mapped);
    }
  }
  return found;
}

/// Memory of the child's own where its parent has mapped something and the child has nothing.
class OwnMemory {
 public:
  explicit OwnMemory(const std::vector<Mapped>& of_parent) {
    const auto here = library_mappings();
    for (const Mapped& mapped : of_parent) {
      const bool is_here = std::any_of(here.begin(), here.end(), [&](const Mapped& own) {
        return own.begin < mapped.end && mapped.begin < own.end;
      });
      if (is_here) continue;
      void* const at = ::mmap(
          reinterpret_cast<void*>(mapped.begin), mapped.end - mapped.begin, PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
      if (at != reinterpret_cast<void*>(mapped.begin)) continue;
      (void)::madvise(at, mapped.end - mapped.begin, MADV_NOHUGEPAGE);
      std::memset(at, kOctet, kPage);
      ranges_.push_back(mapped);
    }
  }
  [[nodiscard]] bool is_there() const { return !ranges_.empty(); }
  /// Whether the first page is as it was written, and no other page was written.
  [[nodiscard]] bool is_untouched() const {
    return std::all_of(ranges_.begin(), ranges_.end(), [](const Mapped& range) {
      const auto* const first = reinterpret_cast<const unsigned char*>(range.begin);
      const std::size_t looked_at = std::min<std::size_t>(range.end - range.begin, 256UL << 20);
      std::vector<unsigned char> present(looked_at / kPage);
      if (::mincore(reinterpret_cast<void*>(range.begin), looked_at, present.data()) != 0) {
        return false;  // it was unmapped
      }
      return std::all_of(first, first + kPage, [](unsigned char octet) { return octet == kOctet; });
    });
  }

 private:
  static constexpr unsigned char kOctet = 0x5a;
  std::vector<Mapped> ranges_;
};

template <typename Body>
int status_of(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(static_cast<unsigned>(std::chrono::seconds(kEndPatience).count()));
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

struct Notes {
  EndNotes parent;
  EndNotes peer;
  std::atomic<int> connected{0};
  std::atomic<bool> is_over{false};
};

int be_peer(Notes& notes) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.peer, 1);
  if (!await([&] { return notes.parent.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.parent.number, {})) return 3;
  ++notes.connected;
  const bool is_over = await([&] { return notes.is_over.load(); });
  // The memory has the last value of the parent, and no value of the children.
  return is_over && end.buffer[0] == std::byte{1} ? 0 : 4;
}

/// In a child of the parent.
int use_what_was_inherited(const End& end, const Notes& notes) {
  end.buffer[0] = std::byte{2};
  (void)End::post(end.qp, 1, IBV_WR_RDMA_WRITE, end.sge(0, 64), notes.peer);
  ibv_wc wc;
  for (int i = 0; i < 10; ++i) {
    if (ibv_poll_cq(end.cq, 1, &wc) < 0) return 20;
  }
  return ibv_destroy_qp(end.qp) == 0 ? 0 : 21;
}

int be_parent(Notes& notes) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 10;
  end.tell(notes.parent, 1);
  if (!await([&] { return notes.peer.ready == 1; })) return 11;
  if (!end.connect(end.qp, notes.peer.number, {})) return 12;
  ++notes.connected;
  if (!await([&] { return notes.connected == 2; })) return 13;
  end.buffer[0] = std::byte{1};
  if (end.run(IBV_WR_RDMA_WRITE, notes.peer, 64) != IBV_WC_SUCCESS) return 14;
  const auto mapped = library_mappings();
  if (const int failed = status_of([&] { return use_what_was_inherited(end, notes); })) {
    return failed;
  }
  const int failed = status_of([&] {
    const OwnMemory own(mapped);
    if (!own.is_there()) return 30;
    if (const int cause = use_what_was_inherited(end, notes)) return cause;
    return own.is_untouched() ? 0 : 31;
  });
  if (failed != 0) return failed;
  // The parent has lost nothing.
  return end.run(IBV_WR_RDMA_WRITE, notes.peer, 64) == IBV_WC_SUCCESS ? 0 : 15;
}

TEST(InheritedPeer, ItsAddressesBelongToTheChild) {
  auto* const notes = share_with_children<Notes>();
  const pid_t peer = ::fork();
  if (peer == 0) ::_exit(be_peer(*notes));
  EXPECT_EQ(status_of([&] { return be_parent(*notes); }), 0);
  notes->is_over = true;
  int status = 0;
  ASSERT_EQ(::waitpid(peer, &status, 0), peer);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

/// The parent, whose child keeps running with all inherited objects.
int leave_a_child_behind(Notes& notes) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 10;
  end.tell(notes.parent, 1);
  if (!await([&] { return notes.peer.ready == 1; })) return 11;
  if (!end.connect(end.qp, notes.peer.number, {})) return 12;
  if (end.run(IBV_WR_RDMA_WRITE, notes.peer, 64) != IBV_WC_SUCCESS) return 13;
  if (::fork() == 0) {
    (void)await([&] { return notes.is_over.load(); });
    ::_exit(0);
  }
  ++notes.connected;
  ::raise(SIGKILL);
  return 14;
}

/// The connection to a process ends with the process, so no child may keep it open.
TEST(InheritedPeer, HearsOfTheDeathOfAParentWhoseChildLives) {
  auto* const notes = share_with_children<Notes>();
  const pid_t parent = ::fork();
  if (parent == 0) ::_exit(leave_a_child_behind(*notes));
  EXPECT_EQ(status_of([&] {
              End end;
              if (!end.open() || !end.make_qp(&end.qp)) return 1;
              end.tell(notes->peer, 1);
              if (!await([&] { return notes->parent.ready == 1; })) return 2;
              if (!end.connect(end.qp, notes->parent.number, {})) return 3;
              if (!await([&] { return notes->connected == 1; })) return 4;
              const bool heard = await(
                  [&] { return end.run(IBV_WR_RDMA_WRITE, notes->parent, 64) != IBV_WC_SUCCESS; });
              return heard ? 0 : 5;
            }),
            0);
  notes->is_over = true;
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
}

}  // namespace
}  // namespace verbatim::testing

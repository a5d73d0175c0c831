// SPDX-License-Identifier: Apache-2.0
// A program closes descriptors that are not its own, as daemons do, and opens files: the library
// leaves the files alone, and says that the device has failed.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

/// All descriptors of the process but the first three.
std::vector<int> open_numbers() {
  std::vector<int> numbers;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    const int number = std::atoi(entry->d_name);
    if (number > 2 && number != ::dirfd(folder)) numbers.push_back(number);
  }
  ::closedir(folder);
  return numbers;
}

/// For each other thread of the process, how often it has left its processor.
std::map<std::string, std::string> switches_of_others() {
  std::map<std::string, std::string> switches;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("State:") || line.find("ctxt_switches:") != std::string::npos) {
        switches[task.path().filename()] += line;
      }
    }
  }
  return switches;
}

/// A thread of the library that opens or closes a descriptor in the moment in which the program
/// replaces that number can close the program's file: no system call compares and closes in one
/// step. So the program closes descriptors while these threads sleep.
void wait_until_others_sleep() {
  std::map<std::string, std::string> before;
  ASSERT_TRUE(await([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return std::exchange(before, switches_of_others()) == before &&
           std::ranges::none_of(before, [](const auto& thread) {
             return thread.second.find("R (running)") != std::string::npos;
           });
  }));
}

/// Files of the program at the very numbers that the library's descriptors had.
class Files {
 public:
  /// Closes everything, and opens the files.
  Files() {
    wait_until_others_sleep();
    const std::vector<int> numbers = open_numbers();
    ::close_range(3, ~0U, 0);
    for (const int number : numbers) put(number, ::memfd_create("file", 0), ::memfd_create("", 0));
  }
  /// The same with connections in place of files, in each of which some octets wait to be read.
  explicit Files(std::string_view octets) {
    wait_until_others_sleep();
    const std::vector<int> numbers = open_numbers();
    ::close_range(3, ~0U, 0);
    for (const int number : numbers) {
      int ends[2];
      (void)!::socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
      (void)!::write(ends[1], octets.data(), octets.size());
      put(number, ends[0], ends[1]);
    }
  }

  /// Whether all of them are open and still the same files.
  [[nodiscard]] bool are_open() const {
    for (const auto& [number, inode] : inodes_) {
      struct stat state {};
      if (::fstat(number, &state) != 0 || state.st_ino != inode) return false;
    }
    return true;
  }
  [[nodiscard]] bool are_empty() const {
    for (const auto& [number, inode] : inodes_) {
      struct stat state {};
      if (::fstat(number, &state) != 0 || state.st_size != 0) return false;
    }
    return true;
  }
  /// Whether each connection has exactly these octets to read, and nothing has arrived at its other
  /// end.
  [[nodiscard]] bool have(std::string_view octets) const {
    char room[64];
    for (const auto& [number, inode] : inodes_) {
      const ssize_t got = ::recv(number, room, sizeof room, MSG_PEEK | MSG_DONTWAIT);
      if (std::string_view(room, got < 0 ? 0 : static_cast<std::size_t>(got)) != octets)
        return false;
    }
    for (const int end : others_) {
      if (::recv(end, room, sizeof room, MSG_PEEK | MSG_DONTWAIT) != -1) return false;
    }
    return true;
  }

 private:
  /// Puts `file` at the number, and the other end at a number that no other file needs.
  void put(int number, int file, int other) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto aside_from = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 8192) / 4 * 3);
    others_.push_back(::fcntl(other, F_DUPFD, aside_from));
    ::close(other);
    if (file != number) {
      const int aside = ::fcntl(file, F_DUPFD, aside_from);
      ::close(file);
      ::dup2(aside, number);
      ::close(aside);
    }
    struct stat state {};
    ::fstat(number, &state);
    inodes_[number] = state.st_ino;
  }

  std::map<int, ino_t> inodes_;  // by number
  std::vector<int> others_;
};

struct Pair {
  End ends[2];
  ibv_comp_channel* channel = nullptr;

  bool open() {
    for (End& end : ends) {
      if (!end.open()) return false;
    }
    channel = ibv_create_comp_channel(ends[0].context);
    if (channel == nullptr || ibv_destroy_cq(ends[0].cq) != 0) return false;
    ends[0].cq = ibv_create_cq(ends[0].context, 64, nullptr, channel, 0);
    for (End& end : ends) {
      if (!end.make_qp(&end.qp)) return false;
    }
    return ends[0].connect(ends[0].qp, ends[1].qp->qp_num, {}) &&
           ends[1].connect(ends[1].qp, ends[0].qp->qp_num, {});
  }
  bool write() {
    EndNotes to;
    ends[1].tell(to, 1);
    return End::post(ends[0].qp, 0, IBV_WR_RDMA_WRITE, ends[0].sge(0, 64), to);
  }
  bool close() {
    bool is_good = true;
    for (End& end : ends) {
      is_good = is_good && ibv_destroy_qp(end.qp) == 0 && ibv_dereg_mr(end.mr) == 0 &&
                ibv_destroy_cq(end.cq) == 0 && ibv_dealloc_pd(end.pd) == 0;
    }
    is_good = is_good && ibv_destroy_comp_channel(channel) == 0;
    for (End& end : ends) is_good = is_good && ibv_close_device(end.context) == 0;
    return is_good;
  }
  /// Waits until the device says that it has failed.
  bool await_failure() {
    return await([&] {
      ibv_async_event event{};
      if (ibv_get_async_event(ends[0].context, &event) != 0) return false;
      ibv_ack_async_event(&event);
      return event.event_type == IBV_EVENT_DEVICE_FATAL;
    });
  }
};

TEST(ClosedDescriptors, FilesOfTheProgramStayOpenAndEmpty) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              const Files files;
              (void)ibv_req_notify_cq(pair.ends[0].cq, 0);
              for (int i = 0; i < 8; ++i) {
                ibv_wc wc;
                (void)pair.write();
                (void)ibv_poll_cq(pair.ends[0].cq, 1, &wc);
              }
              if (!pair.await_failure()) return 11;
              if (!files.are_open() || !files.are_empty()) return 12;
              if (!pair.close()) return 13;
              return files.are_open() && files.are_empty() ? 0 : 14;
            }),
            0);
}

TEST(ClosedDescriptors, ConnectionsOfTheProgramAreNotReadOrWritten) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              const Files connections("12345678");
              if (!pair.await_failure()) return 11;
              (void)ibv_req_notify_cq(pair.ends[0].cq, 0);
              (void)pair.write();
              if (!connections.have("12345678")) return 12;
              if (!pair.close()) return 13;
              return connections.are_open() && connections.have("12345678") ? 0 : 14;
            }),
            0);
}

/// The engine sleeps in another way once nothing has happened for a while.
TEST(ClosedDescriptors, AnIdleDeviceNoticesIt) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              std::this_thread::sleep_for(std::chrono::milliseconds(500));
              ::close_range(3, ~0U, 0);
              if (!pair.await_failure()) return 11;
              return pair.close() ? 0 : 12;
            }),
            0);
}

TEST(ClosedDescriptors, WhatWasPostedIsFlushed) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              ibv_recv_wr request{};
              ibv_recv_wr* bad = nullptr;
              if (ibv_post_recv(pair.ends[1].qp, &request, &bad) != 0) return 11;
              ::close_range(3, ~0U, 0);
              ibv_wc wc{};
              if (!pair.ends[1].collect(wc)) return 12;
              return wc.status == IBV_WC_WR_FLUSH_ERR ? 0 : 13;
            }),
            0);
}

TEST(ClosedDescriptors, TheDeviceCanBeOpenedAgain) {
  EXPECT_EQ(in_process([] {
              Pair lost;
              if (!lost.open()) return 10;
              ::close_range(3, ~0U, 0);
              if (!lost.await_failure()) return 11;
              Pair anew;
              ibv_wc wc{};
              if (!anew.open()) return 12;
              if (!lost.close()) return 13;  // takes nothing from the new one
              if (!anew.write() || !anew.ends[0].collect(wc)) return 14;
              return wc.status == IBV_WC_SUCCESS && anew.close() ? 0 : 15;
            }),
            0);
}

TEST(ClosedDescriptors, AForkedChildGetsOut) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              const Files files;
              const int child = in_process([&] {
                Pair own;
                if (!own.open()) return 1;
                if (!own.write()) return 2;
                return files.are_open() ? 0 : 3;
              });
              if (child != 0) return 11;
              return files.are_open() && pair.close() && files.are_open() ? 0 : 12;
            }),
            0);
}

/// Memory that has moved lies in a file whose descriptor the program has closed. A child has what
/// it contained at the fork, and a store of the one does not show in the other.
TEST(ClosedDescriptors, AForkedChildHasTheMemoryThatWasRegistered) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              std::byte* const own = pair.ends[0].buffer;
              std::memset(own, 0x11, End::kOctets);
              const Files files;
              const int child = in_process([&] {
                for (std::uint32_t i = 0; i < End::kOctets; ++i) {
                  if (own[i] != std::byte{0x11}) return 1;
                }
                std::memset(own, 0x22, End::kOctets);
                return 0;
              });
              if (child != 0) return 11;
              const bool is_kept = std::all_of(own, own + End::kOctets, [](std::byte octet) {
                return octet == std::byte{0x11};
              });
              return is_kept && files.are_open() ? 0 : 12;
            }),
            0);
}

/// The descriptors of the device have numbers that such loops do not reach.
TEST(ClosedDescriptors, ALoopOverSmallNumbersLeavesTheDeviceWorking) {
  EXPECT_EQ(in_process([] {
              Pair pair;
              if (!pair.open()) return 10;
              for (int number = 3; number < 64; ++number) ::close(number);
              for (int i = 0; i < 100; ++i) {
                ibv_wc wc{};
                if (!pair.write() || !pair.ends[0].collect(wc)) return 11;
                if (wc.status != IBV_WC_SUCCESS) return 12;
              }
              return pair.close() ? 0 : 13;
            }),
            0);
}

TEST(ClosedDescriptors, AChannelOfConnectionEventsClosesNoFile) {
  EXPECT_EQ(in_process([] {
              rdma_event_channel* const channel = rdma_create_event_channel();
              rdma_cm_id* id = nullptr;
              if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
                return 10;
              }
              sockaddr_in to{};
              to.sin_family = AF_INET;
              to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
              if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) != 0) {
                return 11;
              }
              const Files connections("1");
              rdma_cm_event* event = nullptr;
              while (rdma_get_cm_event(channel, &event) == 0) rdma_ack_cm_event(event);
              rdma_destroy_id(id);
              rdma_destroy_event_channel(channel);
              return connections.are_open() && connections.have("1") ? 0 : 13;
            }),
            0);
}

}  // namespace
}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
// The cost of a message of connection management that an attacker sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "call_counter.h"
#include "stranger.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint8_t kReject = 0x12;
constexpr std::uint8_t kReadyToUse = 0x14;
constexpr std::size_t kMadOctets = 256;
constexpr std::size_t kBodyAt = 24;  // of a MAD

/// A message with a right checksum, from a communication that does not exist to one that does not.
Packet make_message(Stranger& stranger, std::uint8_t kind, std::uint32_t remote) {
  std::array<std::byte, kMadOctets> mad{};
  mad[0] = std::byte{1};            // base version
  mad[1] = std::byte{7};            // class: communication management,
  mad[2] = std::byte{2};            // its version
  mad[3] = std::byte{3};            // Send
  mad[15] = std::byte{1};           // transaction
  mad[17] = std::byte{kind};        // attribute
  mad[kBodyAt + 3] = std::byte{1};  // local communication ID
  for (std::size_t i = 0; i < 4; ++i) {
    mad[kBodyAt + 4 + i] = static_cast<std::byte>(remote >> (24 - 8 * i));
  }
  if (kind == kReject) mad[kBodyAt + 11] = std::byte{4};  // reason
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
  headers.bth.dest_qp = wire::QpNumber::kGsi;
  headers.deth = {.qkey = wire::QKey::kGsi, .source_qp = wire::QpNumber::kGsi};
  return stranger.make(headers, mad);
}

/// Processes of one user with the device open, which do nothing.
class Idlers {
 public:
  explicit Idlers(int count) {
    auto* open = share_with_children<std::atomic<int>>();
    for (int i = 0; i < count; ++i) {
      processes_.push_back(::fork());
      if (processes_.back() == 0) {
        End end;
        if (end.open()) ++*open;
        for (;;) ::pause();
      }
      EXPECT_TRUE(await([&] { return *open == i + 1; })) << "the order of the slots";
    }
  }
  Idlers(const Idlers&) = delete;
  Idlers& operator=(const Idlers&) = delete;
  ~Idlers() {
    for (const pid_t process : processes_) ::kill(process, SIGKILL);
    while (::waitpid(-1, nullptr, __WALL) > 0) {  // threads that are traced end one by one
    }
  }
  [[nodiscard]] const std::vector<pid_t>& processes() const noexcept { return processes_; }

 private:
  std::vector<pid_t> processes_;
};

/// The system calls of all processes for this message, sent many times.
std::uint64_t count_calls(std::uint8_t kind, std::uint32_t remote) {
  constexpr int kMessages = 2000;
  constexpr int kProcesses = 3;
  constexpr std::chrono::milliseconds kQuiet{500};
  const Idlers idlers(kProcesses);
  Stranger stranger;
  EXPECT_TRUE(stranger.is_ready());
  const Packet message = make_message(stranger, kind, remote);
  CallCounter counter;
  if (!counter.start(idlers.processes())) return 0;
  counter.run_until_quiet(kQuiet);
  const std::uint64_t before = counter.calls();
  for (int i = 0; i < kMessages; ++i) {
    stranger.send(message);
    while (counter.look()) {
    }
  }
  counter.run_until_quiet(kQuiet);
  return counter.calls() - before;
}

// A REJ may answer a request without naming the process that sent it. Any of them may have.
TEST(StrangersMessage, ThatMayBeForAnyProcessCostsLittleMoreThanOneForAProcess) {
  constexpr std::uint32_t kInFirstSlot = 0x00ff'ff01;
  const std::uint64_t for_one = count_calls(kReadyToUse, kInFirstSlot);
  const std::uint64_t for_any = count_calls(kReject, 0);
  if (for_one == 0 || for_any == 0) GTEST_SKIP() << "the system does not let us trace children";
  EXPECT_LE(for_any, 3 * for_one) << "system calls";
  RecordProperty("for_one", static_cast<int>(for_one));
  RecordProperty("for_any", static_cast<int>(for_any));
}

}  // namespace
}  // namespace verbatim::testing

// SPDX-License-Identifier: Apache-2.0
// How fast are messages of MPI between two ranks, in memory that the program allocated?
//
// Usage: mpirun -np 2 mpi_messages latency|rate|bandwidth OCTETS COUNT
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "question.h"

namespace {

using namespace verbatim::bench;

constexpr std::size_t kWindow = 64;  // messages under way

struct Rank {
  int number = 0;  // 0 sends, 1 receives
  std::vector<char> buffer{};

  [[nodiscard]] int other() const { return 1 - number; }
  void send() {
    MPI_Send(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, other(), 0, MPI_COMM_WORLD);
  }
  void receive() {
    MPI_Recv(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, other(), 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  }
};

double ping_pong(Rank& rank, const Question& question) {
  if (rank.number == 1) {
    for (std::size_t i = 0; i < whole_groups(question.count); ++i) {
      rank.receive();
      rank.send();
    }
    return 0;
  }
  return half_trip(question.count, [&] {
    rank.send();
    rank.receive();
  });
}

double stream(Rank& rank, const Question& question) {
  const int octets = static_cast<int>(question.octets);
  const auto start = Clock::now();
  for (std::size_t done = 0; done < question.count; done += kWindow) {
    MPI_Request requests[kWindow];
    const std::size_t window = std::min(kWindow, question.count - done);
    for (std::size_t i = 0; i < window; ++i) {
      if (rank.number == 0) {
        MPI_Isend(rank.buffer.data(), octets, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
      } else {
        MPI_Irecv(rank.buffer.data(), octets, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
      }
    }
    MPI_Waitall(static_cast<int>(window), requests, MPI_STATUSES_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // all of it has arrived
  return throughput(question, seconds_since(start));
}

}  // namespace

int main(int count, char** words) {
  const Question question = question_of(count, words);
  MPI_Init(&count, &words);
  Rank rank{.buffer = std::vector<char>(question.octets)};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank.number);
  pin_to(rank.number == 0 ? kClientCore : kServerCore);
  MPI_Barrier(MPI_COMM_WORLD);
  const double number =
      question.kind == "latency" ? ping_pong(rank, question) : stream(rank, question);
  if (rank.number == 0) answer(number);
  MPI_Finalize();
  return 0;
}

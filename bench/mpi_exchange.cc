// SPDX-License-Identifier: Apache-2.0
// How many all-to-all exchanges of MPI do many ranks make in a second? Each rank sends OCTETS to
// each.
//
// Usage: mpirun -np RANKS mpi_exchange OCTETS SECONDS
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rounds.h"

namespace {

using namespace verbatim::bench;

constexpr int kBetweenLooks = 10;  // exchanges between two looks at the clock

/// Exchanges until the time is over by the clock of rank 0. Returns how many there were.
int exchange_for(double seconds, std::vector<char>& out, std::vector<char>& in, int octets) {
  const auto start = Clock::now();
  int done = 0;
  for (int goes_on = 1; goes_on != 0; done += kBetweenLooks) {
    for (int i = 0; i < kBetweenLooks; ++i) {
      MPI_Alltoall(out.data(), octets, MPI_BYTE, in.data(), octets, MPI_BYTE, MPI_COMM_WORLD);
    }
    goes_on = seconds_since(start) < seconds ? 1 : 0;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return done;
}

/// Each block says who has sent it.
bool is_right(const std::vector<char>& in, int octets) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] != static_cast<char>(i / static_cast<std::size_t>(octets))) return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  const int octets = count == 3 ? std::atoi(words[1]) : 0;
  const double seconds = count == 3 ? std::atof(words[2]) : 0;
  if (octets <= 0 || seconds <= 0) {
    std::fprintf(stderr, "usage: mpirun -np RANKS %s OCTETS SECONDS\n", words[0]);
    return 2;
  }
  MPI_Init(&count, &words);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::size_t all = static_cast<std::size_t>(octets) * static_cast<std::size_t>(ranks);
  std::vector<char> out(all, static_cast<char>(rank));
  std::vector<char> in(all);
  (void)exchange_for(seconds / 10, out, in, octets);  // makes the connections
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  const int done = exchange_for(seconds, out, in, octets);
  const double took = seconds_since(start);
  const int agrees = is_right(in, octets) ? 1 : 0;
  int all_agree = 0;
  MPI_Allreduce(&agrees, &all_agree, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0 && all_agree == 1) std::printf("%.6f\n", done / took);
  MPI_Finalize();
  return all_agree == 1 ? 0 : 1;
}

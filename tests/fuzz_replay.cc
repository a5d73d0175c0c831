// SPDX-License-Identifier: Apache-2.0
// The main() of a fuzz target where libFuzzer is not linked in: every file of the folders given as
// arguments goes through the target, then a fixed number of mutations of them, all from one seed,
// so that a failure repeats. A folder that is missing or empty is no error: mutations start from
// zeroes.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Octets = std::vector<std::uint8_t>;

constexpr std::size_t kLongestInput = 4400;  // a packet with the largest MTU and room for nonsense
constexpr int kMutations = 20'000;
constexpr auto kPatience = std::chrono::seconds(3);
constexpr std::uint64_t kSeed = 0x7665'7262'6174'696d;

std::vector<Octets> read_folder(const char* path) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (std::filesystem::directory_iterator it(path, failure), end; !failure && it != end;
       it.increment(failure)) {
    if (it->is_regular_file(failure)) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());  // a directory has no defined order
  std::vector<Octets> inputs;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

/// A copy of its own, of the exact size, so that the address sanitizer sees a read past the end.
void run_one(const Octets& input) {
  const Octets exact(input);
  static const std::uint8_t nothing = 0;
  (void)LLVMFuzzerTestOneInput(exact.empty() ? &nothing : exact.data(), exact.size());
}

std::uint8_t octet(verbatim::Prng& prng) { return static_cast<std::uint8_t>(prng.below(256)); }

/// One small change. Numbers at the edges of their ranges find more than random ones.
void mutate_once(verbatim::Prng& prng, Octets& input) {
  static constexpr std::uint8_t kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
  const std::size_t at = prng.below(input.size() + 1);
  const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t count = prng.between(1, 16);
  switch (prng.below(6)) {
    case 0:
      if (at < input.size()) *here = static_cast<std::uint8_t>(*here ^ (1U << prng.below(8)));
      break;
    case 1:
      if (at < input.size()) *here = octet(prng);
      break;
    case 2:
      if (at < input.size()) *here = kEdges[prng.below(std::size(kEdges))];
      break;
    case 3:
      input.erase(here, here + static_cast<std::ptrdiff_t>(std::min(count, input.size() - at)));
      break;
    case 4:
      input.insert(here, count, octet(prng));
      break;
    default:
      input.resize(at);
      break;
  }
  if (input.size() > kLongestInput) input.resize(kLongestInput);
}

Octets mutation_of(verbatim::Prng& prng, const std::vector<Octets>& inputs) {
  Octets input = inputs[prng.below(inputs.size())];
  for (std::uint64_t left = prng.between(1, 4); left > 0; --left) mutate_once(prng, input);
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Octets> inputs;
  for (int i = 1; i < argc; ++i) {
    auto found = read_folder(argv[i]);
    std::move(found.begin(), found.end(), std::back_inserter(inputs));
  }
  const std::size_t kept = inputs.size();
  inputs.emplace_back();       // the empty input, and
  inputs.emplace_back(64, 0);  // something to mutate when there is no corpus
  for (const Octets& input : inputs) run_one(input);

  // The number of mutations is the promise; the clock only bounds a slow sanitizer or emulator.
  verbatim::Prng prng(kSeed);
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  int done = 0;
  while (done < kMutations && std::chrono::steady_clock::now() < give_up) {
    run_one(mutation_of(prng, inputs));
    ++done;
  }
  std::printf("%zu kept inputs, %d mutations\n", kept, done);
  return EXIT_SUCCESS;
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/byte_order.h"

/// What the tests of captures share. Nothing but tests includes this.
namespace verbatim::link::test {

/// A folder that is removed at the end of the test.
class Folder {
 public:
  Folder() {
    const auto temporary = std::filesystem::temp_directory_path();
    do {
      path_ = (temporary / ("vb-capture-" + std::to_string(std::random_device()()))).string();
    } while (!std::filesystem::create_directory(path_));  // another test has it
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::size_t count() const {
    const std::filesystem::directory_iterator files(path_);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

 private:
  std::string path_;
};

inline std::vector<std::byte> octets_of(const std::string& name) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(name, missing);
  std::string text(missing ? 0 : static_cast<std::size_t>(size), '\0');
  std::ifstream(name, std::ios::binary)
      .read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto octets = std::as_bytes(std::span(text));
  return {octets.begin(), octets.end()};
}

/// One block of a pcapng file in network order, as the format's draft lays it out.
struct Block {
  std::uint32_t type = 0;
  std::vector<std::byte> body;
};

/// The blocks of a file, up to the first one whose lengths contradict each other.
inline std::vector<Block> blocks_of(const std::string& name) {
  const auto octets = octets_of(name);
  std::vector<Block> blocks;
  for (std::size_t at = 0; at + 12 <= octets.size();) {
    const auto length = load_be_at<std::uint32_t>(octets.data() + at + 4);
    if (length < 12 || length % 4 != 0 || at + length > octets.size()) break;
    if (load_be_at<std::uint32_t>(octets.data() + at + length - 4) != length) break;
    const auto body = std::span(octets).subspan(at + 8, length - 12);
    blocks.push_back({.type = load_be_at<std::uint32_t>(octets.data() + at),
                      .body = {body.begin(), body.end()}});
    at += length;
  }
  return blocks;
}

}  // namespace verbatim::link::test

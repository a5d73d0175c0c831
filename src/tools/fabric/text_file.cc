// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/text_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace verbatim::tools {
namespace {

constexpr std::size_t kOctetsMax = std::size_t{64} << 20;

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
};

Errc refuse(std::string& message, std::string why) {
  message = std::move(why);
  return Errc::kInvalidArgument;
}

}  // namespace

Expected<std::string> content_of_file(const std::string& name, std::string& message) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(name.c_str(), "re"));
  if (!file) return refuse(message, name + ": " + std::strerror(errno));
  std::string content;
  std::array<char, 65'536> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
    content.append(block.data(), count);
    if (content.size() > kOctetsMax) {
      return refuse(message, name + ": has more than 64 MiB, which no topology and no dump has");
    }
  }
  if (std::ferror(file.get()) != 0) return refuse(message, name + ": " + std::strerror(errno));
  return content;
}

}  // namespace verbatim::tools

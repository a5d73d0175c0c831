// SPDX-License-Identifier: Apache-2.0
#include "tools/memory_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace verbatim::tools {
namespace {

/// A folder with files like those of a file system of groups.
class Groups : public testing::Test {
 protected:
  Groups() : mount_(::mkdtemp(std::string("/tmp/vbXXXXXX").data())) {}
  ~Groups() override { std::filesystem::remove_all(mount_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = mount_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  void make_group(const std::string& folder, const std::string& limit, const std::string& used,
                  const std::string& inactive = "0") const {
    write(folder + "/memory.max", limit);
    write(folder + "/memory.current", used);
    write(folder + "/memory.stat", "anon 1\nactive_file 7\ninactive_file " + inactive + "\nslab 1");
  }

  std::string mount_;
};

TEST_F(Groups, WithoutALimitAreNone) {
  EXPECT_FALSE(tightest_memory_group(mount_, "0::/\n"));
  EXPECT_FALSE(tightest_memory_group(mount_, ""));
  make_group("/service", "max", "4096");
  EXPECT_FALSE(tightest_memory_group(mount_, "0::/service\n"));
}

TEST_F(Groups, PagesOfFilesThatTheKernelDropsFirstAreNotUsed) {
  make_group("/service", "1000", "990", "600");
  const auto found = tightest_memory_group(mount_, "0::/service\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit_octets, 1000U);
  EXPECT_EQ(found->used_octets, 390U);
}

TEST_F(Groups, AboveTheOwnOneCountAsWell) {
  make_group("/pod/container", "1000", "100");
  make_group("/pod", "500", "400");
  const auto found = tightest_memory_group(mount_, "1:name=x:/\n0::/pod/container\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit_octets, 500U);
  EXPECT_EQ(found->used_octets, 400U);
}

TEST_F(Groups, OfAContainerAreFoundWhereItSeesOnlyItsOwn) {
  make_group("", "1000", "100");
  const auto found = tightest_memory_group(mount_, "0::/not/visible/here\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit_octets, 1000U);
}

TEST_F(Groups, OfVersionOneHaveOtherNames) {
  write("/memory/job/memory.limit_in_bytes", "2000");
  write("/memory/job/memory.usage_in_bytes", "1500");
  write("/memory/job/memory.stat", "inactive_file 9\ntotal_inactive_file 500");
  write("/memory/memory.limit_in_bytes", "9223372036854771712");
  write("/memory/memory.usage_in_bytes", "999999");
  const auto found = tightest_memory_group(mount_, "4:memory:/job\n0::/\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit_octets, 2000U);
  EXPECT_EQ(found->used_octets, 1000U);
}

}  // namespace
}  // namespace verbatim::tools

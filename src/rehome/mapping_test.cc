// SPDX-License-Identifier: Apache-2.0
#include "rehome/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/pointer.h"
#include "rehome/mapping_reader.h"

namespace verbatim::rehome {
namespace {

TEST(Mapping, OfALibraryIsRead) {
  const auto mapping = parse_mapping(
      "ffff88c60000-ffff88dec000 r-xp 00001000 fe:0a 109254                     "
      "/usr/lib/libc.so.6");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->range, (Range{.begin = 0xffff88c60000, .end = 0xffff88dec000}));
  EXPECT_TRUE(mapping->readable);
  EXPECT_FALSE(mapping->writable);
  EXPECT_TRUE(mapping->executable);
  EXPECT_FALSE(mapping->shared);
  EXPECT_EQ(mapping->offset, 0x1000U);
  EXPECT_EQ(mapping->major, 0xfeU);
  EXPECT_EQ(mapping->minor, 0x0aU);
  EXPECT_EQ(mapping->inode, 109254U);
  EXPECT_EQ(mapping->name, "/usr/lib/libc.so.6");
  EXPECT_FALSE(mapping->is_private_anonymous());
}

TEST(Mapping, OfAMemoryFileIsSharedAndHasAName) {
  const auto mapping = parse_mapping(
      "ffff84800000-ffff88a00000 rw-s ffff84800000 00:01 2051   /memfd:verbatim-regions (deleted)");
  ASSERT_TRUE(mapping);
  EXPECT_TRUE(mapping->shared);
  EXPECT_EQ(mapping->offset, 0xffff84800000U);
  EXPECT_EQ(mapping->name, "/memfd:verbatim-regions (deleted)");
  EXPECT_FALSE(mapping->is_private_anonymous());
}

TEST(Mapping, IsPrivateMemoryWithoutANameOrWithThatOfMemory) {
  for (const char* name : {"", " ", "   [heap]", " [anon:glibc: malloc arena]"}) {
    const std::string line = std::string("1000-2000 rw-p 00000000 00:00 0 ") + name;
    const auto mapping = parse_mapping(line);
    ASSERT_TRUE(mapping) << name;
    EXPECT_TRUE(mapping->is_private_anonymous()) << name;
    EXPECT_FALSE(mapping->is_stack());
  }
  for (const char* name : {"[vvar]", "[vdso]", "[stack]", "[anon_shmem:x]", "/dev/zero"}) {
    const std::string line = std::string("1000-2000 rw-p 00000000 00:00 0 ") + name;
    const auto mapping = parse_mapping(line);
    ASSERT_TRUE(mapping) << name;
    EXPECT_FALSE(mapping->is_private_anonymous()) << name;
  }
}

TEST(Mapping, OfHugePagesAndOfTheStackIsKnownByName) {
  const auto huge =
      parse_mapping("40000000-40200000 rw-p 00000000 00:0f 23 /anon_hugepage (deleted)");
  ASSERT_TRUE(huge);
  EXPECT_TRUE(huge->is_huge());
  EXPECT_FALSE(huge->is_private_anonymous());
  const auto stack = parse_mapping("fffff200a000-fffff202b000 rw-p 00000000 00:00 0 [stack]");
  ASSERT_TRUE(stack);
  EXPECT_TRUE(stack->is_stack());
}

TEST(Mapping, IsRefusedInAnyOtherForm) {
  for (const char* line : {"",
                           "x",
                           "1000",
                           "1000-",
                           "1000-2000",
                           "1000-2000 ",
                           "2000-1000 rw-p 00000000 00:00 0 ",
                           "1000-1000 rw-p 0 00:00 0",
                           "1000-2000 rw 0 00:00 0",
                           "1000-2000 rwxq 0 00:00 0",
                           "1000-2000 wr-p 0 00:00 0",
                           "1000-2000 rw-p",
                           "1000-2000 rw-p ",
                           "1000-2000 rw-p z 00:00 0",
                           "1000-2000 rw-p 0 0000 0",
                           "1000-2000 rw-p 0 00:00",
                           "1000-2000 rw-p 0 00:00 x",
                           "1000-2000 rw-p 0 00:00 0x",
                           "-1000-2000 rw-p 0 00:00 0",
                           "1000-12345678901234567 rw-p 0 00:00 0",
                           "1000-2000 rw-p 0 123456789:00 0",
                           "Size:                  4 kB",
                           "VmFlags: rd wr mr mw me ac"}) {
    EXPECT_FALSE(parse_mapping(line)) << line;
  }
}

struct Seen {
  Mapping mapping;
  std::string name;
};

TEST(Mapping, EveryOneOfThisProcessIsUnderstoodAndInOrder) {
  std::uintptr_t last = 0;
  std::size_t lines = 0;
  const long answer = for_each_line("/proc/self/maps", [&](std::string_view line) {
    const auto mapping = parse_mapping(line);
    EXPECT_TRUE(mapping) << line;
    if (mapping) {
      EXPECT_GE(mapping->range.begin, last) << line;
      last = mapping->range.end;
    }
    ++lines;
    return true;
  });
  EXPECT_EQ(answer, 0);
  EXPECT_GT(lines, 5U);
}

TEST(Mapping, IsTheSameInTheTextAndWhenAskedFor) {
  std::vector<Seen> asked;
  std::vector<Seen> read;
  asked.reserve(1000);
  read.reserve(1000);
  const auto keep_in = [](std::vector<Seen>& list) {
    return [&list](const Mapping& mapping) {
      list.push_back({.mapping = mapping, .name = std::string(mapping.name)});
      return list.size() < 1000;
    };
  };
  if (query_mappings(0, keep_in(asked)) == -ENOTTY) GTEST_SKIP() << "the kernel is older than 6.11";
  asked.clear();  // whatever has been allocated above is in both
  EXPECT_EQ(query_mappings(0, keep_in(asked)), 0);
  EXPECT_EQ(read_mappings(0, keep_in(read)), 0);
  ASSERT_GT(asked.size(), 5U);
  std::size_t same = 0;
  for (const Seen& one : asked) {
    for (const Seen& other : read) {
      same += one.mapping.range == other.mapping.range && one.name == other.name &&
                      one.mapping.readable == other.mapping.readable &&
                      one.mapping.writable == other.mapping.writable &&
                      one.mapping.executable == other.mapping.executable &&
                      one.mapping.shared == other.mapping.shared &&
                      one.mapping.inode == other.mapping.inode &&
                      one.mapping.major == other.mapping.major &&
                      one.mapping.minor == other.mapping.minor &&
                      (one.mapping.inode == 0 || one.mapping.offset == other.mapping.offset)
                  ? 1U
                  : 0U;
    }
  }
  EXPECT_GE(same + 2, asked.size()) << "the heap may have grown between the two";
  EXPECT_GT(same, 5U);
}

TEST(Mapping, BeginsWhereAskedTo) {
  const auto here = numeric_address(&parse_mapping);
  for (const bool in_text : {false, true}) {
    Range found;
    const auto visit = [&](const Mapping& mapping) {
      found = mapping.range;
      return false;
    };
    const long answer = in_text ? read_mappings(here, visit) : query_mappings(here, visit);
    if (answer == -ENOTTY) continue;
    EXPECT_EQ(answer, 0);
    EXPECT_TRUE(found.contains(here));
  }
}

TEST(Pages, OfARangeAreThoseInsideOrThoseTouched) {
  EXPECT_EQ(inner_pages({.begin = 1, .end = 0x2fff}, 0x1000),
            (Range{.begin = 0x1000, .end = 0x2000}));
  EXPECT_EQ(outer_pages({.begin = 1, .end = 0x2fff}, 0x1000), (Range{.begin = 0, .end = 0x3000}));
  EXPECT_EQ(inner_pages({.begin = 0x1000, .end = 0x2000}, 0x1000),
            (Range{.begin = 0x1000, .end = 0x2000}));
  EXPECT_TRUE(inner_pages({.begin = 0x1001, .end = 0x2fff}, 0x1000).empty());
  EXPECT_TRUE(inner_pages({.begin = 0x1001, .end = 0x1002}, 0x1000).empty());
  EXPECT_TRUE(outer_pages({.begin = 5, .end = 5}, 0x1000).empty());
  const std::uintptr_t top = ~std::uintptr_t{0};
  EXPECT_TRUE(outer_pages({.begin = top - 5, .end = top}, 0x1000).empty());
  EXPECT_TRUE(inner_pages({.begin = top - 5, .end = top}, 0x1000).empty());
}

class Lines : public ::testing::Test {
 protected:
  std::vector<std::string> read(const std::string& text, std::size_t at_most = 1000) {
    const int file = ::memfd_create("lines", MFD_CLOEXEC);
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    EXPECT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    std::vector<std::string> lines;
    EXPECT_EQ(for_each_line(path.c_str(),
                            [&](std::string_view line) {
                              lines.emplace_back(line);
                              return lines.size() < at_most;
                            }),
              0);
    ::close(file);
    return lines;
  }
};

TEST_F(Lines, AreShownWithoutTheirEnds) {
  EXPECT_EQ(read("a\n\nbc\nd"), (std::vector<std::string>{"a", "", "bc", "d"}));
  EXPECT_TRUE(read("").empty());
  EXPECT_EQ(read("a\nb\nc\n", 2), (std::vector<std::string>{"a", "b"}));
}

TEST_F(Lines, AreWholeAcrossTheBuffer) {
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back(std::string(static_cast<std::size_t>(i % 90), 'x') + std::to_string(i));
    text += expected.back() + "\n";
  }
  EXPECT_EQ(read(text, 100'000), expected);
}

TEST_F(Lines, ThatAreTooLongAreCutAndTheNextIsWhole) {
  const auto lines = read("first\n" + std::string(50'000, 'y') + "\nlast\n");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "first");
  EXPECT_GT(lines[1].size(), 4000U);
  EXPECT_EQ(lines[1], std::string(lines[1].size(), 'y'));
  EXPECT_EQ(lines[2], "last");
}

TEST_F(Lines, OfAFileThatIsNotThereAreAnError) {
  EXPECT_EQ(for_each_line("/nowhere/at/all", [](std::string_view) { return true; }), -ENOENT);
}

}  // namespace
}  // namespace verbatim::rehome

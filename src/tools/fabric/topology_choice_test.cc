// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/topology_choice.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace verbatim::tools {
namespace {

std::string refusal_of(const TopologyChoice& choice) {
  std::string message;
  return choose_topology(choice, message).ok() ? "accepted" : message;
}

/// A file with this text, for the time of a test.
class TextFile {
 public:
  explicit TextFile(const std::string& text) : name_(testing::TempDir() + "topology_choice.net") {
    std::ofstream(name_) << text;
  }
  ~TextFile() { (void)std::remove(name_.c_str()); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

TEST(TopologyChoice, ShapesAndFilesAreTopologies) {
  std::string message;
  EXPECT_EQ(choose_topology({.tree = "2x2"}, message)->nodes.size(), 6U);
  EXPECT_EQ(choose_topology({.ring = "6"}, message)->nodes.size(), 12U);
  EXPECT_EQ(choose_topology({.fat_tree = "2x2/2"}, message)->nodes.size(), 8U);
  EXPECT_EQ(choose_topology({.torus = "3x3"}, message)->nodes.size(), 18U);
  const TextFile file("Switch 2 \"s\"\n[1] \"h\"[1]\n\nCa 1 \"h\"\n");
  EXPECT_EQ(choose_topology({.file = file.name()}, message)->nodes.size(), 2U);
}

TEST(TopologyChoice, ARateIsThatOfAllLinks) {
  std::string message;
  const auto topology = choose_topology({.ring = "3", .rate = "1xSDR"}, message);
  ASSERT_TRUE(topology.ok()) << message;
  EXPECT_EQ(text_of(topology->links.back().rate), "1xSDR");
  EXPECT_EQ(refusal_of({.ring = "3", .rate = "fast"}).substr(0, 21), "'fast' is not a rate:");
  EXPECT_EQ(refusal_of({.file = "any", .rate = "4xHDR"}),
            "a file has the rates of its links; omit --rate");
}

TEST(TopologyChoice, AMistakeInAFileHasItsLine) {
  const TextFile file("Switch 2 \"s\"\n[3] \"h\"[1]\n");
  EXPECT_EQ(refusal_of({.file = file.name()}),
            file.name() + ":2: '3' is not a port of 's', which has ports 1 to 2");
  EXPECT_EQ(refusal_of({.file = "/does/not/exist"}), "/does/not/exist: No such file or directory");
  EXPECT_EQ(refusal_of({.file = "/"}), "/: Is a directory");
}

TEST(TopologyChoice, ExactlyOneIsNeeded) {
  EXPECT_EQ(refusal_of({}).substr(0, 22), "a topology is missing:");
  EXPECT_EQ(refusal_of({.tree = "2x2", .ring = "3"}).substr(0, 23), "one topology is enough:");
}

}  // namespace
}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fabric/topology/generate.h"

namespace verbatim::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

fabric::Topology tree() {
  std::string message;
  auto topology = fabric::tree_topology("2x2", {}, message);
  EXPECT_TRUE(topology.ok()) << message;
  return std::move(*topology);
}

class FabricFaultsTest : public testing::Test {
 protected:
  [[nodiscard]] fabric::PortEnd port(std::string_view name) const {
    std::string message;
    const auto found = names_.find_port(name, message);
    EXPECT_TRUE(found) << message;
    return found ? *found : fabric::PortEnd{};
  }
  bool set(std::string_view name, const std::string& rules) {
    message_.clear();
    return faults_.set(port(name), rules, message_).ok();
  }

  fabric::Fabric fabric_{tree()};
  fabric::NodeNames names_{fabric_.topology()};
  FabricFaults faults_{fabric_, names_};
  std::string message_;
};

TEST_F(FabricFaultsTest, ALinkHasTheRulesThatItGotLast) {
  EXPECT_EQ(faults_.text(), "no link has faults\n");
  ASSERT_TRUE(set("h0", "out drop 1%")) << message_;
  ASSERT_TRUE(set("h1", "in corrupt"));
  ASSERT_TRUE(set("h0", "both delay 5us"));
  const Json json = faults_.json();
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["rules"], "both delay 5us");
  EXPECT_EQ(json[1]["out"]["delayed"], 0);
  EXPECT_THAT(faults_.text(), HasSubstr("both delay 5us"));
  ASSERT_TRUE(set("leaf0[1]", "none")) << "the other end of the link of h0";
  ASSERT_TRUE(set("h1", "none"));
  EXPECT_EQ(faults_.text(), "no link has faults\n");
}

TEST_F(FabricFaultsTest, AMistakeIsSaidWithItsColumnAndChangesNothing) {
  ASSERT_TRUE(set("h0", "out drop 1%"));
  EXPECT_FALSE(set("h0", "out drip 1%"));
  EXPECT_THAT(message_, StartsWith("column 5: 'drip' is no fault"));
  EXPECT_FALSE(set("h0", "out reorder by=2"));
  EXPECT_THAT(message_, HasSubstr("a link keeps the order of its packets"));
  EXPECT_FALSE(set("h0", "out duplicate"));
  EXPECT_THAT(message_, HasSubstr("`duplicate` is no fault of it"));
  EXPECT_FALSE(set("h0", "seed=7"));
  EXPECT_THAT(message_, HasSubstr("there is no rule"));
  EXPECT_EQ(faults_.json()[0]["rules"], "out drop 1%");
}

class FaultFileTest : public testing::Test {
 protected:
  ~FaultFileTest() override { std::filesystem::remove(path_); }
  Expected<std::vector<FaultLine>> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_fault_file(path_, message_);
  }
  static std::string unique_path() {
    std::string name = (std::filesystem::temp_directory_path() / "vb-faults-XXXXXX").string();
    ::close(::mkstemp(name.data()));
    return name;
  }

  const std::string path_ = unique_path();
  std::string message_;
};

TEST_F(FaultFileTest, EachLineIsACommand) {
  const auto lines =
      read("# a bad cable\n\n  link leaf0[3] out drop 1%; in corrupt\nlink h0 none\r\n");
  ASSERT_TRUE(lines) << message_;
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ((*lines)[0].number, 3U);
  EXPECT_EQ((*lines)[0].command, "link faults leaf0[3] out drop 1%; in corrupt");
  EXPECT_EQ((*lines)[1].number, 4U);
}

TEST_F(FaultFileTest, AnotherLineIsRefusedWithItsNumber) {
  EXPECT_FALSE(read("link h0 out drop\nnode off h1\n"));
  EXPECT_THAT(message_, HasSubstr(":2: 'node' is not expected; a line is link PORT RULES"));
}

TEST_F(FaultFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_FALSE(read_fault_file(path_ + "-missing", message_));
  EXPECT_THAT(message_, HasSubstr("-missing': No such file or directory"));
}

}  // namespace
}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/topology_choice.h"

#include <array>
#include <utility>

#include "fabric/topology/generate.h"
#include "fabric/topology/read_topology.h"
#include "tools/fabric/text_file.h"

namespace verbatim::tools {
namespace {

Errc refuse(std::string& message, std::string why) {
  message = std::move(why);
  return Errc::kInvalidArgument;
}

Expected<fabric::Topology> read_file(const std::string& name, std::string& message) {
  const auto content = content_of_file(name, message);
  if (!content) return content.error();
  fabric::TopologyError error;
  auto topology = fabric::read_topology(*content, error);
  if (topology.ok()) return topology;
  const std::string line = error.line != 0 ? ":" + std::to_string(error.line) : "";
  return refuse(message, name + line + ": " + error.message);
}

}  // namespace

Expected<fabric::Topology> choose_topology(const TopologyChoice& choice, std::string& message) {
  using Generator =
      Expected<fabric::Topology> (*)(std::string_view, fabric::LinkRate, std::string&);
  struct Shape {
    const std::string* text = nullptr;
    Generator generate = nullptr;
  };
  const std::array<Shape, 4> shapes{{{&choice.tree, fabric::tree_topology},
                                     {&choice.ring, fabric::ring_topology},
                                     {&choice.fat_tree, fabric::fat_tree_topology},
                                     {&choice.torus, fabric::torus_topology}}};
  const Shape* chosen = nullptr;
  std::size_t count = choice.file.empty() ? 0 : 1;
  for (const Shape& shape : shapes) {
    if (shape.text->empty()) continue;
    chosen = &shape;
    ++count;
  }
  if (count != 1) {
    return refuse(message,
                  std::string(count == 0 ? "a topology is missing" : "one topology is enough") +
                      ": a file as ibnetdiscover writes it, or --tree 2x2, --ring 6, "
                      "--fat-tree 32x32/16 or --torus 4x4");
  }
  if (chosen == nullptr) {
    if (!choice.rate.empty())
      return refuse(message, "a file has the rates of its links; omit --rate");
    return read_file(choice.file, message);
  }
  fabric::LinkRate rate;
  if (!choice.rate.empty()) {
    const auto read = fabric::parse_link_rate(choice.rate);
    if (!read) {
      return refuse(message, "'" + choice.rate +
                                 "' is not a rate: a width of 1x, 2x, 4x, 8x or 12x and a speed of "
                                 "SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR, as 4xHDR");
    }
    rate = *read;
  }
  return chosen->generate(*chosen->text, rate, message);
}

}  // namespace verbatim::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/expected.h"

namespace verbatim::host {

/// The folder of one fabric: `socket`, where programs connect, and a FIFO `issm-<node>-<port>` for
/// each port on which a subnet manager may run. It has mode 0700 and belongs to the user.
///
/// A name stands for `<folder of the user>/fabric/<name>` (host/runtime_directory.h). Text with a
/// slash is the path of the folder itself: containers that mount it are hosts of one fabric.
class FabricPlace {
 public:
  static constexpr std::size_t kNameOctetsMax = 32;
  static constexpr std::size_t kPathOctetsMax = 80;

  /// On failure `message` says what is wrong with the name, or why this user has no folder.
  [[nodiscard]] static Expected<FabricPlace> of(std::string_view name, std::string& message);

  /// Makes the folder in which the folders of this user's fabrics are, and returns it.
  [[nodiscard]] static Expected<std::string> make_common_folder(std::string& message);

  /// As the user has written it.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] std::string socket_path() const { return folder_ + "/socket"; }
  [[nodiscard]] std::string sm_path(std::uint32_t node, unsigned port) const {
    return folder_ + "/issm-" + std::to_string(node) + "-" + std::to_string(port);
  }

  /// Makes the folder, for the process of the fabric.
  [[nodiscard]] Status make(std::string& message) const;
  /// A connection to the process of the fabric, which runs as the same user; the caller owns it.
  /// On failure `message` says what to do.
  [[nodiscard]] Expected<int> connect(std::string& message) const;

 private:
  FabricPlace(std::string name, std::string folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}

  std::string name_;
  std::string folder_;
};

}  // namespace verbatim::host

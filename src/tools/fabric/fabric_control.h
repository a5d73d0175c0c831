// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "host/descriptor.h"
#include "host/fabric_place.h"

/// How commands reach the process of a fabric.
namespace verbatim::tools {

/// The names of the user's fabrics that run; without those at a path.
[[nodiscard]] std::vector<std::string> running_fabrics();

/// The fabric that a command is about: the named one, that of VERBATIM_FABRIC, or the only one that
/// runs. On failure `message` says which ones there are.
[[nodiscard]] Expected<host::FabricPlace> chosen_fabric(const std::string& name,
                                                        std::string& message);

/// What to add to a message about a fabric that is not there: those that are.
[[nodiscard]] std::string other_fabrics();

/// A connection for commands to the process of a fabric.
class FabricControl {
 public:
  struct Answer {
    bool is_done = false;
    std::string text;
  };

  /// On failure `message` says why, and which fabrics there are.
  [[nodiscard]] static Expected<FabricControl> connect(const host::FabricPlace& place,
                                                       std::string& message);
  /// Sends a command and waits for the answer.
  [[nodiscard]] Expected<Answer> execute(std::string_view line, std::string& message);
  /// The same for a command whose answer comes in several parts, each an answer of its own. `take`
  /// gets all of them.
  [[nodiscard]] Status follow(std::string_view line, const std::function<void(Answer)>& take,
                              std::string& message);
  /// Waits until the process has closed the connection. False: it has not, for a long time.
  [[nodiscard]] bool await_end();

 private:
  [[nodiscard]] std::string explain(Errc error) const;
  FabricControl(std::string name, host::Descriptor socket) noexcept
      : name_(std::move(name)), socket_(std::move(socket)) {}

  std::string name_;
  host::Descriptor socket_;
};

}  // namespace verbatim::tools

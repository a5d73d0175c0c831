// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/fabric/fabric_loop.h"

namespace verbatim::tools {

/// Commands from the standard input of the fabric's process: of a terminal, a pipe or a file. A
/// process in the background of a terminal does not read. The end of the input of a terminal ends
/// the fabric; that of a pipe or a file does not. Thread: that of the loop, which it borrows.
class FabricConsole {
 public:
  /// `name` is in the prompt.
  FabricConsole(FabricLoop& loop, std::string name) : loop_(loop), name_(std::move(name)) {}

  void open();
  /// The process was continued after a stop, perhaps in the foreground.
  void handle_continue();
  /// Prints a message between commands.
  void print(const std::string& text);

 private:
  void handle_ready();
  void take(std::string_view octets);
  void take_file();
  void prompt();
  void execute(const std::string& line);

  FabricLoop& loop_;
  std::string name_;
  std::string line_;  // what has arrived of the next one
  bool is_terminal_ = false;
  bool is_watched_ = false;
};

}  // namespace verbatim::tools

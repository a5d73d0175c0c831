// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/expected.h"
#include "host/own_descriptor.h"

namespace verbatim::link {

/// The file that one process captures to (docs/CAPTURE.md): which of several processes gets which
/// name, and what happens when it cannot be written any more.
///
/// A name with %p in it is this process's own: %p becomes its number. Any other name belongs to the
/// first process that writes to it. A process that finds the file taken, or not empty, writes to
/// NAME-<pid>.pcapng instead. So no process destroys packets that another one has written.
///
/// One thread at a time.
class CaptureFile {
 public:
  CaptureFile() noexcept = default;
  CaptureFile(CaptureFile&& other) noexcept = default;
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;
  ~CaptureFile() = default;

  /// On failure `message` names the file and says why.
  [[nodiscard]] static Expected<CaptureFile> open(std::string_view pattern, std::string& message);

  /// The file of exactly this name, emptied. kBusy: another process writes to it. On failure
  /// `message` names the file and says why.
  [[nodiscard]] static Expected<CaptureFile> overwrite(const std::string& name,
                                                       std::string& message);

  /// For a launcher of programs that will open() it: checks whether that can work, and empties a
  /// file of an earlier run. On failure `message` names the file and says why.
  [[nodiscard]] static Status prepare(std::string_view pattern, std::string& message);

  /// Writes all of these blocks or none. Returns 0, or the error number of the system: the file is
  /// then as long as it was before. No signal reaches the program.
  [[nodiscard]] int append(std::span<const std::byte> blocks) noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  CaptureFile(int descriptor, std::string name, bool is_seekable) noexcept
      : descriptor_(descriptor), name_(std::move(name)), is_seekable_(is_seekable) {}

  host::OwnDescriptor descriptor_;
  std::string name_;
  std::uint64_t octets_ = 0;  // written so far
  bool is_seekable_ = false;  // a regular file, which can be truncated; not a device or a pipe
};

/// %p as the number, %% as a percent sign; anything else stays.
[[nodiscard]] std::string expand_capture_name(std::string_view pattern, pid_t process);
/// The name beside `name`: run.pcapng becomes run-1234.pcapng.
[[nodiscard]] std::string capture_name_beside(std::string_view name, pid_t process);

}  // namespace verbatim::link

// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_place.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/runtime_directory.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

constexpr mode_t kMode = 0700;

bool is_in_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= FabricPlace::kNameOctetsMax && text.front() != '.' &&
         std::ranges::all_of(text, is_in_name);
}

/// The user's folder; empty, with a message, when there is none.
std::string folder_of_user(std::string& message) {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const RuntimeDirectory* found = socket >= 0 ? RuntimeDirectory::of(socket) : nullptr;
  if (socket >= 0) ::close(socket);
  if (found == nullptr) message = RuntimeDirectory::explain();
  return found != nullptr ? found->parent() : std::string();
}

/// Makes one folder, or accepts one that this user has made with mode 0700.
Status make_folder(const std::string& path, std::string& message) {
  if (::mkdir(path.c_str(), kMode) != 0 && errno != EEXIST) {
    message = path + " cannot be made: " + std::strerror(errno);
    return Errc::kAccessDenied;
  }
  struct stat about {};
  const bool is_own = ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
                      about.st_uid == ::geteuid() && (about.st_mode & 077) == 0;
  if (is_own) return Ok{};
  message = path +
            " is not a folder that this user owns, with mode 0700 (no access for others); choose "
            "another one";
  return Errc::kAccessDenied;
}

Errc reason_of(int error) noexcept {
  return error == ENOENT || error == ECONNREFUSED ? Errc::kNoSuchObject : Errc::kAccessDenied;
}

}  // namespace

Expected<FabricPlace> FabricPlace::of(std::string_view name, std::string& message) {
  if (name.find('/') != std::string_view::npos) {
    std::string folder(name.substr(0, name.find_last_not_of('/') + 1));
    if (folder.empty() || folder.front() != '/' || folder.size() > kPathOctetsMax) {
      message = "the folder of a fabric is an absolute path of at most " +
                std::to_string(kPathOctetsMax) + " octets, not '" + std::string(name) + "'";
      return Errc::kInvalidArgument;
    }
    return FabricPlace(std::string(name), std::move(folder));
  }
  if (!is_name(name)) {
    message = "'" + std::string(name) + "' cannot be the name of a fabric: it has at most " +
              std::to_string(kNameOctetsMax) +
              " letters, digits, '-', '_' and '.', and does not begin with '.'";
    return Errc::kInvalidArgument;
  }
  const std::string parent = folder_of_user(message);
  if (parent.empty()) return Errc::kAccessDenied;
  return FabricPlace(std::string(name), parent + "/fabric/" + std::string(name));
}

Expected<std::string> FabricPlace::make_common_folder(std::string& message) {
  const std::string parent = folder_of_user(message);
  if (parent.empty()) return Errc::kAccessDenied;
  std::string fabrics = parent + "/fabric";
  for (const std::string& path : {parent, fabrics}) {
    if (auto made = make_folder(path, message); !made) return made.error();
  }
  return fabrics;
}

Status FabricPlace::make(std::string& message) const {
  if (name_.find('/') == std::string::npos) {
    if (auto common = make_common_folder(message); !common) return common.error();
  }
  return make_folder(folder_, message);
}

Expected<int> FabricPlace::connect(std::string& message) const {
  union {
    sockaddr base;
    sockaddr_un un;
  } address{};
  address.un.sun_family = AF_UNIX;
  const std::string path = socket_path();
  std::memcpy(address.un.sun_path, path.data(),
              std::min(path.size(), sizeof address.un.sun_path - 1));
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) {
    message = "the system gives no UNIX socket; check `ulimit -n`";
    return Errc::kNoMemory;
  }
  if (::connect(socket, &address.base, sizeof address.un) == 0) {
    if (peer_of(socket).uid == ::geteuid()) return socket;
    ::close(socket);
    message = "fabric " + name_ +
              " belongs to another user; start one of your own with `verbatim fabric up`";
    return Errc::kAccessDenied;
  }
  const int error = errno;
  ::close(socket);
  message = error == EAGAIN
                ? "fabric " + name_ +
                      " does not accept programs; its process is stopped or has too much to do"
            : reason_of(error) == Errc::kNoSuchObject
                ? "there is no fabric " + name_ + "; start it with `verbatim fabric up " + name_ +
                      " TOPOLOGY`, or check VERBATIM_FABRIC"
                : "fabric " + name_ + " cannot be reached at " + path + ": " + std::strerror(error);
  return error == EAGAIN ? Errc::kTryAgain : reason_of(error);
}

}  // namespace verbatim::host

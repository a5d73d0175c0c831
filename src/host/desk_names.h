// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::host {

/// The public names (PublicName, without the leading zero) that begin with `prefix`, contain no '/'
/// after it, and at which a connection socket of `user` listens in this network namespace.
///
/// Any user can bind any number of such names. So this asks the kernel for the user of each socket
/// (sock_diag(7), Linux 5.3), and leaves the names of other users out. Where the kernel does not
/// answer, the names of all users are returned, and the caller gets the user when it connects.
[[nodiscard]] std::vector<std::string> desk_names_of(uid_t user, std::string_view prefix);

/// The names of all users, from /proc/net/unix.
[[nodiscard]] std::vector<std::string> desk_names_of_all(std::string_view prefix);

}  // namespace verbatim::host

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace verbatim::host {

/// The public names (PublicName, without the zero in front) that begin with `prefix`, have no '/'
/// behind it, and at which a connection socket of `user` listens in this network namespace.
///
/// Any user can bind any number of such names. So the kernel is asked for the user of each socket
/// (sock_diag(7), Linux 5.3), and names of other users are left out. Where the kernel does not say,
/// the names of all users are listed, and the caller finds out by connecting.
[[nodiscard]] std::vector<std::string> desk_names_of(uid_t user, std::string_view prefix);

/// The same from /proc/net/unix: of all users.
[[nodiscard]] std::vector<std::string> desk_names_of_all(std::string_view prefix);

}  // namespace verbatim::host

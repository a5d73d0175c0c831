// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::host {

/// Whether each user of this host has a number of its own for this process. In a user namespace
/// those that are not mapped look all the same.
[[nodiscard]] bool can_tell_users_apart();

}  // namespace verbatim::host

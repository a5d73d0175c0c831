// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::host {

/// Whether this process sees a different number for each user of this host. In a user namespace,
/// all users that are not mapped have the same number.
[[nodiscard]] bool can_tell_users_apart();

}  // namespace verbatim::host

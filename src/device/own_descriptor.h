// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/own_descriptor.h"

namespace verbatim::device {

/// For `abi`, which may not use the layer `host`.
using host::OwnDescriptor;

}  // namespace verbatim::device

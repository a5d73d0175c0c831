// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/own_descriptor.h"

namespace verbatim::device {

/// For the layer above, which does not know the host layer.
using host::OwnDescriptor;

}  // namespace verbatim::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "wire/headers/smp.h"

/// The attributes of subnet management and performance management (IBA Vol 1, 14.2.5 and 16.1.3).
/// Any octets in the data of a datagram are some value of an attribute, and its agent judges them:
/// so each attribute is a plain value with `emit` and `from`, and the layout above it.
namespace verbatim::wire {

/// The data of a subnet management packet, which one attribute fills.
using AttributeData = std::span<std::byte, Smp::kDataSize>;
using ConstAttributeData = std::span<const std::byte, Smp::kDataSize>;

}  // namespace verbatim::wire

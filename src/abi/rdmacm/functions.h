// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi/rdmacm/table.h"

/// The functions of rdma_cm, declared as in its header, without the prefix.
namespace verbatim::abi::cm_functions {

#define VB_CM_DECLARE(name) decltype(::rdma_##name) name;
VB_CM_FUNCTIONS(VB_CM_DECLARE)
#undef VB_CM_DECLARE

}  // namespace verbatim::abi::cm_functions

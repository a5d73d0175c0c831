// SPDX-License-Identifier: Apache-2.0
#include "abi/border.h"
#include "abi/rdmacm/entry.h"
#include "abi/rdmacm/functions.h"

namespace {

const verbatim::abi::CmTable kTable{
#define VB_CM_ENTRY(name) \
  .name = verbatim::abi::InCmEntry<&verbatim::abi::cm_functions::name>::call,
    VB_CM_FUNCTIONS(VB_CM_ENTRY)
#undef VB_CM_ENTRY
};

}  // namespace

extern "C" VB_EXPORT const verbatim::abi::CmTable* verbatim_cm_table();

extern "C" const verbatim::abi::CmTable* verbatim_cm_table() { return &kTable; }

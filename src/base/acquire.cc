// SPDX-License-Identifier: Apache-2.0
#include "base/acquire.h"

#if defined(VB_LDAPR)

#include <sys/auxv.h>

#ifndef HWCAP_LRCPC
#define HWCAP_LRCPC (1UL << 15)
#endif

namespace verbatim {

const bool kHasLdapr = (getauxval(AT_HWCAP) & HWCAP_LRCPC) != 0;

}  // namespace verbatim

#endif

// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/entry.h"

namespace verbatim::abi {
namespace {

constinit thread_local bool is_inside = false;
constinit thread_local int programs_state = PTHREAD_CANCEL_ENABLE;  // while inside

}  // namespace

CmEntry::CmEntry() noexcept : is_outermost_(!is_inside) {
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  if (!is_outermost_) return;
  is_inside = true;
  programs_state = before_;
}

CmEntry::~CmEntry() {
  if (is_outermost_) is_inside = false;
  ::pthread_setcancelstate(before_, nullptr);
}

CmEntry::Waiting::Waiting() noexcept {
  if (is_inside) ::pthread_setcancelstate(programs_state, nullptr);
}

CmEntry::Waiting::~Waiting() {
  if (is_inside) ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
}

}  // namespace verbatim::abi

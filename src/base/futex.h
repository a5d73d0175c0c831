// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

/// futex(2) for words that only threads of this process use.
///
/// The word may lie on a page that is just moving (rehome/page_mover.h). The kernel cannot read it
/// then and returns EFAULT, which the locks of the C library take for an error of the program, and
/// end the process. Here the sleep ends early, and the caller's next access to the word waits for
/// the page. A thread that sleeps already is woken by its address, wherever the page is.
namespace verbatim::futex {

/// Sleeps while the word has that value. May return at any time. errno stays as it was.
void wait(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept;
/// Ends one such sleep, or all. Does not read the word.
void wake_one(std::atomic<std::uint32_t>& word) noexcept;
void wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace verbatim::futex

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

/// The variables by which programs that this process starts load the libraries of this
/// installation.
namespace verbatim::tools {

/// Puts `first` at the front of the list in a variable.
void prepend_to_variable(const char* variable, const std::string& first);

/// Programs load libibverbs.so.1 and librdmacm.so.1 of this folder.
void export_verbs(const std::filesystem::path& folder);

}  // namespace verbatim::tools

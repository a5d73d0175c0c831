// SPDX-License-Identifier: Apache-2.0
// Which libibverbs and librdmacm a program gets.
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/version.h"
#include "tools/doctor.h"
#include "tools/elf_file.h"
#include "tools/installation.h"

namespace verbatim::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kLibraries = {"libibverbs.so.1", "librdmacm.so.1"};
const std::string kRun = "verbatim run";

std::vector<std::string> split(const std::string& list, const char* separators) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find_first_of(separators, at), list.size());
    if (end > at) parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_foreign(const fs::path& file) {
  std::error_code failed;
  return fs::exists(file, failed) && !fs::equivalent(file.parent_path(), library_folder(), failed);
}

/// Files in the given folders that have the name of one of Verbatim's libraries but are others.
std::string foreign_in(const std::vector<std::string>& folders) {
  std::string found;
  for (const std::string& folder : folders) {
    for (const std::string_view library : kLibraries) {
      const fs::path file = fs::path(folder) / library;
      if (is_foreign(file)) found += (found.empty() ? "" : ", ") + file.string();
    }
  }
  return found;
}

void look_at_our_own(Findings& findings) {
  const fs::path folder = library_folder();
  const auto objection = objection_to_library(folder);
  if (!objection) {
    return add_ok(findings, "library",
                  "`" + kRun + "` gives programs " + (folder / kLibraries[0]).string() +
                      ", version " + kVersionText);
  }
  add_problem(findings, "library", objection->what, objection->advice);
}

void look_at_environment(Findings& findings) {
  std::string found = foreign_in(split(environment("LD_LIBRARY_PATH"), ":;"));
  for (const std::string& file : split(environment("LD_PRELOAD"), ": ")) {
    const std::string name = fs::path(file).filename().string();
    const bool is_ours = std::find(kLibraries.begin(), kLibraries.end(), name) != kLibraries.end();
    if (is_ours && is_foreign(file)) found += (found.empty() ? "" : ", ") + file;
  }
  if (found.empty()) {
    return add_ok(findings, "environment",
                  "no other libibverbs or librdmacm in LD_LIBRARY_PATH or LD_PRELOAD");
  }
  add_warning(findings, "environment",
              found + " would be taken by programs that are not started with `" + kRun +
                  "`, which puts Verbatim's libraries first",
              "start programs with `" + kRun +
                  "`, or take the others out of LD_LIBRARY_PATH and "
                  "LD_PRELOAD");
}

// ---- One program ----

std::string expand_origin(std::string path, const std::string& program) {
  const std::string folder = fs::path(program).parent_path().string();
  for (const std::string word : {"$ORIGIN", "${ORIGIN}"}) {
    const std::size_t at = path.find(word);
    if (at != std::string::npos) path.replace(at, word.size(), folder);
  }
  return path;
}

/// Libraries for the adapters of one maker, which do not use the verbs.
bool is_of_a_maker(const std::string& library) {
  return library.starts_with("libmlx") || library.starts_with("libefa") ||
         library.starts_with("libhns");
}

void judge_needs(const std::string& path, const ElfFile& program, Findings& findings) {
  bool needs_ours = false;
  std::string of_makers;
  for (const std::string& needed : program.needed) {
    const std::string name = fs::path(needed).filename().string();
    if (is_of_a_maker(name)) of_makers += (of_makers.empty() ? "" : ", ") + name;
    if (std::find(kLibraries.begin(), kLibraries.end(), name) == kLibraries.end()) continue;
    needs_ours = true;
    if (needed != name) {
      add_problem(findings, path,
                  "it needs " + needed + " by its full path, which nothing can replace",
                  "link it again with -libverbs, or change the entry: patchelf --replace-needed " +
                      needed + " " + name + " " + path);
      return;
    }
  }
  std::vector<std::string> folders = split(program.search_path, ":");
  for (std::string& folder : folders) folder = expand_origin(folder, path);
  const std::string foreign = foreign_in(folders);
  if (!foreign.empty()) {
    return add_warning(findings, path,
                       "its own search path (RPATH) leads to " + foreign + "; `" + kRun +
                           "` takes precedence, LD_LIBRARY_PATH may not",
                       "start it with `" + kRun + "`");
  }
  std::string what = needs_ours ? "it is linked with libibverbs or librdmacm, and `" + kRun +
                                      "` gives it Verbatim's"
                                : "it is not linked with libibverbs; if it loads it later, it "
                                  "finds Verbatim's under `" +
                                      kRun + "`";
  if (!of_makers.empty()) what += "; its functions that use " + of_makers + " need that hardware";
  add_ok(findings, path, std::move(what));
}

/// How a program gets rights that the user who starts it does not have; null when it gets none.
const char* gains_rights(const std::string& path, const struct stat& about) {
  if ((about.st_mode & S_ISUID) != 0 && about.st_uid != ::geteuid()) return "it changes its user";
  if ((about.st_mode & S_ISGID) != 0 && about.st_gid != ::getegid()) return "it changes its group";
  const bool has_capabilities = ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return has_capabilities && ::geteuid() != 0 ? "it gets capabilities" : nullptr;
}

void look_at_program(const std::string& name, Findings& findings) {
  const std::string path = find_program(name);
  struct stat about {};
  std::ifstream stream(path, std::ios::binary);
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode) || !stream) {
    return add_problem(findings, name, "there is no such program, or it cannot be read",
                       "give its path, as in --program ./server");
  }
  if (const char* how = gains_rights(path, about); how != nullptr) {
    return add_problem(
        findings, path,
        std::string(how) + " when it starts, so the system ignores LD_LIBRARY_PATH and LD_PRELOAD",
        "use a copy without that right: cp " + path + " .");
  }
  const ElfFile program = read_elf_file(path);
  if (program.kind == ElfFile::Kind::kNone) {
    return add_ok(findings, path, "it is a script; check the programs that it starts");
  }
  if (const auto obstacle = obstacle_in(program); obstacle) {
    return add_problem(findings, path, obstacle->what, obstacle->advice);
  }
  judge_needs(path, program, findings);
}

}  // namespace

void look_at_libraries(const std::string& program, Findings& findings) {
  look_at_our_own(findings);
  look_at_environment(findings);
  if (!program.empty()) look_at_program(program, findings);
}

}  // namespace verbatim::tools

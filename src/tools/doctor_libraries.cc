// SPDX-License-Identifier: Apache-2.0
// Which libibverbs and librdmacm a program gets.
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "tools/doctor.h"

namespace verbatim::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kLibraries = {"libibverbs.so.1", "librdmacm.so.1"};
const std::string kRun = "verbatim run";

fs::path our_folder() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path().parent_path() / "lib";
}

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
  return fs::exists(file, failed) && !fs::equivalent(file.parent_path(), our_folder(), failed);
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
  const fs::path library = our_folder() / kLibraries[0];
  if (::access(library.c_str(), R_OK) == 0) {
    return add_ok(findings, "library", "`" + kRun + "` gives programs " + library.string());
  }
  add_problem(findings, "library", "cannot read " + library.string() + ": " + std::strerror(errno),
              "install Verbatim so that lib/ lies beside the bin/ of this command");
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

/// The entries of a program for this machine that the dynamic linker uses.
struct Program {
  bool is_dynamic = false;  // has an interpreter: without one it loads no library
  std::vector<std::string> needed;
  std::string search_path;  // DT_RPATH or DT_RUNPATH
};

template <typename T>
std::optional<T> read_at(const std::string& file, std::uint64_t at) {
  if (at > file.size() || file.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

std::string text_at(const std::string& file, std::uint64_t at) {
  if (at >= file.size()) return {};
  return file.substr(at, std::min(file.find('\0', at), file.size()) - at);
}

/// From an address in memory to an offset in the file.
std::optional<std::uint64_t> file_offset(const std::vector<Elf64_Phdr>& segments,
                                         std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz) {
      return address - segment.p_vaddr + segment.p_offset;
    }
  }
  return std::nullopt;
}

Program read_program(const std::string& file, const Elf64_Ehdr& header) {
  Program program;
  std::vector<Elf64_Phdr> segments;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment) segments.push_back(*segment);
  }
  std::vector<Elf64_Dyn> entries;
  for (const Elf64_Phdr& segment : segments) {
    program.is_dynamic |= segment.p_type == PT_INTERP;
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(file, segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      entries.push_back(*entry);
    }
  }
  std::optional<std::uint64_t> strings;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRTAB) strings = file_offset(segments, entry.d_un.d_ptr);
  }
  for (const Elf64_Dyn& entry : entries) {
    if (!strings) break;
    const std::string text = text_at(file, *strings + entry.d_un.d_val);
    if (entry.d_tag == DT_NEEDED) program.needed.push_back(text);
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) program.search_path = text;
  }
  return program;
}

/// The file that a shell would execute.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& folder : split(environment("PATH"), ":")) {
    const std::string path = folder + "/" + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return name;
}

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

void judge_needs(const std::string& path, const Program& program, Findings& findings) {
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

void look_at_program(const std::string& name, Findings& findings) {
  const std::string path = find_program(name);
  struct stat about {};
  std::ifstream stream(path, std::ios::binary);
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode) || !stream) {
    return add_problem(findings, name, "there is no such program, or it cannot be read",
                       "give its path, as in --program ./server");
  }
  const std::string file((std::istreambuf_iterator<char>(stream)), {});
  if ((about.st_mode & (S_ISUID | S_ISGID)) != 0 && about.st_uid != ::geteuid()) {
    return add_problem(findings, path,
                       "it changes its user when it starts, so the system ignores "
                       "LD_LIBRARY_PATH and LD_PRELOAD",
                       "use a copy without that right: cp " + path + " .");
  }
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    return add_ok(findings, path, "it is a script; check the programs that it starts");
  }
  const auto self_file = content_of("/proc/self/exe");
  const auto self = read_at<Elf64_Ehdr>(self_file, 0);
  if (self && (header->e_ident[EI_CLASS] != self->e_ident[EI_CLASS] ||
               header->e_machine != self->e_machine)) {
    return add_problem(findings, path,
                       "it is for another kind of processor than Verbatim's library",
                       "build it, or Verbatim, for the same one");
  }
  const Program program = read_program(file, *header);
  if (!program.is_dynamic) {
    return add_problem(findings, path, "it is linked statically, so it loads no library",
                       "link it dynamically with -libverbs");
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

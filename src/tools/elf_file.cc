// SPDX-License-Identifier: Apache-2.0
#include "tools/elf_file.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace verbatim::tools {
namespace {

// More than any program has; a damaged file may say anything.
constexpr std::size_t kTextMax = 65536;
constexpr std::uint64_t kNotesMax = 4096;

template <typename T>
std::optional<T> read_at(std::ifstream& file, std::uint64_t at) {
  std::array<char, sizeof(T)> octets;
  file.clear();
  file.seekg(static_cast<std::streamoff>(at));
  if (!file.read(octets.data(), octets.size())) return std::nullopt;
  return std::bit_cast<T>(octets);
}

std::string text_at(std::ifstream& file, std::uint64_t at) {
  std::string text;
  file.clear();
  file.seekg(static_cast<std::streamoff>(at));
  for (char c = 0; text.size() < kTextMax && file.get(c) && c != 0;) text += c;
  return text;
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

/// The text of the note that version_note.cc makes, if it is among these.
std::string verbatim_note(std::ifstream& file, const Elf64_Phdr& notes) {
  constexpr std::string_view kOwner = "Verbatim";
  const auto padded = [](std::uint64_t octets) { return (octets + 3) & ~std::uint64_t{3}; };
  const std::uint64_t end = notes.p_offset + std::min<std::uint64_t>(notes.p_filesz, kNotesMax);
  for (std::uint64_t at = notes.p_offset; at < end;) {
    const auto note = read_at<Elf64_Nhdr>(file, at);
    if (!note) break;
    const std::uint64_t text = at + sizeof *note + padded(note->n_namesz);
    if (note->n_namesz == kOwner.size() + 1 && text_at(file, at + sizeof *note) == kOwner) {
      return text_at(file, text);
    }
    at = text + padded(note->n_descsz);
  }
  return {};
}

std::vector<Elf64_Dyn> read_dynamic(std::ifstream& file, const Elf64_Phdr& segment) {
  std::vector<Elf64_Dyn> entries;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = read_at<Elf64_Dyn>(file, segment.p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    entries.push_back(*entry);
  }
  return entries;
}

void take_texts(std::ifstream& file, const std::vector<Elf64_Phdr>& segments,
                const std::vector<Elf64_Dyn>& entries, ElfFile& elf) {
  std::optional<std::uint64_t> strings;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRTAB) strings = file_offset(segments, entry.d_un.d_ptr);
  }
  if (!strings) return;
  for (const Elf64_Dyn& entry : entries) {
    const std::uint64_t at = *strings + entry.d_un.d_val;
    if (entry.d_tag == DT_NEEDED) elf.needed.push_back(text_at(file, at));
    if (entry.d_tag == DT_SONAME) elf.own_name = text_at(file, at);
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) elf.search_path = text_at(file, at);
  }
}

std::optional<Elf64_Ehdr> header_of(std::ifstream& file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  const bool is_elf = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
  return is_elf ? header : std::nullopt;
}

bool is_for_this_machine(const Elf64_Ehdr& header) {
  std::ifstream own_file("/proc/self/exe", std::ios::binary);
  const auto own = header_of(own_file);
  return !own ||
         (header.e_ident[EI_CLASS] == own->e_ident[EI_CLASS] && header.e_machine == own->e_machine);
}

}  // namespace

ElfFile read_elf_file(const std::string& path) {
  ElfFile elf;
  std::ifstream file(path, std::ios::binary);
  const auto header = header_of(file);
  if (!header) return elf;
  elf.kind = is_for_this_machine(*header) ? ElfFile::Kind::kOurs : ElfFile::Kind::kForeign;
  if (elf.kind == ElfFile::Kind::kForeign) return elf;
  std::vector<Elf64_Phdr> segments;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (segment) segments.push_back(*segment);
  }
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) elf.interpreter = text_at(file, segment.p_offset);
    if (segment.p_type == PT_NOTE && elf.verbatim_version.empty()) {
      elf.verbatim_version = verbatim_note(file, segment);
    }
    if (segment.p_type == PT_DYNAMIC) {
      take_texts(file, segments, read_dynamic(file, segment), elf);
    }
  }
  return elf;
}

std::optional<Obstacle> obstacle_in(const ElfFile& program) {
  if (program.kind == ElfFile::Kind::kNone) return std::nullopt;
  if (program.kind == ElfFile::Kind::kForeign) {
    return Obstacle{"it is for another kind of processor than Verbatim's library",
                    "build it, or Verbatim, for the same one"};
  }
  if (program.interpreter.find("ld-musl") != std::string::npos) {
    return Obstacle{"its C library is musl, and Verbatim's libraries need glibc",
                    "build it for glibc", false};
  }
  // The dynamic linker itself, which was asked to start a program, has no interpreter.
  if (program.interpreter.empty() && !program.own_name.starts_with("ld-linux")) {
    return Obstacle{"it is linked statically, so it loads no library",
                    "link it dynamically with -libverbs"};
  }
  return std::nullopt;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* value = std::getenv("PATH");
  const std::string_view list = value != nullptr ? value : "/bin:/usr/bin";
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    const std::string path = std::string(list.substr(at, end - at)) + "/" + name;
    if (end > at && ::access(path.c_str(), X_OK) == 0) return path;
    at = end + 1;
  }
  return name;
}

}  // namespace verbatim::tools

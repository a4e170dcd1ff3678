#include "elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "error.h"

namespace tvm_sparse {
namespace {

constexpr uint64_t kPage = 4096;
#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#endif

Error wrong(const File& file, const std::string& found) {
  return bad_artifact(file.path(), found, "a library of ours");
}

template <typename Record>
std::vector<Record> records(const std::string& bytes) {
  std::vector<Record> result(bytes.size() / sizeof(Record));
  if (!result.empty()) std::memcpy(result.data(), bytes.data(), result.size() * sizeof(Record));
  return result;
}

}  // namespace

SharedObject::SharedObject(const File& file) : file_(file), size_(file.size()) {
  auto header = records<Elf64_Ehdr>(read(0, sizeof(Elf64_Ehdr))).front();
  if (std::memcmp(header.e_ident,
                  "\x7f"
                  "ELF\x02\x01",
                  6) != 0 ||
      header.e_type != ET_DYN) {
    throw wrong(file, "no shared library of 64 bits");
  }
  if (header.e_machine != kMachine) {
    throw wrong(file, "a library for machine " + std::to_string(header.e_machine) + " of ELF");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_shentsize != sizeof(Elf64_Shdr)) {
    throw wrong(file, "entries of an unknown size in its tables");
  }
  auto programs = records<Elf64_Phdr>(read(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)));
  for (const auto& program : programs) {
    if (program.p_type == PT_LOAD && program.p_filesz > program.p_memsz) {
      throw wrong(file, "a segment that is larger than its memory");
    }
    check_range(program.p_offset, program.p_filesz);
  }
  auto sections = records<Elf64_Shdr>(read(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)));
  if (programs.empty() || header.e_shstrndx >= sections.size()) {
    throw wrong(file, "no segments or no names of sections");
  }
  for (const auto& section : sections) {
    if (section.sh_type != SHT_NOBITS) check_range(section.sh_offset, section.sh_size);
  }
  const auto& table = sections[header.e_shstrndx];
  std::string names = read(table.sh_offset, table.sh_size);
  for (const auto& section : sections) {
    std::string name = section.sh_name < names.size() ? names.c_str() + section.sh_name : "";
    sections_[name] = {section.sh_addr, section.sh_offset, section.sh_size};
  }
}

std::string SharedObject::signature() const {
  auto found = sections_.find(".tvm_sparse.signature");
  if (found == sections_.end()) return "";
  static const char* digits = "0123456789abcdef";
  std::string result;
  for (unsigned char byte : read(found->second.offset, found->second.size)) {
    result += digits[byte >> 4];
    result += digits[byte & 15];
  }
  return result;
}

std::pair<uint64_t, uint64_t> SharedObject::weights() const {
  for (const char* name : {".tvm_sparse.weights", ".lrodata"}) {
    auto found = sections_.find(name);
    if (found == sections_.end()) continue;
    const Section& section = found->second;
    check_range(section.offset, section.size);
    if (!section.size) throw wrong(file_, "an empty weight section");
    // A linker may begin .lrodata before the page-aligned objects in it. One byte follows the last.
    uint64_t begin = section.offset + (kPage - section.address % kPage) % kPage;
    return {begin, std::max(begin, section.offset + section.size - 1)};
  }
  throw wrong(file_, "no weight section");
}

void SharedObject::check_range(uint64_t offset, uint64_t size) const {
  if (offset > size_ || size > size_ - offset) {
    throw wrong(file_, "a part that ends beyond byte " + std::to_string(size_));
  }
}

std::string SharedObject::read(uint64_t offset, uint64_t size) const {
  check_range(offset, size);
  return file_.read(offset, size);
}

}  // namespace tvm_sparse

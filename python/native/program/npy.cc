#include "npy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "../src/sizes.h"
#include "npy_header.h"

namespace npy {
namespace {

const std::string kMagic = "\x93NUMPY";
constexpr size_t kMostHeader = 1 << 20;
constexpr size_t kChunk = 1 << 24;  // memory grows with what has been read, whatever is claimed

struct Type {
  const char *code, *name;
  size_t bytes;
};

constexpr Type kTypes[] = {{"|b1", "bool", 1},  {"|i1", "int8", 1},   {"|u1", "uint8", 1},
                           {"<i2", "int16", 2}, {"<u2", "uint16", 2}, {"<f2", "float16", 2},
                           {"<i4", "int32", 4}, {"<u4", "uint32", 4}, {"<f4", "float32", 4},
                           {"<i8", "int64", 8}, {"<u8", "uint64", 8}, {"<f8", "float64", 8}};

// What comes from a file as short ASCII that any terminal can print.
std::string shown(const std::string& text) {
  std::string result = text.substr(0, 40);
  for (char& letter : result) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return result + (text.size() > result.size() ? "..." : "");
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) refuse(std::string("cannot be read (") + std::strerror(errno) + ")");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::runtime_error(path_ + ": " + what + "; expected a .npy file of plain numbers.");
  }

  // Exactly so many bytes.
  template <typename Bytes>
  Bytes next(uint64_t size) {
    Bytes result;
    while (result.size() < size) {
      size_t have = result.size(), more = std::min<uint64_t>(kChunk, size - have);
      result.resize(have + more);
      file_.read(&result[have], static_cast<std::streamsize>(more));
      if (static_cast<size_t>(file_.gcount()) != more) refuse("cut off");
    }
    return result;
  }

  // A number in so many bytes, the lowest first.
  size_t number(size_t bytes) {
    size_t result = 0, place = 0;
    for (unsigned char byte : next<std::string>(bytes)) result |= size_t{byte} << 8 * place++;
    return result;
  }

  void end() {
    if (file_.peek() != std::ifstream::traits_type::eof()) refuse("more bytes behind the array");
  }

 private:
  const std::string& path_;
  std::ifstream file_;
};

Header read_header(Reader& reader) {
  if (reader.next<std::string>(kMagic.size()) != kMagic) reader.refuse("no array");
  size_t version = reader.number(2) & 0xFF;  // the minor version is behind the major one
  if (version < 1 || version > 3) {
    reader.refuse("an array of version " + std::to_string(version));
  }
  size_t length = reader.number(version == 1 ? 2 : 4);
  if (length > kMostHeader) reader.refuse("a header of " + std::to_string(length) + " bytes");
  auto header = parse_header(reader.next<std::string>(length));
  if (!header) reader.refuse("a header that NumPy does not write");
  if (header->columns_first && header->shape.size() > 1) {
    reader.refuse("an array of columns (fortran_order)");
  }
  return *header;
}

}  // namespace

Array read(const std::string& path) {
  Reader reader(path);
  Header header = read_header(reader);
  auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                           [&](const Type& known) { return header.type == known.code; });
  if (type == std::end(kTypes)) reader.refuse("elements of the type " + shown(header.type));
  auto elements = tvm_sparse::elements_of(header.shape.data(), header.shape.size());
  if (!elements) reader.refuse("more elements than any memory has");
  auto bytes = reader.next<std::vector<char>>(*elements * type->bytes);
  reader.end();
  return {type->name, header.shape, std::move(bytes)};
}

void write(const std::string& path, const tvm_sparse_tensor& tensor) {
  auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& known) {
    return std::strcmp(tensor.dtype, known.name) == 0;
  });
  if (type == std::end(kTypes)) {
    throw std::runtime_error(path + ": NumPy has no type " + tensor.dtype + ".");
  }
  Header header{type->code, false, {tensor.shape, tensor.shape + tensor.ndim}};
  auto elements = tvm_sparse::elements_of(header.shape.data(), header.shape.size());
  if (!elements) throw std::runtime_error(path + ": an array of too many elements.");
  std::string text = header_text(header);
  text.append(63 - (kMagic.size() + 4 + text.size()) % 64, ' ');
  text += '\n';
  std::string prefix = kMagic + '\1' + '\0';
  prefix += static_cast<char>(text.size() % 256);
  prefix += static_cast<char>(text.size() / 256);
  text = prefix + text;
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.write(static_cast<const char*>(tensor.data),
             static_cast<std::streamsize>(*elements * type->bytes));
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written.");
}

}  // namespace npy

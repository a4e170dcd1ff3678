#include "npy.h"

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <stdexcept>

namespace npy {
namespace {

constexpr size_t kPrefix = 10;  // magic, version, length of the header

struct Type {
  const char *code, *name;
  size_t bytes;
};

constexpr Type kTypes[] = {{"|b1", "bool", 1},  {"|i1", "int8", 1},   {"|u1", "uint8", 1},
                           {"<i2", "int16", 2}, {"<u2", "uint16", 2}, {"<f2", "float16", 2},
                           {"<i4", "int32", 4}, {"<u4", "uint32", 4}, {"<f4", "float32", 4},
                           {"<i8", "int64", 8}, {"<u8", "uint64", 8}, {"<f8", "float64", 8}};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + ": " + what + "; expected a .npy file of plain numbers.");
}

const Type& type_of(const std::string& path, const std::string& code) {
  for (const Type& type : kTypes) {
    if (code == type.code) return type;
  }
  refuse(path, "elements of the type " + code);
}

}  // namespace

Array read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be read");
  std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  if (all.size() < kPrefix || std::string(all.data(), 6) != "\x93NUMPY" || all[6] != 1) {
    refuse(path, "no array of version 1");
  }
  size_t length =
      static_cast<uint8_t>(all[8]) + 256 * static_cast<size_t>(static_cast<uint8_t>(all[9]));
  if (all.size() < kPrefix + length) refuse(path, "cut off");
  std::string header(all.data() + kPrefix, length);
  std::smatch found;
  static const std::regex form(
      R"(\{'descr': '([^']+)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \}\s*)");
  if (!std::regex_match(header, found, form)) refuse(path, "no contiguous array");
  const Type& type = type_of(path, found[1]);
  Array result{type.name, {}, {all.begin() + static_cast<ptrdiff_t>(kPrefix + length), all.end()}};
  size_t size = type.bytes;
  static const std::regex digits("[0-9]+");
  std::string extents = found[2];
  for (std::sregex_iterator i(extents.begin(), extents.end(), digits), end; i != end; ++i) {
    result.shape.push_back(std::stoll(i->str()));
    size *= static_cast<size_t>(result.shape.back());
  }
  if (result.bytes.size() != size)
    refuse(path, std::to_string(result.bytes.size()) + " bytes of data");
  return result;
}

void write(const std::string& path, const tvm_sparse_tensor& tensor) {
  const Type* type = nullptr;
  for (const Type& known : kTypes) {
    if (std::string(tensor.dtype) == known.name) type = &known;
  }
  if (!type) throw std::runtime_error(path + ": NumPy has no type " + tensor.dtype + ".");
  std::string header =
      std::string("{'descr': '") + type->code + "', 'fortran_order': False, 'shape': (";
  size_t size = type->bytes;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    header += (axis ? ", " : "") + std::to_string(tensor.shape[axis]);
    size *= static_cast<size_t>(tensor.shape[axis]);
  }
  header += tensor.ndim == 1 ? ",), }" : "), }";
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  const char prefix[kPrefix] = {'\x93',
                                'N',
                                'U',
                                'M',
                                'P',
                                'Y',
                                1,
                                0,
                                static_cast<char>(header.size() % 256),
                                static_cast<char>(header.size() / 256)};
  std::ofstream file(path, std::ios::binary);
  file.write(prefix, kPrefix);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(static_cast<const char*>(tensor.data), static_cast<std::streamsize>(size));
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written.");
}

}  // namespace npy

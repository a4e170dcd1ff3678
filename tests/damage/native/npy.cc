// Read damaged .npy files: npy SEED ROUNDS FILE. Prints how many were read, and how many refused.
#include "npy.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "random.h"

namespace {

const std::vector<std::string> kWords{"\x93NUMPY",
                                      std::string("\1\0", 2),
                                      std::string("\2\0", 2),
                                      "\xff\xff",
                                      "'",
                                      "\"",
                                      "{",
                                      "}",
                                      "(",
                                      ")",
                                      ",",
                                      ":",
                                      " ",
                                      "'descr'",
                                      "'shape': (",
                                      "'fortran_order': True",
                                      "False",
                                      "'<f4'",
                                      "'|b1'",
                                      "'>f8'",
                                      "'|O'",
                                      "[('a', '<f4')]",
                                      "0",
                                      "-1",
                                      "72057594037927937",
                                      "4611686018427387904",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "99999999999999999999999999",
                                      std::string(3, '\0'),
                                      std::string(60000, ' '),
                                      std::string(9000, '('),
                                      std::string(300, ',')};

std::string sound(Random& random) {
  std::vector<int64_t> shape;
  uint64_t bytes = 4;
  for (uint64_t axes = random.below(4); axes; --axes) {
    shape.push_back(static_cast<int64_t>(random.below(4)));
    bytes *= static_cast<uint64_t>(shape.back());
  }
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int64_t extent : shape) text += std::to_string(extent) + ", ";
  text += "), }\n";
  std::string result = "\x93NUMPY";
  result += std::string("\1\0", 2) + static_cast<char>(text.size()) + '\0';
  return result + text + std::string(bytes, 'x');
}

// Whether an array has as many bytes as its shape says, without numbers that wrap.
bool fits(const npy::Array& array) {
  long double size = array.dtype == "bool" || array.dtype.find("int8") != std::string::npos ? 1
                     : array.dtype.find("16") != std::string::npos                          ? 2
                     : array.dtype.find("32") != std::string::npos                          ? 4
                                                                                            : 8;
  for (int64_t extent : array.shape) size *= static_cast<long double>(extent);
  return size == static_cast<long double>(array.bytes.size());
}

}  // namespace

int main(int, char** words) {
  Random random(std::strtoull(words[1], nullptr, 10));
  int read = 0, refused = 0;
  for (long round = std::strtol(words[2], nullptr, 10); round; --round) {
    std::string bytes = sound(random);
    if (random.below(8)) bytes = damaged(bytes, kWords, random);
    std::ofstream(words[3], std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
    try {
      if (!fits(npy::read(words[3]))) std::abort();
      ++read;
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  std::printf("%d %d\n", read, refused);
  return 0;
}

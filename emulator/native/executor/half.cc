#include "half.h"

#include <array>

namespace ptx {

const float* HalfTable() {
  static const auto* table = [] {
    auto* made = new std::array<float, 65536>;
    for (int bits = 0; bits < 65536; ++bits) {
      (*made)[bits] = static_cast<float>(Half{static_cast<uint16_t>(bits)}.Value());
    }
    return made;
  }();
  return table->data();
}

}  // namespace ptx
